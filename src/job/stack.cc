#include "job/stack.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/embedded.h"
#include "data/fact.h"
#include "job/keys.h"

namespace steelyard {
namespace {

// One of a key's names, in the order of its enumeration.
template <class Name>
Name name_in(const Fact& fact, KeyId id) {
  const std::string word = fact.text();
  const auto& names = key_of(id).names;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == word) return static_cast<Name>(i);
  fact.fail("is no name of " + std::string(key_of(id).path));
}

Value value_in(const Fact& fact) {
  const nlohmann::json& node = fact.node();
  if (node.is_boolean()) return Value::boolean(node.get<bool>());
  if (node.is_number_integer()) return Value::integer(node.get<std::int64_t>());
  if (node.is_number()) return Value::number(node.get<double>());
  return Value::string(fact.text());
}

KeyValues keys_in(const Fact& fact) {
  KeyValues keys;
  for (const std::string& path : fact.keys()) {
    if (find_key_by_path(path) == nullptr) fact.fail("names no key of a run file: " + path);
    keys.emplace_back(path, value_in(fact[path]));
  }
  return keys;
}

Stack read_stack(const Fact& fact) {
  Stack stack;
  stack.name = fact["name"].text();
  stack.title = fact["title"].text();
  stack.engine = name_in<Engine>(fact["engine"], KeyId::kEngine);
  stack.implementation = name_in<Implementation>(fact["implementation"], KeyId::kImplementation);
  for (const Fact& stage : fact["zero_stages"].items())
    stack.zero_stages.push_back(stage.integer());
  stack.usual = fact["usual"].flag();
  stack.target = fact.text_or("export", "");
  stack.bf16 = fact["bf16"].text();
  stack.fp16 = fact["fp16"].text();
  stack.gradients = fact["gradients"].text();
  for (const Fact& mode : fact["recompute"].items())
    stack.recomputes.push_back(name_in<RecomputeMode>(mode, KeyId::kRecomputeMode));
  stack.keys = keys_in(fact["keys"]);
  stack.plain = fact.flag_or("plain", false);
  stack.alone = fact.flag_or("alone", false);
  stack.several = fact.flag_or("several", false);
  stack.settles_precision = fact.flag_or("settles_precision", false);
  return stack;
}

Tool read_tool(const Fact& fact) {
  Tool tool;
  tool.name = fact["name"].text();
  tool.title = fact["title"].text();
  for (const Fact& name : fact["stacks"].items()) {
    const std::vector<Stack>& all = stacks();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](const Stack& stack) { return stack.name == name.text(); });
    if (found == all.end()) name.fail("is no stack");
    tool.stacks.push_back(&*found);
  }
  tool.target = fact.text_or("export", "");
  tool.defaults = keys_in(fact["defaults"]);
  if (fact.has("weigh_defaults")) tool.weigh_defaults = keys_in(fact["weigh_defaults"]);
  tool.versions = fact["versions"].text();
  return tool;
}

// Every file of a folder, by its list_order.
template <class Entry, class Reader>
std::vector<Entry> all_in(std::string_view folder, Reader reader) {
  std::vector<std::pair<std::int64_t, Entry>> placed;
  for (const EmbeddedFile& file : embedded_files_in(folder)) {
    const FactFile facts(file.path, file.text);
    placed.emplace_back(facts.root()["list_order"].integer(), reader(facts.root()));
  }
  std::sort(placed.begin(), placed.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Entry> all;
  for (auto& [order, entry] : placed) all.push_back(std::move(entry));
  return all;
}

}  // namespace

bool Stack::has_stage(std::int64_t stage) const {
  return std::find(zero_stages.begin(), zero_stages.end(), stage) != zero_stages.end();
}

const std::vector<Stack>& stacks() {
  static const std::vector<Stack> all = all_in<Stack>("stacks", read_stack);
  return all;
}

const Stack* stack_of(Engine engine, Implementation implementation, std::int64_t zero_stage) {
  for (const Stack& stack : stacks())
    if (stack.runs(engine, implementation) && stack.has_stage(zero_stage)) return &stack;
  return nullptr;
}

const std::vector<Tool>& tools() {
  static const std::vector<Tool> all = all_in<Tool>("tools", read_tool);
  return all;
}

const Tool* find_tool(std::string_view name) {
  for (const Tool& tool : tools())
    if (tool.name == name) return &tool;
  return nullptr;
}

}  // namespace steelyard
