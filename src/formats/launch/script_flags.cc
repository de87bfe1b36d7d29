#include "formats/launch/script_flags.h"

#include "formats/launch/arguments.h"

namespace steelyard {

ScriptFlags::ScriptFlags(const ProgramCall& call, Launch& launch)
    : flags_(call.arguments.flags), program_(call.program), launch_(launch) {
  flags_.set_mark(call.program.mark());
}

ConfigReader ScriptFlags::reading() { return {none_, "script", launch_.into}; }

const Value* ScriptFlags::take(std::string_view key) {
  const Value* value = flags_.find(key);
  if (value == nullptr) return nullptr;
  taken_.insert(std::string(key));
  return value->is_null() ? nullptr : value;
}

const Value* ScriptFlags::on(std::string_view key) {
  const Value* value = take(key);
  return value != nullptr && truth_of(*value).value_or(false) ? value : nullptr;
}

void ScriptFlags::say(std::string_view ours, Value value, const Value& at) {
  reading().say(ours, std::move(value), at);
}

void ScriptFlags::otherwise(std::string_view ours, Value value, std::string_view why) {
  reading().take_default(ours, std::move(value), why);
}

void ScriptFlags::lacks(std::string_view ours, std::string_view why) { reading().lacks(ours, why); }

void ScriptFlags::unweighed(const Value& at, std::string_view theirs, std::string_view why) {
  reading().unweighed(at, theirs, why);
}

void ScriptFlags::row(std::string_view key, std::string_view ours, Value absent,
                      std::string_view why) {
  const Value* value = take(key);
  if (value != nullptr && has_hole(word_of(*value)))
    lacks(ours, std::string(key) + " is a variable that nobody sets");
  else if (value != nullptr)
    say(ours, value->is_string() ? typed_value(value->as_string()) : *value, *value);
  else if (!absent.is_null())
    otherwise(ours, std::move(absent), why);
}

Value ScriptFlags::rest() const {
  Value rest = flags_;
  for (const std::string& key : taken_) remove_path(rest, key);
  return rest;
}

void ScriptFlags::carry_rest(std::string_view format) {
  const Value left = rest();
  ConfigReader(left, format, launch_.into).carry_rest();
}

void ScriptFlags::read_rest(std::string_view framework) {
  launch_.into.formats.emplace_back(framework);
  launch_.into.formats.emplace_back("Trainer arguments");
  const Value left = rest();
  read_hugging_face(left, launch_, "trainer");
}

}  // namespace steelyard
