#include "report/key_help.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace steelyard {
namespace {

std::string kind_words(const Key& key) {
  switch (key.kind) {
    case KeyKind::kModel:
      return "a preset, a path, a table of config.json's keys, or a size";
    case KeyKind::kDevice:
      return "a device, perhaps with a count: \"8xh100-sxm-80gb\"";
    case KeyKind::kMachine:
      return "a machine (steelyard list machines), a path, or a table";
    case KeyKind::kPrecision:
      return "a precision (steelyard list precisions)";
    case KeyKind::kOptimizer:
      return "an optimizer (steelyard list optimizers)";
    case KeyKind::kName:
      return "one of the names below";
    case KeyKind::kNames:
      return "a list of the names below";
    case KeyKind::kCount:
      return "a whole number; 8_192 and 7B are understood";
    case KeyKind::kSequence:
      return "a whole number of tokens; 8k is 8192";
    case KeyKind::kBytes:
      return "bytes: a whole number, or \"25MiB\"";
    case KeyKind::kBandwidth:
      return "a bandwidth: \"400 Gb/s\", \"50 GB/s\"";
    case KeyKind::kNumber:
      return "a number";
    case KeyKind::kFraction:
      return "a number from 0 to 1";
    case KeyKind::kSwitch:
      return "true or false";
    case KeyKind::kClip:
      return "true, false, or the number at which to clip";
    case KeyKind::kText:
      return "a text";
    case KeyKind::kTexts:
      return "a list of texts";
    case KeyKind::kCounts:
      return "a list of whole numbers";
  }
  return "";
}

// What the names of a key mean belongs to the lists; here they are only named, in one line.
std::vector<std::string> names_to_show(const Key& key) {
  if (key.kind == KeyKind::kModel || key.kind == KeyKind::kSwitch) return {};
  return accepted_names(key);
}

}  // namespace

std::string key_text(const Key& key, const Style& style) {
  constexpr int kIndent = 10;
  const auto line = [&](std::string_view label, const std::string& text) {
    return padded_right("  " + std::string(label), kIndent) + wrapped(style, text, kIndent) + "\n";
  };
  std::string result = painted(style, Ink::kStrong, key.path) + "\n";
  result += line("says", std::string(key.help));
  result += line("takes", kind_words(key));
  const std::vector<std::string> names = names_to_show(key);
  if (!names.empty())
    result += padded_right("  names", kIndent) + facts(style, names, kIndent) + "\n";
  result += line("absent", std::string(key.fallback));
  std::vector<std::string> flags = {key.flag};
  flags.insert(flags.end(), key.flag_aliases.begin(), key.flag_aliases.end());
  result += padded_right("  flag", kIndent) + facts(style, flags, kIndent) + "\n";
  return result;
}

nlohmann::ordered_json json_of(const Key& key) {
  return {{"schema", "steelyard.key/1"},
          {"key", key.path},
          {"help", key.help},
          {"takes", kind_words(key)},
          {"names", names_to_show(key)},
          {"absent", key.fallback},
          {"flag", key.flag},
          {"aliases", key.flag_aliases}};
}

}  // namespace steelyard
