#include "cli/used_stacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "document/edit_distance.h"
#include "formats/launch/launch.h"
#include "job/keys.h"
#include "job/model_code.h"

namespace steelyard {
namespace {

std::vector<std::string> words_between_commas(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(',', from), text.size());
    words.push_back(text.substr(from, end - from));
    from = end + 1;
  }
  return words;
}

void add_once(std::vector<UsedStack>& stacks, const Stack& stack, const Tool* tool) {
  if (std::none_of(stacks.begin(), stacks.end(),
                   [&](const UsedStack& one) { return one.stack == &stack; }))
    stacks.push_back({&stack, tool});
}

void add_tools(const std::string& said, std::vector<UsedStack>& stacks, Diagnostics& problems) {
  std::vector<std::string> names;
  for (const Tool& tool : tools()) names.push_back(tool.name);
  for (const std::string& word : words_between_commas(said)) {
    const Tool* tool = find_tool(word);
    if (tool == nullptr) {
      std::string help = did_you_mean("tool", nearest_names(word, names));
      if (help.empty()) help = fmt::format("tools are {}", any_of(names));
      problems.push_back(command_line_problem(
          "E005", fmt::format("--for {}: no tool is called \"{}\"", said, word), std::move(help)));
      continue;
    }
    for (const Stack* stack : tool->stacks) add_once(stacks, *stack, tool);
  }
}

// The usual stacks of each engine; of those that --for left, where it was said.
std::vector<UsedStack> stacks_of_engines(const std::string& said,
                                         const std::vector<UsedStack>& among,
                                         Diagnostics& problems) {
  std::vector<UsedStack> chosen;
  const Key& key = key_of(KeyId::kEngine);
  for (const std::string& word : words_between_commas(said)) {
    const std::string_view meant = meant_name(key, word);
    const std::string name = meant.empty() ? word : std::string(meant);
    if (std::find(key.names.begin(), key.names.end(), name) == key.names.end()) {
      problems.push_back(command_line_problem(
          "E104", fmt::format("--engine {}: no engine is called \"{}\"", said, word),
          fmt::format("engines are {}", any_of(key.names))));
      continue;
    }
    const bool has_usual = std::any_of(stacks().begin(), stacks().end(), [&](const Stack& stack) {
      return stack.usual && name_of(stack.engine) == name;
    });
    for (const UsedStack& one : among)
      if (name_of(one.stack->engine) == name) add_once(chosen, *one.stack, one.tool);
    if (!among.empty()) continue;
    for (const Stack& stack : stacks())
      if (name_of(stack.engine) == name && (stack.usual || !has_usual))
        add_once(chosen, stack, nullptr);
  }
  return chosen;
}

// As keys have it: engine alone says which stack, or the engine that a run has when nobody says.
const UsedStack& stack_for(const UsedStacks& used, const Value& document, bool several) {
  const Value* engine = document.at("engine");
  const std::string wanted = engine != nullptr && engine->is_string() ? engine->as_string()
                             : several                                ? "fsdp2"
                                                                      : "ddp";
  for (const UsedStack& one : used.stacks)
    if (name_of(one.stack->engine) == wanted) return one;
  return used.stacks.front();
}

}  // namespace

tl::expected<UsedStacks, Diagnostics> used_stacks(const Invocation& invocation, bool several) {
  UsedStacks used;
  Diagnostics problems;
  if (const std::string* said = invocation.value("for")) add_tools(*said, used.stacks, problems);
  for (const SaidKey& said : invocation.keys) {
    const bool is_list = several && said.key == key_of(KeyId::kEngine).path &&
                         said.text.find(',') != std::string::npos;
    if (!is_list) {
      used.keys.push_back(said);
      continue;
    }
    std::vector<UsedStack> chosen = stacks_of_engines(said.text, used.stacks, problems);
    if (chosen.empty() && problems.empty())
      problems.push_back(command_line_problem(
          "E247", fmt::format("--engine {}: none of them is what --for uses", said.text)));
    used.stacks = std::move(chosen);
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return used;
}

tl::expected<std::vector<Assumption>, Diagnostics> take_defaults_of(const UsedStacks& used,
                                                                    const std::string& folder,
                                                                    Value& document) {
  std::vector<Assumption> taken;
  if (used.stacks.empty()) return taken;
  // A run that cannot be read yet has its problems said later.
  const auto job = job_of(document, folder);
  const UsedStack& one = stack_for(used, document, job && job->cluster.devices > 1);
  const Stack& stack = *one.stack;
  const auto take = [&](const std::string& path, const Value& value) {
    if (document.at(path) != nullptr) return;
    Place place;
    place.source = "--for";
    set_path(document, path, value, place);
    taken.push_back({path, word_of(value),
                     one.tool == nullptr ? std::string("what --engine says")
                                         : fmt::format("what {} does", one.tool->title)});
  };
  take("engine", Value::string(std::string(name_of(stack.engine))));
  if (word_of(*document.at("engine")) != name_of(stack.engine))
    return tl::unexpected(Diagnostics{command_line_problem(
        "E247",
        fmt::format("--for: {} does not run {}", one.tool->title, word_of(*document.at("engine"))),
        "leave out one of the two")});
  take("implementation", Value::string(std::string(name_of(stack.implementation))));
  take(key_of(KeyId::kPrecision).path,
       Value::string(stack.precision(!job || !is_before_ampere(*job))));
  for (const auto& [path, value] : stack.keys) take(path, value);
  if (one.tool == nullptr) return taken;
  for (const auto& [path, value] : one.tool->defaults) take(path, value);
  for (const auto& [path, value] : one.tool->weigh_defaults) take(path, value);
  return taken;
}

std::optional<std::string> export_fault(const Value& run, const std::string& folder,
                                        const std::string& target) {
  const auto job = job_of(run, folder);
  if (!job) return std::nullopt;
  if (auto missing = missing_code(*job)) return missing;
  Value whole = completed(run, *job);
  if (target == "megatron" || target == "nanotron")
    if (auto config = model_file_of(run, folder))
      set_path(whole, "model", std::move(*config), run.find("model")->place());
  const Exported exported = export_launch(whole, target);
  if (exported.problems.empty()) return std::nullopt;
  return exported.problems.front().message;
}

}  // namespace steelyard
