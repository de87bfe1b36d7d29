#include "formats/launch/nemo_references.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "formats/launch/mapping.h"

namespace steelyard {
namespace {

// The launcher's stages: a file below conf/training is `training` of the whole.
constexpr std::string_view kLauncherStages[] = {
    "training.",     "peft.",    "fine_tuning.", "prompt_learning.", "adapter_learning.",
    "ia3_learning.", "rlhf_rm.", "rlhf_ppo.",    "steerlm_reg.",
};

constexpr std::int64_t kLargestFactor = 1'000'000'000;

}  // namespace

Value References::resolved(const Value& value, std::string_view section, int depth) const {
  if (!value.is_string() || depth > 8) return value;
  std::string_view text = value.as_string();
  if (!text.starts_with("${") || !text.ends_with("}")) return value;
  text = text.substr(2, text.size() - 3);
  Value found;
  if (text.find(':') != std::string_view::npos) {
    const auto result = computed(text, section, depth);
    if (!result) return value;
    found = Value::integer(*result);
  } else {
    std::string path(text);
    if (path.starts_with(".")) {
      // One dot is the value's own table, each further one the table around it.
      std::string table(section);
      std::size_t dots = 1;
      while (dots < path.size() && path[dots] == '.') {
        table.resize(table.rfind('.') == std::string::npos ? 0 : table.rfind('.'));
        ++dots;
      }
      path.erase(0, dots);
      if (!table.empty()) path = fmt::format("{}.{}", table, path);
    } else if (document_.at(path) == nullptr) {
      for (const std::string_view stage : kLauncherStages)
        if (path.starts_with(stage)) path.erase(0, stage.size());
    }
    const Value* target = document_.at(path);
    if (target == nullptr || target == &value) return value;
    const std::size_t dot = path.rfind('.');
    found = resolved(*target, dot == std::string::npos ? "" : path.substr(0, dot), depth + 1);
  }
  found.set_mark(value.mark());
  return found;
}

std::optional<std::int64_t> References::computed(std::string_view text, std::string_view section,
                                                 int depth) const {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  text.remove_prefix(colon + 1);
  // The comma outside of inner braces.
  std::size_t at = 0;
  for (int inside = 0; at < text.size() && (text[at] != ',' || inside > 0); ++at)
    inside += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
  if (at == text.size()) return std::nullopt;
  const auto left = number(text.substr(0, at), section, depth);
  const auto right = number(text.substr(at + 1), section, depth);
  if (!left || !right || *left < 0 || *right < 0 || *left > kLargestFactor ||
      *right > kLargestFactor)
    return std::nullopt;
  if (name == "multiply") return *left * *right;
  if (*right == 0) return std::nullopt;
  if (name == "divide_ceil") return (*left + *right - 1) / *right;
  if (name == "divide_floor" || name == "divide") return *left / *right;
  return std::nullopt;
}

std::optional<std::int64_t> References::number(std::string_view text, std::string_view section,
                                               int depth) const {
  while (text.starts_with(" ")) text.remove_prefix(1);
  while (text.ends_with(" ")) text.remove_suffix(1);
  return count_of(resolved(typed_value(text), section, depth + 1));
}

}  // namespace steelyard
