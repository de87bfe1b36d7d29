// #SBATCH lines, what Slurm sets from them, and the remarks that an export leaves.
#include <fmt/format.h>

#include <functional>

#include "document/read.h"
#include "formats/launch/mapping.h"
#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

constexpr int kMostDirectives = 1000;  // and remarks

}  // namespace

ShellScript ShellReader::read(const ShellEnvironment& environment) {
  for (const auto& [name, value] : environment) set(name, word_of(value), 0);
  read_directives();
  statements();
  return std::move(script_);
}

Mark ShellReader::mark_of(std::size_t at, std::size_t length) const {
  at = std::min(at, text_.size());
  const auto line = std::lower_bound(line_ends_.begin(), line_ends_.end(), at);
  const std::size_t number = static_cast<std::size_t>(line - line_ends_.begin());
  const std::size_t start = number == 0 ? 0 : line_ends_[number - 1] + 1;
  Mark mark;
  mark.source = source_;
  mark.line = static_cast<int>(number) + 1;
  mark.column = static_cast<int>(at - start) + 1;
  mark.length = static_cast<int>(std::max<std::size_t>(1, std::min<std::size_t>(length, 200)));
  return mark;
}

void ShellReader::note(std::size_t at, std::string message, std::string label) {
  add_problem(script_.problems, {Severity::kWarning,
                                 "E602",
                                 std::move(message),
                                 mark_of(at, 1).place(),
                                 std::move(label),
                                 {}});
}

void ShellReader::refuse(std::size_t at, std::string message, std::string label) {
  if (!refused_)
    add_problem(script_.problems, {Severity::kError,
                                   "E103",
                                   std::move(message),
                                   mark_of(at, 1).place(),
                                   std::move(label),
                                   {}});
  refused_ = true;
  at_ = text_.size();
}

void ShellReader::read_directives() {
  std::size_t at = 0;
  bool commands = false;
  int read = 0;
  while (at < text_.size() && read < kMostDirectives) {
    const std::size_t end = std::min(text_.find('\n', at), text_.size());
    std::string_view line = text_.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    const std::size_t first = line.find_first_not_of(" \t");
    if (line.starts_with("#SBATCH") && !commands) {
      ++read;
      directive(line.substr(7), at + 7);
    } else if (first != std::string_view::npos && line[first] != '#') {
      commands = true;
    } else if (first != std::string_view::npos) {
      read += remark(line.substr(first), at + first);
    }
    at = end + 1;
  }
  seed();
}

// --nodes=4 · -N 4 · --exclusive
void ShellReader::directive(std::string_view line, std::size_t at) {
  std::size_t i = 0;
  const auto word = [&]() {
    while (i < line.size() && (line[i] == ' ' || line[i] == '\t')) ++i;
    const std::size_t from = i;
    while (i < line.size() && line[i] != ' ' && line[i] != '\t') ++i;
    return line.substr(from, i - from);
  };
  for (std::string_view option = word(); !option.empty(); option = word()) {
    if (option.front() == '#') return;
    if (option.front() != '-') continue;
    std::string_view value;
    if (const std::size_t sign = option.find('='); sign != std::string_view::npos) {
      value = option.substr(sign + 1);
      option = option.substr(0, sign);
    } else if (!option.starts_with("--") && option.size() > 2) {
      value = option.substr(2);
      option = option.substr(0, 2);
    } else {
      const std::size_t before = i;
      value = word();
      if (value.starts_with("-") || value.starts_with("#")) {
        i = before;
        value = {};
      }
    }
    static constexpr std::pair<std::string_view, std::string_view> kShort[] = {
        {"-N", "nodes"}, {"-n", "ntasks"},   {"-G", "gpus"},          {"-p", "partition"},
        {"-t", "time"},  {"-J", "job_name"}, {"-c", "cpus_per_task"}, {"-C", "constraint"}};
    std::string name(option.substr(option.starts_with("--") ? 2 : 1));
    for (const auto& [letter, meant] : kShort)
      if (option == letter) name = meant;
    std::replace(name.begin(), name.end(), '-', '_');
    Value said = value.empty() ? Value::boolean(true) : typed_value(unquoted(value));
    if (name == "time") said = Value::string(std::string(unquoted(value)));
    said.set_mark(mark_of(at + static_cast<std::size_t>(option.data() - line.data()),
                          option.size() + 1 + value.size()));
    const Mark mark = said.mark();
    if (Value::Member* member = script_.directives.member(name))
      member->value = std::move(said);
    else
      script_.directives.members().push_back({name, mark, std::move(said)});
  }
}

