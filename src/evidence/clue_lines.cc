// What a log says of its own launch: arguments, launch lines, configuration files, models.
//
//   ------------------------ arguments ------------------------
//     hidden_size ..................................... 6144
//   torchrun --nproc_per_node 8 train.py --config train.yaml
//   Building llama3 8B with TransformerModelArgs(dim=4096, ...)
#include <algorithm>
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 19> kClueWords = {" .... ",
                                                         " ... ",
                                                         "....... ",
                                                         "torchrun ",
                                                         "accelerate launch",
                                                         "deepspeed ",
                                                         "srun ",
                                                         "python -m ",
                                                         "python3 -m ",
                                                         "tune run ",
                                                         "axolotl train",
                                                         "llamafactory-cli",
                                                         "--nproc_per_node",
                                                         "world_size",
                                                         "Building ",
                                                         "--deepspeed",
                                                         "--config",
                                                         "WORLD_SIZE=",
                                                         "from_pretrained"};

constexpr std::size_t kMostArguments = 2000;
constexpr std::size_t kLongestCommand = 4000;

// "  hidden_size ..................... 6144"
bool read_argument(std::string_view text, LogState& state) {
  const std::size_t dots = text.find(" ...");
  if (dots == std::string_view::npos) return false;
  const std::string_view name = without_spaces(text.substr(0, dots));
  if (name.empty() || name.size() > 64) return false;
  if (!std::all_of(name.begin(), name.end(),
                   [](char c) { return is_printed_word(c) || c == '.' || c == '-'; }))
    return false;
  std::size_t at = dots + 1;
  while (at < text.size() && text[at] == '.') ++at;
  if (at - dots < 4 || at >= text.size() || text[at] != ' ') return false;
  const std::string_view value = without_spaces(text.substr(at));
  auto& arguments = state.evidence.clues.arguments;
  if (arguments.size() < kMostArguments && value.size() <= 1000)
    arguments.emplace(std::string(name), std::string(value));
  return true;
}

bool is_command(std::string_view text) {
  std::string_view rest = without_spaces(text);
  while (rest.starts_with('+') || rest.starts_with('$')) rest = without_spaces(rest.substr(1));
  if (const auto prompt = behind(rest, "$ "); prompt && rest.find("$ ") < 80) rest = *prompt;
  for (const std::string_view launcher :
       {"torchrun ", "accelerate launch", "deepspeed ", "srun ", "python -m ", "python3 -m ",
        "tune run ", "axolotl train", "llamafactory-cli "})
    if (rest.starts_with(launcher)) return true;
  return rest.find("--nproc_per_node") != std::string_view::npos || rest.find("cmd = ") == 0;
}

// Words that end like a configuration and can be looked for in a folder.
void add_launch_files(std::string_view text, const LogLine& line, LogState& state) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = text.find_first_not_of(" ='\",[]", at);
    if (begin == std::string_view::npos) break;
    std::size_t end = text.find_first_of(" ='\",[]", begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = text.substr(begin, end - begin);
    for (const std::string_view ending : {".yaml", ".yml", ".toml", ".json", ".sh"})
      if (word.ends_with(ending) && word.size() > ending.size() && word.size() < 300)
        state.add_clue(state.evidence.clues.launch_files, word, line);
    at = end;
  }
}

bool read_clue_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (text.find(" ...") != std::string_view::npos && read_argument(text, state)) {
    const auto& arguments = state.evidence.clues.arguments;
    if (const auto found = arguments.find("world_size"); found != arguments.end()) {
      std::string_view number = found->second;
      if (const auto size = take_printed_integer(number); size && number.empty() && *size > 0)
        state.evidence.clues.world_size = size;
    }
    return false;
  }
  if (is_command(text)) {
    state.add_clue(state.evidence.clues.commands, without_spaces(text).substr(0, kLongestCommand),
                   line);
    add_launch_files(text.substr(0, kLongestCommand), line, state);
    if (text.find("deepspeed") != std::string_view::npos) state.add_framework("deepspeed");
    return false;
  }
  if (auto size = integer_behind(text, "WORLD_SIZE="); size && *size > 0)
    state.evidence.clues.world_size = size;
  // torchtitan: "Building llama3 8B with TransformerModelArgs(dim=4096, ...)"
  if (const auto model = behind(text, "Building "); model && model->find(" with ") < 60) {
    state.add_clue(state.evidence.clues.models, model->substr(0, model->find(" with ")), line);
  }
  return false;
}

}  // namespace

const LogLineReader kClueLines{"clues", kClueWords, read_clue_line};

}  // namespace steelyard
