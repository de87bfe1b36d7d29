// Scripts that this one starts, includes or submits: read in its place, with what it gives them.
#include <fmt/format.h>

#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr int kMostFilesRead = 64;
constexpr std::size_t kMostLettersRead = std::size_t{8} << 20;
constexpr std::size_t kMostSubmitted = 300'000;

std::string_view name_of_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool is_shell(std::string_view word) {
  const std::string_view name = name_of_path(word);
  return name == "bash" || name == "sh" || name == "zsh" || name == "dash";
}

bool is_script(std::string_view word) {
  for (const std::string_view ending : {".sh", ".bash", ".slurm", ".sbatch"})
    if (word.ends_with(ending)) return true;
  return false;
}

// What starts the program behind its own options.
bool starts_others(std::string_view word) {
  const std::string_view name = name_of_path(word);
  for (const std::string_view known :
       {"srun",       "mpirun", "mpiexec",   "singularity", "apptainer", "docker",  "podman",
        "enroot",     "nohup",  "env",       "time",        "numactl",   "timeout", "taskset",
        "ray",        "uv",     "poetry",    "conda",       "pixi",      "ssh",     "pdsh",
        "nice",       "stdbuf", "jsrun",     "aprun",       "prun",      "shifter", "sarus",
        "micromamba", "mamba",  "deepspeed", "torchrun",    "salloc",    "flux"})
    if (name == known) return true;
  return false;
}

}  // namespace

ShellReader::Text* ShellReader::script_text(const Letters& name, bool tells) {
  const auto missing = [&](std::string_view why) -> Text* {
    if (tells)
      note(name.at.empty() ? 0 : name.at.front(), fmt::format("cannot read {}: {}", name.text, why),
           "what it says is not read");
    return nullptr;
  };
  if (context_.is_known_program && context_.is_known_program(name_of_path(name.text)))
    return nullptr;
  if (has_hole(name.text)) return missing("its name is a variable that nobody sets");
  if (const auto written = files_.find(name.text)) {
    Letters letters;
    const std::size_t at = name.at.empty() ? 0 : name.at.front();
    for (const char c : written->as_string()) letters.add(c, at, true);
    return &add_text(letters);
  }
  if (!context_.read_file) return missing("other files are not read here");
  if (++files_read_ > kMostFilesRead || letters_ > kMostLettersRead)
    return missing("too many files already");
  auto file = context_.read_file(name.text);
  if (!file) return missing("no such file");
  for (const Text& text : texts_)
    if (text.source->name == file->path && depth_ > 1 && now_ == &text)
      return missing("files that name each other");
  return &add_text(file->text, file->path);
}

ShellReader::Flow ShellReader::include(const Parts& parts) {
  if (parts.words.size() < 2) return Flow::kNext;
  const std::string_view base = name_of_path(parts.words[1].text);
  // What prepares the machine says nothing of the run.
  const bool prepares = base == "activate" || base == ".bashrc" || base == ".profile" ||
                        base == "conda.sh" || base == "setvars.sh" || base == "set_env.sh" ||
                        parts.words[1].text.starts_with("/");
  Text* text = script_text(parts.words[1], !prepares);
  if (text == nullptr) {
    external_ = true;
    return Flow::kNext;
  }
  auto arguments = arguments_;
  if (parts.words.size() > 2)
    arguments_ = std::vector<Letters>(parts.words.begin() + 2, parts.words.end());
  const Flow flow = run_text(*text);
  arguments_ = std::move(arguments);
  return flow == Flow::kReturn ? Flow::kNext : flow;
}

// A script in a process of its own: it has what is exported.
void ShellReader::run_as_child(Text& text, std::vector<Letters> prefix,
                               std::optional<std::vector<Letters>> arguments, bool submitted) {
  if (!give(0)) return;
  BranchedMap<ShellVariable>::Changes world;
  for (const std::string& name : exported_)
    if (auto value = variables_.find(name)) world[name] = std::move(value);
  for (const auto& [name, value] : variables_.all())
    if (name.starts_with("SLURM_") || name == "PWD") world[name] = value;
  auto outside = variables_.exchange(std::move(world));
  const auto exported = exported_;
  const auto functions = functions_;
  auto before = std::exchange(arguments_, std::move(arguments));
  auto words = std::exchange(prefix_, std::move(prefix));
  if (submitted) {
    read_directives(text);
    seed();
  }
  variables_.begin();
  run_text(text);
  variables_.take_back();
  prefix_ = std::move(words);
  arguments_ = std::move(before);
  functions_ = functions;
  exported_ = exported;
  variables_.exchange(std::move(outside));
}

// A script that this one hands to sbatch: its directives and its commands, with what is exported here.
void ShellReader::submit(const Letters& text) {
  if (depth_ > 1 || ++submitted_ > kMostSubmitted) return;
  run_as_child(add_text(text), {}, std::vector<Letters>{}, true);
}

// bash -c '...', bash script.sh words, ./script.sh words, each also behind srun and its like; sbatch.
bool ShellReader::run_child(std::vector<Letters>& words, const Output& input, std::size_t at) {
  const std::string_view first = name_of_path(words.front().text);
  if (first == "sbatch") {
    for (std::size_t i = 1; i < words.size(); ++i)
      if (is_script(words[i].text)) {
        Text* text = script_text(words[i], true);
        if (text != nullptr)
          run_as_child(
              *text, {},
              std::vector<Letters>(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end()),
              true);
        return text != nullptr;
      }
    if (!input) return false;
    push(words, at);
    submit(*input);
    return true;
  }
  const bool starts = starts_others(first);
  const std::size_t most = starts ? words.size() : 1;
  for (std::size_t i = 0; i < most; ++i) {
    // Made where a script is found: a command may have a million words.
    const auto prefix = [&] {
      std::vector<Letters> before(prefix_);
      before.insert(before.end(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
      return before;
    };
    const auto behind = [&](std::size_t from) {
      return std::vector<Letters>(
          words.begin() + static_cast<std::ptrdiff_t>(std::min(from, words.size())), words.end());
    };
    if (is_shell(words[i].text)) {
      bool command = false;
      std::size_t next = i + 1;
      while (next < words.size() && words[next].text.starts_with("-")) {
        const std::string& option = words[next].text;
        command = command || (!option.starts_with("--") && option.find('c') != std::string::npos);
        ++next;
      }
      if (next >= words.size()) {
        if (input && i == 0) run_as_child(add_text(*input), prefix(), behind(next), false);
        return input && i == 0;
      }
      if (command) {
        // Words behind it are $0, $1, ...
        run_as_child(add_text(words[next]), prefix(), behind(next + 2), false);
        return true;
      }
      Text* text = script_text(words[next], true);
      if (text == nullptr) return false;
      run_as_child(*text, prefix(), behind(next + 1), false);
      return true;
    }
    if (is_script(words[i].text)) {
      Text* text = script_text(words[i], i == 0);
      if (text == nullptr) continue;
      run_as_child(*text, prefix(), behind(i + 1), false);
      return true;
    }
    if ((first == "ssh" || first == "pdsh") && i > 0 &&
        words[i].text.find(' ') != std::string::npos) {
      run_as_child(add_text(words[i]), prefix(), std::vector<Letters>{}, false);
      return true;
    }
  }
  return false;
}

}  // namespace steelyard
