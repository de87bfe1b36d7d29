#include "cli/completion.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "job/keys.h"
#include "report/lists.h"

namespace steelyard {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> flag_names(const Command& command) {
  std::vector<std::string> names = {"--help"};
  for (const Flag& flag : flags())
    if (belongs(flag, command.name)) names.push_back("--" + std::string(flag.name));
  if (command.run_keys) {
    names.emplace_back("--on");
    for (const Key& key : run_file_keys()) names.push_back(key.flag);
  }
  return names;
}

// What may follow the command as its first word; files are completed beside it.
std::vector<std::string> first_words(const Command& command) {
  std::vector<std::string> words;
  if (command.run_keys) return accepted_names(key_of(KeyId::kModel));
  if (command.name == "list")
    for (const List& list : lists()) words.emplace_back(list.name);
  if (command.name == "completion") words = {"bash", "zsh", "fish"};
  if (command.name == "help")
    for (const Command& other : commands()) words.emplace_back(other.name);
  return words;
}

// The values of each flag that has a closed set of them.
std::map<std::string, std::vector<std::string>> flag_values() {
  std::map<std::string, std::vector<std::string>> values;
  for (const Flag& flag : flags())
    for (const std::string_view word : words_in(flag.choices))
      values["--" + std::string(flag.name)].emplace_back(word);
  for (const Key& key : run_file_keys()) {
    if (key.kind == KeyKind::kSwitch) continue;
    std::vector<std::string> names = accepted_names(key);
    if (!names.empty()) values[key.flag] = std::move(names);
  }
  values["--on"] = accepted_names(key_of(KeyId::kDevice));
  return values;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return names;
}

}  // namespace

std::string bash_completion() {
  std::string text =
      "# steelyard completion for bash: source <(steelyard completion bash)\n_steelyard() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" "
      "words=\"\"\n"
      "  case \"$previous\" in\n";
  for (const auto& [flag, values] : flag_values())
    text += fmt::format("    {}) words=\"{}\" ;;\n", flag, joined(values));
  text +=
      "  esac\n  if [ -z \"$words\" ]; then\n    case \"${COMP_CWORD}:${COMP_WORDS[1]}:$current\" "
      "in\n";
  text += fmt::format("      1:*) words=\"{} --help --version\" ;;\n", joined(command_names()));
  for (const Command& command : commands()) {
    text +=
        fmt::format("      *:{}:-*) words=\"{}\" ;;\n", command.name, joined(flag_names(command)));
    text +=
        fmt::format("      *:{}:*) words=\"{}\" ;;\n", command.name, joined(first_words(command)));
  }
  text +=
      "    esac\n  fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
      "complete -o default -F _steelyard steelyard\n";
  return text;
}

std::string zsh_completion() {
  std::string text =
      "#compdef steelyard\n# steelyard completion for zsh: source <(steelyard completion "
      "zsh)\n_steelyard() {\n  local -a choices\n"
      "  case \"${words[CURRENT-1]}\" in\n";
  for (const auto& [flag, values] : flag_values())
    text +=
        fmt::format("    {}) choices=({}); compadd -a choices; return ;;\n", flag, joined(values));
  text += fmt::format(
      "  esac\n  if (( CURRENT == 2 )); then\n    choices=({} --help --version)\n  else\n    case "
      "\"${{words[2]}}\" in\n",
      joined(command_names()));
  for (const Command& command : commands())
    text += fmt::format("      {}) choices=({} {}) ;;\n", command.name,
                        joined(first_words(command)), joined(flag_names(command)));
  text += "    esac\n  fi\n  compadd -a choices\n  _files\n}\ncompdef _steelyard steelyard\n";
  return text;
}

std::string fish_completion() {
  std::string text = "# steelyard completion for fish: steelyard completion fish | source\n";
  for (const Command& command : commands())
    text += fmt::format("complete -c steelyard -n __fish_use_subcommand -a {} -d \"{}\"\n",
                        command.name, command.summary);
  const std::map<std::string, std::vector<std::string>> values = flag_values();
  for (const Command& command : commands()) {
    const std::string when = fmt::format("-n \"__fish_seen_subcommand_from {}\"", command.name);
    if (const std::vector<std::string> words = first_words(command); !words.empty())
      text += fmt::format("complete -c steelyard {} -a \"{}\"\n", when, joined(words));
    for (const std::string& flag : flag_names(command)) {
      text += fmt::format("complete -c steelyard {} -l {}", when, flag.substr(2));
      if (const auto known = values.find(flag); known != values.end())
        text += fmt::format(" -x -a \"{}\"", joined(known->second));
      text += "\n";
    }
  }
  return text;
}

}  // namespace steelyard
