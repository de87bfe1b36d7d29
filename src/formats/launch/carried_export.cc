#include "formats/launch/carried_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "formats/launch/carried_concepts.h"

namespace steelyard {
namespace {

bool is_plain_option(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./:,@%+").find(c) != std::string_view::npos;
  });
}

}  // namespace

// Keys that only the run file carries, of files that this target has not.
void lose_carried(ConfigWriter& writing, std::string_view target) {
  std::set<std::string, std::less<>> formats = {std::string(target)};
  if (target == "deepspeed" || target == "accelerate") formats.insert("trainer");
  if (writing.look_word("engine") == "deepspeed") formats.insert("deepspeed");
  for (const LeftBehind& left : left_behind(writing.run(), formats, writing.brought)) {
    std::string keys;
    for (const std::string& key : left.keys) keys += (keys.empty() ? "" : ", ") + key;
    writing.losses.push_back(
        {"carried." + left.format, "", fmt::format("{} has no key for {}", target, keys)});
  }
}

// What else an sbatch script asked Slurm for: account, memory, mail. Words that need quotes are left out, and said so.
std::string carried_directives(ConfigWriter& writing) {
  const Value* own = writing.run().at("carried.sbatch");
  std::string text;
  if (own == nullptr || !own->is_table()) return text;
  for (const Value::Member& member : own->members()) {
    std::string name = member.key;
    std::replace(name.begin(), name.end(), '_', '-');
    const bool is_switch = member.value.is_bool() && member.value.as_bool();
    const std::string word = word_of(member.value);
    if (!is_plain_option(name) || !is_plain_option(word) || name == "job-name") continue;
    text += is_switch ? fmt::format("#SBATCH --{}\n", name)
                      : fmt::format("#SBATCH --{}={}\n", name, word);
    writing.brought.insert("carried.sbatch." + member.key);
  }
  return text;
}

}  // namespace steelyard
