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

std::size_t ShellReader::place(std::size_t at) const {
  if (now_ == nullptr) return 0;
  if (now_->places.empty()) return now_->base + std::min(at, text_.size());
  return now_->places[std::min(at, now_->places.size() - 1)];
}

Mark ShellReader::mark_of(std::size_t place, std::size_t length) const {
  Mark mark;
  auto found = std::upper_bound(texts_.begin(), texts_.end(), place,
                                [](std::size_t at, const Text& text) { return at < text.base; });
  if (found == texts_.begin()) return mark;
  const Text& text = *std::prev(found);
  const std::size_t at = std::min(place - text.base, text.text.size());
  const auto line = std::lower_bound(text.line_ends.begin(), text.line_ends.end(), at);
  const std::size_t number = static_cast<std::size_t>(line - text.line_ends.begin());
  const std::size_t start = number == 0 ? 0 : text.line_ends[number - 1] + 1;
  mark.source = text.source;
  mark.line = static_cast<int>(number) + 1;
  mark.column = static_cast<int>(at - start) + 1;
  mark.length = static_cast<int>(std::max<std::size_t>(1, std::min<std::size_t>(length, 200)));
  return mark;
}

void ShellReader::note(std::size_t place, std::string message, std::string label) {
  add_problem(script_.problems, {Severity::kWarning,
                                 "E602",
                                 std::move(message),
                                 mark_of(place, 1).place(),
                                 std::move(label),
                                 {}});
}

void ShellReader::refuse(std::size_t place, std::string message, std::string label) {
  if (!refused_)
    add_problem(script_.problems, {Severity::kError,
                                   "E103",
                                   std::move(message),
                                   mark_of(place, 1).place(),
                                   std::move(label),
                                   {}});
  refused_ = true;
}

void ShellReader::read_directives(const Text& read_text) {
  const std::string_view text = read_text.text;
  std::size_t at = 0;
  bool commands = false;
  int read = 0;
  while (at < text.size() && read < kMostDirectives) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    const std::size_t first = line.find_first_not_of(" \t");
    if (line.starts_with("#SBATCH") && !commands) {
      ++read;
      directive(line.substr(7), read_text.base + at + 7);
    } else if (first != std::string_view::npos && line[first] != '#') {
      commands = true;
    } else if (first != std::string_view::npos) {
      read += remark(line.substr(first), read_text.base + at + first);
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
  const ReadValue read = read_toml(line.substr(kMark.size()), name_);
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
