#include "model/stored_quantisation.h"

#include <algorithm>
#include <array>
#include <utility>

namespace steelyard {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

bool says_yes(const Value& table, std::string_view key) {
  const Value* value = table.find(key);
  return value != nullptr && value->is_bool() && value->as_bool();
}

// Parts of names of republished checkpoints, between dashes; a method as config.json would call it.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kInNames = {{
    {"gptq", "gptq"},
    {"awq", "awq"},
    {"aqlm", "aqlm"},
    {"gguf", "gguf"},
    {"exl2", "exl2"},
    {"hqq", "hqq"},
    {"w4a16", "compressed-tensors"},
    {"w8a8", "compressed-tensors"},
    {"w8a16", "compressed-tensors"},
    {"fp8", "fp8"},
    {"nvfp4", "modelopt"},
    {"mlx", "mlx"},
}};

}  // namespace

std::optional<StoredQuantisation> stored_quantisation(const Value& config) {
  const Value* said = config.find("quantization_config");
  if (said == nullptr || !said->is_table() || said->members().empty()) return std::nullopt;
  StoredQuantisation stored;
  const Value* method = said->find("quant_method");
  stored.method = method != nullptr && method->is_string() ? lower(method->as_string()) : "";
  const bool four = says_yes(*said, "load_in_4bit"), eight = says_yes(*said, "load_in_8bit");
  if (stored.method.empty()) stored.method = four || eight ? "bitsandbytes" : "of an unknown kind";
  if (stored.method == "bitsandbytes") {
    stored.type = eight ? ElementType::kInt8 : ElementType::kNormalFloat4;
    stored.twice = !eight && says_yes(*said, "bnb_4bit_use_double_quant");
  }
  stored.comes_back = stored.method == "mxfp4";
  return stored;
}

std::size_t quantisation_word_in(std::string_view name) {
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find_first_of("-_.", at), name.size());
    const std::string part = lower(name.substr(at, end - at));
    if (part == "bnb" || part == "nf4" ||
        std::any_of(kInNames.begin(), kInNames.end(),
                    [&](const auto& known) { return known.first == part; }))
      return at;
    at = end + 1;
  }
  return std::string_view::npos;
}

std::optional<StoredQuantisation> quantisation_in_name(std::string_view model) {
  const std::string name = lower(model.substr(model.rfind('/') + 1));
  StoredQuantisation stored;
  // Their configs quantise the constants, too (unsloth/Meta-Llama-3.1-8B-bnb-4bit, config.json).
  for (const std::string_view four : {"bnb-4bit", "nf4"})
    if (name.find(four) != std::string::npos) {
      stored.method = "bitsandbytes";
      stored.type = ElementType::kNormalFloat4;
      stored.twice = true;
      return stored;
    }
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find_first_of("-_.", at), name.size());
    const std::string_view part = std::string_view(name).substr(at, end - at);
    for (const auto& [known, method] : kInNames)
      if (part == known) {
        stored.method = method;
        return stored;
      }
    at = end + 1;
  }
  return std::nullopt;
}

}  // namespace steelyard
