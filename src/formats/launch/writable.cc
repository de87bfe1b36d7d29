#include "formats/launch/writable.h"

#include <fmt/format.h>

#include <algorithm>

#include "document/quoting.h"
#include "formats/launch/arguments.h"

namespace steelyard {
namespace {

constexpr std::size_t kLongestKey =
    1000;  // a key of YAML may be 1,024 characters, its quotes with it

Place place_of(const Value& value, const Mark& key) {
  return value.mark().source != nullptr ? value.place() : key.place();
}

void check_texts(const Value& value, const std::string& path, const Place& at,
                 Diagnostics& problems) {
  const auto refuse = [&](const char* what) {
    problems.push_back({Severity::kError, "E612",
                        fmt::format("{} of {} is no text", what, comment_text(path)), at,
                        "it is not UTF-8, or holds the character 0",
                        "no launch file can say it: write it in UTF-8"});
  };
  if (value.is_string() && !is_plain_text(value.as_string())) refuse("the value");
  if (value.is_array())
    for (const Value& item : value.items())
      check_texts(item, path, place_of(item, value.mark()), problems);
  if (!value.is_table()) return;
  for (const Value::Member& member : value.members()) {
    const std::string inner = path.empty() ? member.key : path + "." + member.key;
    if (!is_plain_text(member.key)) refuse("a key");
    check_texts(member.value, inner, place_of(member.value, member.key_mark), problems);
  }
}

void check_slurm(const Value& run, Diagnostics& problems) {
  const auto check = [&](const char* key, bool (*right)(std::string_view), const char* expected,
                         const char* help) {
    const Value* value = run.at(key);
    if (value == nullptr || right(word_of(*value))) return;
    problems.push_back({Severity::kError, "E611",
                        fmt::format("{} is {}", key, comment_text(shown(*value))), value->place(),
                        expected, help});
  };
  check("launch.partition", is_slurm_name, "expected the name of a partition",
        "letters, digits, _ . and -, with commas between several");
  check("launch.time", is_slurm_time, "expected a time limit of Slurm",
        "30 (minutes), 02:00:00, 1-12:00:00 or UNLIMITED");
}

}  // namespace

Diagnostics unwritable(const Value& run, bool slurm) {
  Diagnostics problems;
  check_texts(run, "", run.place(), problems);
  const Value* environment = run.find("environment");
  if (environment != nullptr && environment->is_table())
    for (const Value::Member& member : environment->members())
      if (!is_package(member.key) && !is_variable_name(member.key))
        problems.push_back(
            {Severity::kError, "E610",
             fmt::format("no environment variable can be called \"{}\"", comment_text(member.key)),
             place_of(member.value, member.key_mark), "expected letters, digits and _",
             "a name like NCCL_DEBUG"});
  if (slurm) check_slurm(run, problems);
  return problems;
}

bool chooses_programs(std::string_view variable) {
  for (const std::string_view prefix : {"LD_", "DYLD_", "BASH_", "PYTHON", "GCONV_"})
    if (variable.starts_with(prefix)) return true;
  for (const std::string_view name :
       {"PATH", "ENV", "IFS", "PS4", "SHELL", "SHELLOPTS", "BASHOPTS", "CDPATH", "GLOBIGNORE",
        "PROMPT_COMMAND", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX", "NVM_DIR", "EDITOR", "PAGER"})
    if (variable == name) return true;
  return false;
}

bool is_package(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

void leave_out_unwritable_flags(ConfigWriter& writing) {
  std::erase_if(writing.theirs.members(), [&](const Value::Member& member) {
    const Value& value = member.value;
    const char* why = nullptr;
    if (!is_flag_name(member.key))
      why = "no flag can be called so";
    else if (value.is_array() &&
             std::any_of(value.items().begin(), value.items().end(), begins_like_a_flag))
      why = "an item that begins with - would be read as a flag";
    if (why != nullptr)
      writing.losses.push_back({"--" + member.key, value.is_table() ? "" : shown(value), why});
    return why != nullptr;
  });
}

void leave_out_unwritable_keys(ConfigWriter& writing) {
  const std::function<void(Value&, const std::string&)> visit = [&](Value& table,
                                                                    const std::string& path) {
    std::erase_if(table.members(), [&](const Value::Member& member) {
      if (member.key.size() <= kLongestKey) return false;
      writing.losses.push_back({path + member.key.substr(0, 40) + "...", "",
                                fmt::format("a key of {} characters", member.key.size())});
      return true;
    });
    for (Value::Member& member : table.members())
      if (member.value.is_table()) visit(member.value, path + member.key + ".");
  };
  visit(writing.theirs, "");
}

}  // namespace steelyard
