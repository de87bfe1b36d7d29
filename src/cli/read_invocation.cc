#include "cli/read_invocation.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <deque>
#include <optional>

#include "cli/flags.h"
#include "cli/share_work.h"
#include "document/edit_distance.h"
#include "job/keys.h"

namespace steelyard {
namespace {

// Everything a flag may be called, for suggestions.
std::vector<std::string> names_for(const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : flags())
    if (belongs(flag, command.name)) names.push_back("--" + std::string(flag.name));
  if (command.run_keys) {
    names.emplace_back("--on");
    for (const Key& key : run_file_keys()) {
      names.push_back(key.flag);
      names.insert(names.end(), key.flag_aliases.begin(), key.flag_aliases.end());
    }
  }
  return names;
}

// What launchers say in one word, and keys of ours in others.
struct SaidElsewhere {
  std::string_view flag, here;
};
constexpr std::array kSaidElsewhere = {
    SaidElsewhere{"--batch-size",
                  "--micro-batch for one device, --global-batch for one step of all"},
    SaidElsewhere{"--train-batch-size", "--global-batch"},
    SaidElsewhere{"--gradient-checkpointing", "--recompute full"},
    SaidElsewhere{"--activation-checkpointing", "--recompute full"},
    SaidElsewhere{"--recompute-activations", "--recompute selective"},
    SaidElsewhere{"--bf16", "--precision bf16-mixed, bf16-autocast or bf16-pure"},
    SaidElsewhere{"--fp16", "--precision fp16-mixed"},
    SaidElsewhere{"--fp8", "--precision with an fp8 recipe (steelyard list precisions)"},
    SaidElsewhere{"--ddp", "--engine ddp"},
    SaidElsewhere{"--fsdp", "--engine fsdp2 or fsdp1"},
    SaidElsewhere{"--deepspeed", "--engine deepspeed --zero 3"},
    SaidElsewhere{"--megatron", "--engine megatron"},
    SaidElsewhere{"--lora", "--adapter lora"},
    SaidElsewhere{"--qlora", "--adapter lora --adapter-base nf4"},
    SaidElsewhere{"--peft", "--adapter lora"},
    SaidElsewhere{"--lora-r", "--adapter lora --adapter-rank 16"},
    SaidElsewhere{"--lora-rank", "--adapter lora --adapter-rank 16"},
    SaidElsewhere{"--lora-alpha", "--adapter-alpha"},
    SaidElsewhere{"--load-in-4bit", "--adapter-base nf4"},
    SaidElsewhere{"--load-in-8bit", "--adapter-base int8"},
    SaidElsewhere{"--flash-attention", "--attention flash"},
    SaidElsewhere{"--use-flash-attn", "--attention flash"},
    SaidElsewhere{"--optim", "--optimizer"},
    SaidElsewhere{"--cpu-offload", "--offload cpu (the optimizer), --offload-parameters cpu"},
};

Diagnostic unknown_flag(const Command& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  Diagnostic problem =
      command_line_problem("E002", fmt::format("unknown flag {} of {}", name, command.name));
  const auto* const known =
      std::find_if(kSaidElsewhere.begin(), kSaidElsewhere.end(),
                   [&](const SaidElsewhere& row) { return row.flag == name; });
  if (command.run_keys && known != kSaidElsewhere.end()) {
    problem.help = fmt::format("here that is {}", known->here);
    return problem;
  }
  const std::vector<std::string> names = names_for(command);
  problem.help = did_you_mean("flag", nearest_names(name, names));
  if (problem.help.empty())
    problem.help = fmt::format("steelyard {} --help lists all", command.name);
  return problem;
}

// The storage that CLI11 writes to while it parses.
struct Said {
  std::vector<std::string> words;
  std::deque<std::pair<const Flag*, std::vector<std::string>>> values;
  std::deque<std::pair<const Flag*, std::int64_t>> switches;
  struct Word {
    const Key* key;
    std::string text;
    CLI::Option* option;
  };
  std::deque<Word> keys;
  std::string on;
};

std::string option_names(std::string_view name, char letter) {
  std::string names = "--" + std::string(name);
  if (letter != 0) names += fmt::format(",-{}", letter);
  return names;
}

void add_flags(CLI::App& app, const Command& command, Said& said) {
  for (const Flag& flag : flags()) {
    if (!belongs(flag, command.name)) continue;
    if (flag.kind == FlagKind::kSwitch || flag.kind == FlagKind::kCounted) {
      auto& [row, count] = said.switches.emplace_back(&flag, 0);
      app.add_flag(option_names(flag.name, flag.letter), count);
    } else {
      auto& [row, values] = said.values.emplace_back(&flag, std::vector<std::string>{});
      app.add_option(option_names(flag.name, flag.letter), values)->allow_extra_args(false);
    }
  }
}

// A switch also has its opposite: --compile, --no-compile.
std::string switch_names(const std::string& flag) {
  return fmt::format("{}{{true}},--no-{}{{false}}", flag, flag.substr(2));
}

void add_keys(CLI::App& app, Said& said) {
  for (const Key& key : run_file_keys()) {
    Said::Word& row = said.keys.emplace_back(Said::Word{&key, "", nullptr});
    const bool truth = key.kind == KeyKind::kSwitch;
    std::string names = truth ? switch_names(key.flag) : key.flag;
    for (const std::string& alias : key.flag_aliases)
      names += "," + (truth ? switch_names(alias) : alias);
    row.option = truth ? app.add_flag(names, row.text) : app.add_option(names, row.text);
    row.option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
}

// The names of switches: of the run file's keys, each with its opposite, and of the command.
std::vector<std::string> switches_of(const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : flags())
    if (belongs(flag, command.name) && flag.kind == FlagKind::kSwitch)
      names.push_back("--" + std::string(flag.name));
  if (!command.run_keys) return names;
  for (const Key& key : run_file_keys()) {
    if (key.kind != KeyKind::kSwitch) continue;
    std::vector<std::string> spellings = {key.flag};
    spellings.insert(spellings.end(), key.flag_aliases.begin(), key.flag_aliases.end());
    for (const std::string& spelling : spellings) {
      names.push_back(spelling);
      names.push_back("--no-" + spelling.substr(2));
    }
  }
  return names;
}

// true, yes and on, or false, no and off; nothing else is taken from behind a switch: it may be the run.
std::optional<bool> truth_said(std::string_view word) {
  std::string lower(word);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "false" || lower == "no" || lower == "off") return false;
  return std::nullopt;
}

