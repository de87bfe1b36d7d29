#include "plan/searched_stacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "job/device_choice.h"
#include "job/engine_rules.h"
#include "job/model_code.h"

namespace steelyard {
namespace {

void set_at(Value& run, std::string_view path, Value value) {
  Place place;
  place.source = "plan";
  value.set_mark(mark_of(place));
  set_path(run, path, std::move(value), place);
}

bool is_code(const Stack& stack, std::optional<int> code) {
  return static_cast<int>(stack.implementation) ==
         code.value_or(static_cast<int>(stack.implementation));
}

// What is used where the run names its engine: the usual stacks of it, or else the engine with its usual code.
std::vector<const Stack*> stacks_of_engine(Engine engine, std::optional<int> code) {
  std::vector<const Stack*> usual, all;
  for (const Stack& stack : stacks()) {
    if (stack.engine != engine || !is_code(stack, code)) continue;
    if (stack.usual) usual.push_back(&stack);
    if (code.has_value() || stack.implementation == rules_of(engine).usual_implementation)
      all.push_back(&stack);
  }
  return usual.empty() ? all : usual;
}

std::vector<UsedStack> used(const std::vector<const Stack*>& all) {
  std::vector<UsedStack> stacks;
  for (const Stack* stack : all) stacks.push_back({stack, nullptr});
  return stacks;
}

std::vector<UsedStack> candidates(const Settings& fixed, const SearchHelp& help) {
  const auto engine = fixed.name(KeyId::kEngine);
  const auto code = fixed.name(KeyId::kImplementation);
  std::vector<UsedStack> found;
  if (!help.stacks.empty()) {
    for (const UsedStack& one : help.stacks)
      if ((!engine || one.stack->engine == static_cast<Engine>(*engine)) &&
          is_code(*one.stack, code))
        found.push_back(one);
    return found;
  }
  if (engine) return used(stacks_of_engine(static_cast<Engine>(*engine), code));
  for (const Stack& stack : stacks())
    if (code.has_value() ? is_code(stack, code) : stack.usual) found.push_back({&stack, nullptr});
  return found;
}

KeyValues keys_of(const UsedStack& one, const Settings& fixed, const Value& bare, bool has_bf16) {
  const Stack& stack = *one.stack;
  KeyValues keys;
  if (!fixed.has(KeyId::kPrecision))
    keys.emplace_back(key_of(KeyId::kPrecision).path, Value::string(stack.precision(has_bf16)));
  for (const auto& [path, value] : stack.keys)
    if (bare.at(path) == nullptr) keys.emplace_back(path, value);
  if (one.tool != nullptr)
    for (const auto& [path, value] : one.tool->defaults)
      if (bare.at(path) == nullptr) keys.emplace_back(path, value);
  return keys;
}

// "torchtitan has no flavor of these sizes" is said of torchtitan.
std::string without_title(std::string reason, const std::string& title) {
  if (reason.starts_with(title + " ")) reason.erase(0, title.size() + 1);
  return reason;
}

// Its plainest layout, one sequence on every device: what no file can say of it, none can say of any other.
Value plainest_run(const Stack& stack, const KeyValues& keys, const Value& bare, const Job& job) {
  Value run = bare;
  set_at(run, key_of(KeyId::kEngine).path, Value::string(std::string(name_of(stack.engine))));
  set_at(run, key_of(KeyId::kImplementation).path,
         Value::string(std::string(name_of(stack.implementation))));
  set_at(run, key_of(KeyId::kMicroBatch).path, Value::integer(1));
  set_at(run, key_of(KeyId::kData).path, Value::integer(job.cluster.devices));
  set_at(run, key_of(KeyId::kZeroStage).path, Value::integer(stack.zero_stages.back()));
  for (const auto& [path, value] : keys) set_at(run, path, value);
  return run;
}

void add(ChosenStacks& chosen, const UsedStack& one, KeyValues keys) {
  const Stack& stack = *one.stack;
  chosen.rows.push_back(&stack);
  const auto known = std::find_if(
      chosen.searched.begin(), chosen.searched.end(),
      [&](const SearchedStack& other) { return stack.runs(other.engine, other.implementation); });
  SearchedStack& searched =
      known != chosen.searched.end() ? *known : chosen.searched.emplace_back();
  searched.engine = stack.engine;
  searched.implementation = stack.implementation;
  for (const std::int64_t stage : stack.zero_stages) searched.stages[stage] = true;
  searched.recomputes = stack.recomputes;
  searched.plain = stack.plain;
  searched.keys = std::move(keys);
  searched.target = one.target();
}

// An engine with code that nobody's launch files name together.
void add_unnamed(ChosenStacks& chosen, Engine engine, Implementation code) {
  SearchedStack searched;
  searched.engine = engine;
  searched.implementation = code;
  for (std::size_t stage = 0; stage < 4; ++stage)
    searched.stages[stage] = rules_of(engine).stages[stage];
  chosen.searched.push_back(std::move(searched));
}

}  // namespace

ChosenStacks chosen_stacks(const Settings& fixed, const Value& bare, const Job& job,
                           const SearchHelp& help) {
  ChosenStacks chosen;
  const auto engine = fixed.name(KeyId::kEngine);
  chosen.is_said = engine.has_value() || fixed.has(KeyId::kImplementation);
  const std::vector<UsedStack> asked = candidates(fixed, help);
  ChosenStacks unwritten;  // of which export writes no file for this run
  for (const UsedStack& one : asked) {
    const Stack& stack = *one.stack;
    if (stack.alone && job.cluster.devices > 1 && !chosen.is_said) continue;
    if (!has_code_of(*job.model, stack.implementation)) {
      chosen.left_out.push_back({stack.title, fmt::format("has no {}", job.model->family)});
      continue;
    }
    KeyValues keys = keys_of(one, fixed, bare, !is_before_ampere(job));
    if ((!chosen.is_said || help.must_launch) && help.cannot_launch && !one.target().empty())
      if (auto reason = help.cannot_launch(plainest_run(stack, keys, bare, job), one.target())) {
        chosen.left_out.push_back({stack.title, without_title(std::move(*reason), stack.title)});
        add(unwritten, one, std::move(keys));
        continue;
      }
    add(chosen, one, std::move(keys));
  }
  // What the run itself says can be written for none of them: they are searched all the same, and the answer says so.
  if (chosen.searched.empty() && !unwritten.searched.empty() && !help.must_launch) {
    chosen.searched = std::move(unwritten.searched);
    chosen.rows = std::move(unwritten.rows);
    chosen.is_said = true;
    chosen.left_out.clear();
  }
  if (asked.empty() && engine && help.stacks.empty()) {
    const auto said = fixed.name(KeyId::kImplementation);
    const auto code = said ? static_cast<Implementation>(*said)
                           : rules_of(static_cast<Engine>(*engine)).usual_implementation;
    if (has_code_of(*job.model, code))
      add_unnamed(chosen, static_cast<Engine>(*engine), code);
    else
      chosen.left_out.push_back({code_of(code).title, fmt::format("has no {}", job.model->family)});
  }
  return chosen;
}

}  // namespace steelyard
