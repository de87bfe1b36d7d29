// Flags of a script that are its own, and TrainingArguments behind them: the script's part is read first, and Trainer's reader
// has the rest.
//
//   ScriptFlags flags(call, "trainer", launch);
//   if (const Value* bits = flags.take("bits")) flags.say("adapter.base", "nf4", *bits);
//   flags.read_rest("LLaVA");          read as LLaVA, Trainer arguments
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "formats/launch/formats.h"
#include "formats/launch/programs.h"

namespace steelyard {

class ScriptFlags {
 public:
  ScriptFlags(const ProgramCall& call, Launch& launch);

  const Value& all() const { return flags_; }
  const Value& program() const { return program_; }
  Launch& launch() { return launch_; }
  // No reader behind this one sees it any more.
  const Value* take(std::string_view key);
  const Value* on(std::string_view key);
  bool says(std::string_view key) const { return flags_.find(key) != nullptr; }

  void say(std::string_view ours, Value value, const Value& at);
  void say(std::string_view ours, std::string_view word, const Value& at) {
    say(ours, Value::string(std::string(word)), at);
  }
  void otherwise(std::string_view ours, Value value, std::string_view why);
  void lacks(std::string_view ours, std::string_view why);
  void unweighed(const Value& at, std::string_view theirs, std::string_view why);
  // A key as the run file has it, or the script's default.
  void row(std::string_view key, std::string_view ours, Value absent, std::string_view why);

  // The rest is only kept, under [carried.FORMAT].
  void carry_rest(std::string_view format);
  // The rest as Trainer's arguments.
  void read_rest(std::string_view framework);

 private:
  ConfigReader reading();
  Value rest() const;
  Value flags_;
  const Value& program_;
  Launch& launch_;
  Value none_ = Value::table();
  std::set<std::string, std::less<>> taken_;
};

}  // namespace steelyard