// A switch takes a value or none: `--compile false`, `--compile=off` and `--no-compile` are one. What the parser is given is
// the last form; of the command's own switches, which are said or not, `--json false` is nothing.
std::vector<std::string> with_plain_switches(const Command& command,
                                             const std::vector<std::string>& arguments) {
  const std::vector<std::string> names = switches_of(command);
  const auto is_switch = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> plain;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      plain.insert(plain.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i),
                   arguments.end());
      break;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (!is_switch(name)) {
      plain.push_back(word);
      continue;
    }
    std::optional<bool> said;
    if (equals != std::string::npos) {
      said = truth_said(std::string_view(word).substr(equals + 1));
      if (!said) {  // the parser says what is wrong with it
        plain.push_back(word);
        continue;
      }
    } else if (i + 1 < arguments.size()) {
      said = truth_said(arguments[i + 1]);
      if (said) ++i;
    }
    if (said.value_or(true)) {
      plain.push_back(name);
      continue;
    }
    const bool opposite = name.starts_with("--no-") && is_switch("--" + name.substr(5));
    const std::string other = opposite ? "--" + name.substr(5) : "--no-" + name.substr(2);
    if (is_switch(other)) plain.push_back(other);
  }
  return plain;
}

// Whether its runs may be scripts, which are given words and variables.
bool takes_scripts(const Command& command) {
  return std::any_of(flags().begin(), flags().end(), [&](const Flag& flag) {
    return flag.name == "env" && belongs(flag, command.name);
  });
}

}  // namespace

Diagnostic command_line_problem(std::string code, std::string message, std::string help) {
  Diagnostic problem;
  problem.code = std::move(code);
  problem.message = std::move(message);
  problem.help = std::move(help);
  return problem;
}

std::vector<std::string> values_said(const Flag& flag, const std::string& value) {
  if (flag.kind != FlagKind::kRepeated || flag.choices.empty()) return {value};
  std::vector<std::string> values;
  std::size_t from = 0;
  for (; value.find(',', from) != std::string::npos; from = value.find(',', from) + 1)
    values.push_back(value.substr(from, value.find(',', from) - from));
  values.push_back(value.substr(from));
  return values;
}

