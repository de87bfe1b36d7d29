#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/flags.h"
#include "document/edit_distance.h"
#include "job/keys.h"

namespace steelyard {
namespace {

constexpr int kFlagColumns = 30;

std::string head(const Command& command, const Style& style) {
  std::string result = fmt::format("steelyard {} {}\n", command.name, command.arguments);
  result += "  " + wrapped(style, std::string(command.summary), 2) + "\n";
  result += "\n" + painted(style, Ink::kQuiet, "examples") + "\n";
  for (const std::string_view example : command.examples) result += fmt::format("  {}\n", example);
  return result;
}

std::string flag_line(std::string names, std::string_view help, const Style& style) {
  std::string result = "  " + std::move(names);
  if (columns_of(result) > kFlagColumns - 2) {
    result += "\n";
    result.append(kFlagColumns, ' ');
  } else {
    result = padded_right(std::move(result), kFlagColumns);
  }
  return result + wrapped(style, help, kFlagColumns) + "\n";
}

std::string flags_text(const Command& command, const Style& style, bool all) {
  std::string result = "\n" + painted(style, Ink::kQuiet, "flags") + "\n";
  for (const Flag& flag : flags())
    if (belongs(flag, command.name) && (all || !flag.rare))
      result += flag_line(flag_names(flag), flag.help, style);
  return result;
}

std::string keys_text(const Style& style) {
  std::string result = "\n" + painted(style, Ink::kQuiet, "flags that mirror the run file") + "\n";
  result +=
      flag_line("--on [COUNTx]DEVICE",
                "where it runs: 8xh100-sxm-80gb is cluster.device and cluster.devices", style);
  std::string_view section;
  for (const Key& key : run_file_keys()) {
    if (key.section != section) {
      section = key.section;
      result += "\n" + painted(style, Ink::kQuiet, fmt::format("[{}]", section)) + "\n";
    }
    std::string names = key.flag;
    for (const std::string& alias : key.flag_aliases) names += ", " + alias;
    std::string help(key.help);
    if (!key.names.empty()) help += "; " + any_of(key.names);
    help += fmt::format(" (absent: {})", key.fallback);
    result += flag_line(std::move(names), help, style);
  }
  return result;
}

}  // namespace

std::string flag_names(const Flag& flag) {
  std::string names;
  if (flag.letter != 0) names += fmt::format("-{}, ", flag.letter);
  names += fmt::format("--{}", flag.name);
  if (flag.value.empty()) return names;
  if (flag.choices.empty()) return names + fmt::format(" {}", flag.value);
  std::string choices;
  for (const std::string_view word : words_in(flag.choices))
    choices += (choices.empty() ? "" : "|") + std::string(word);
  return names + " " + choices;
}

std::string overview_text(const Style& style) {
  std::string result =
      "steelyard predicts memory and time of a large-model training run, without a GPU.\n";
  result += "\n" + painted(style, Ink::kQuiet, "try") + "\n";
  result += "  steelyard weigh llama-3.1-8b --on 8xh100-sxm-80gb --sequence-length 8192\n";
  result += "\n" + painted(style, Ink::kQuiet, "commands") + "\n";
  for (const Command& command : commands())
    result += padded_right(fmt::format("  {}", command.name), 14) +
              wrapped(style, command.summary, 14) + "\n";
  result += "\nsteelyard COMMAND -h: one screen; --help: every flag; --version\n";
  return result;
}

std::string short_help(const Command& command, const Style& style) {
  std::string result = head(command, style) + flags_text(command, style, false);
  if (command.run_keys)
    result += fmt::format(
        "\n  {}\n",
        wrapped(
            style,
            fmt::format(
                "and a flag for each key of the run file: --on 8xh100-sxm-80gb --sequence-length "
                "8192 --engine fsdp2 --zero-stage 3 ... (steelyard {} --help)",
                command.name),
            2));
  return result;
}

std::string full_help(const Command& command, const Style& style) {
  std::string result = head(command, style) + "\n" + wrapped(style, command.about, 0) + "\n" +
                       flags_text(command, style, true);
  if (command.run_keys) result += keys_text(style);
  return result;
}

}  // namespace steelyard