std::string_view ShellReader::unquoted(std::string_view word) {
  if (word.size() >= 2 && (word.front() == '"' || word.front() == '\'') &&
      word.back() == word.front())
    return word.substr(1, word.size() - 2);
  return word;
}

// One, when it is a remark.
int ShellReader::remark(std::string_view line, std::size_t at) {
  static constexpr std::string_view kMark = "# steelyard: ";
  if (!line.starts_with(kMark)) return 0;
  const ReadValue read = read_toml(line.substr(kMark.size()), source_->name);
  if (!read) return 1;
  const std::function<void(const Value&, const std::string&)> place = [&](const Value& table,
                                                                          const std::string& path) {
    for (const Value::Member& member : table.members()) {
      const std::string inner = path.empty() ? member.key : path + "." + member.key;
      if (member.value.is_table() && inner != "model") {
        place(member.value, inner);
        continue;
      }
      if (++remarked_ > kMostDirectives)
        return refuse(at, fmt::format("more than {} remarks", kMostDirectives), "one too many");
      Value value = member.value;
      value.set_mark(mark_of(at, line.size()));
      set_path(script_.remarks, inner, std::move(value), mark_of(at, line.size()).place());
    }
  };
  place(*read, "");
  return 1;
}

void ShellReader::set(const std::string& name, std::string_view text, std::size_t at) {
  Letters letters;
  for (const char c : text) letters.add(c, at, true);
  variables_[name] = {{std::move(letters)}, false};
}

// What Slurm sets for a job of these directives.
void ShellReader::seed() {
  const auto say = [&](const char* name, const char* key) {
    if (const Value* value = script_.directives.find(key)) set(name, word_of(*value), 0);
  };
  say("SLURM_NNODES", "nodes");
  say("SLURM_JOB_NUM_NODES", "nodes");
  say("SLURM_NTASKS_PER_NODE", "ntasks_per_node");
  say("SLURM_NTASKS", "ntasks");
  const Value* nodes = script_.directives.find("nodes");
  const Value* tasks = script_.directives.find("ntasks_per_node");
  if (script_.directives.find("ntasks") == nullptr && nodes != nullptr && nodes->is_integer() &&
      nodes->as_integer() < 1'000'000) {
    const std::int64_t each = tasks != nullptr && tasks->is_integer() ? tasks->as_integer() : 1;
    if (each > 0 && each < 1'000'000)
      set("SLURM_NTASKS", std::to_string(nodes->as_integer() * each), 0);
  }
  std::string gpus;
  for (const char* key : {"gpus_per_node", "gres", "gpus_per_task"})
    if (const Value* value = script_.directives.find(key); value != nullptr && gpus.empty()) {
      const std::string word = word_of(*value);
      gpus = word.substr(word.rfind(':') == std::string::npos ? 0 : word.rfind(':') + 1);
    }
  if (!gpus.empty() && gpus.find_first_not_of("0123456789") == std::string::npos) {
    set("SLURM_GPUS_ON_NODE", gpus, 0);
    set("SLURM_GPUS_PER_NODE", gpus, 0);
  }
  set("SLURM_PROCID", "0", 0);
  set("SLURM_NODEID", "0", 0);
}

}  // namespace steelyard