std::optional<Diagnostic> wrong_threads(const Invocation& invocation) {
  const std::string* threads = invocation.value("threads");
  if (threads == nullptr || threads_of(invocation) > 0) return std::nullopt;
  return command_line_problem("E005",
                              fmt::format("--threads {}: not a number of threads", *threads),
                              "--threads 4; without it all of the machine's are used");
}

std::optional<Diagnostic> unknown_choice(const Flag& flag, const std::string& value) {
  const std::vector<std::string_view> choices = words_in(flag.choices);
  if (choices.empty() || std::find(choices.begin(), choices.end(), value) != choices.end())
    return std::nullopt;
  return command_line_problem("E005", fmt::format("--{} {}: unknown value", flag.name, value),
                              fmt::format("--{} takes {}", flag.name, any_of(choices)));
}

tl::expected<Invocation, Diagnostics> read_invocation(const Command& command,
                                                      const std::vector<std::string>& arguments,
                                                      const Surroundings& stdout_around,
                                                      const Surroundings& stderr_around) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  Said said;
  app.add_option("words", said.words);
  add_flags(app, command, said);
  if (command.run_keys) {
    app.add_option("--on", said.on)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    add_keys(app, said);
  }
  // What stands behind -- is the script's, where a run stands before it: weigh run.sh -- 8 16.
  std::vector<std::string> mine = arguments;
  std::optional<std::vector<std::string>> behind;
  if (const auto mark = std::find(mine.begin(), mine.end(), "--");
      mark != mine.end() &&
      (command.starts_a_command ||
       (takes_scripts(command) && std::any_of(mine.begin(), mark, [](const std::string& word) {
          return !word.starts_with("-");
        })))) {
    behind.emplace(mark + 1, mine.end());
    mine.erase(mark, mine.end());
  }
  try {
    const std::vector<std::string> plain = with_plain_switches(command, mine);
    std::vector<std::string> reversed(plain.rbegin(), plain.rend());
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& fault) {
    // "--apply: 1 required TEXT missing"
    const std::string what = fault.what();
    return tl::unexpected(Diagnostics{command_line_problem(
        "E005", fmt::format("{} needs a value", what.substr(0, what.find(':'))),
        fmt::format("steelyard {} --help says what each flag takes", command.name))});
  } catch (const CLI::ParseError& fault) {
    return tl::unexpected(Diagnostics{command_line_problem(
        "E005", fault.what(), fmt::format("steelyard {} --help lists all flags", command.name))});
  }

  Diagnostics problems;
  for (const std::string& word : app.remaining())
    if (word != "--") problems.push_back(unknown_flag(command, word));

  Invocation invocation;
  invocation.command = &command;
  invocation.words = said.words;
  invocation.behind = std::move(behind);
  for (const auto& [flag, count] : said.switches)
    if (count > 0)
      invocation.flags[std::string(flag->name)] =
          std::vector<std::string>(static_cast<std::size_t>(count));
  for (const auto& [flag, values] : said.values) {
    if (values.empty()) continue;
    std::vector<std::string>& said_here = invocation.flags[std::string(flag->name)];
    for (const std::string& value : values)
      for (std::string& one : values_said(*flag, value)) said_here.push_back(std::move(one));
    for (const std::string& value : said_here)
      if (auto problem = unknown_choice(*flag, value)) problems.push_back(std::move(*problem));
  }
  if (auto problem = wrong_threads(invocation)) problems.push_back(std::move(*problem));
  if (!said.on.empty()) invocation.keys.push_back({"", said.on, "--on"});
  for (const Said::Word& row : said.keys)
    if (row.option->count() > 0)
      invocation.keys.push_back({row.key->path, row.text, row.key->flag});
  if (!problems.empty()) return tl::unexpected(std::move(problems));

  const auto text_of = [&](std::string_view flag) {
    const std::string* value = invocation.value(flag);
    return value == nullptr ? std::nullopt : std::optional<std::string>(*value);
  };
  StyleChoice choice{text_of("color"), text_of("units"), invocation.has("ascii"),
                     invocation.has("no-bars")};
  invocation.json = invocation.has("json") || stdout_around.format == "json";
  invocation.style = style_for(choice, stdout_around);
  invocation.error_style = style_for(choice, stderr_around);
  if (invocation.json) invocation.style.colour = false;
  return invocation;
}

}  // namespace steelyard
