// What a key of somebody's launch configuration is called here: one table a format, read in both directions.
//
//   constexpr Row kRows[] = {
//       {"sequence_len", "training.sequence_length"},
//       {"fsdp_version", "engine", "1=fsdp1|2=fsdp2"},
//   };
//   reading.rows(kRows);      theirs -> run file, each value where it was written
//   writing.rows(kRows);      run file -> theirs
//
// So what is written is read again as it was. What takes several keys together stands beside the tables, as a
// pair of functions. What nobody asked for is kept: on reading under [carried.FORMAT], on writing as a loss.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "job/model_choice.h"

namespace steelyard {

struct Row {
  std::string_view theirs;  // dotted path: "zero_optimization.stage"
  std::string_view ours;    // "parallel.zero_stage"
  std::string_view words =
      {};  // "1=fsdp1|2=fsdp2": theirs=ours, the first that matches; empty: as it is
  std::string_view also = {};    // other spellings, read and never written: "old_name|older_name"
  std::string_view absent = {};  // what the format takes when it is not there, in our words
  bool only_read = false;        // said by something else when writing
};

// A key of theirs that changes memory by a rule that is not known here, or by so little that the answer stands without it.
struct UnweighedKey {
  std::string_view theirs;  // dotted path
  std::string_view why;
  bool is_small = false;  // a warning alone
};

// A default of the format, or something that no file says.
struct Unsaid {
  std::string key;    // "training.micro_batch"
  std::string taken;  // "8"; empty: nothing, it is needed from somewhere else
  std::string why;    // "Hugging Face's default"
};

// What decides something and is a variable that nobody sets, or stands in a file that is not here.
struct Asked {
  std::string why;  // "$TP is not given: --env TP=VALUE"
  Mark at;
};

// One document of theirs as it was read: a file, or the flags of a command as a table.
struct LaunchDocument {
  std::string format;  // of its reader: "axolotl", "trainer", "deepspeed", "launcher", ...
  Value theirs;
};

// A text that was read, by the name that its values' places say.
struct LaunchSource {
  enum class Language { kShell, kYaml, kJson, kToml };
  std::string text;
  Language language = Language::kYaml;
};

// A run file in the making: every value stands where it was written.
struct Imported {
  Value run = Value::table();
  std::vector<std::string>
      formats;  // "sbatch script", "torchrun", ...: what was recognised, in order
  std::vector<Unsaid> unsaid;
  std::vector<Unsaid> taken;  // what neither the files nor their formats say, and weighing takes
  std::map<std::string, Asked, std::less<>> asked;  // by our key, or by theirs where it has none
  std::map<std::string, std::string, std::less<>>
      holes;  // variables of the script that are not known, beside those that nobody sets: why
  Diagnostics problems;             // errors, and what to know
  std::vector<std::string> unread;  // "lora_enable": kept, and may change memory (heavy_keys.h)
  std::set<std::string, std::less<>>
      idle;  // "axolotl.lora_r": kept, and known to change nothing of this run
  std::vector<LaunchDocument> documents;  // for patch.h
  std::map<std::string, LaunchSource, std::less<>>
      sources;  // the first one read, and those it names

  bool failed() const;
};

// "$TP is not given: --env TP=VALUE": of the first variable in the word that is not known.
std::string reason_of_hole(std::string_view word, const Imported& into);
// Notes that a key is asked for, for import's list and for whoever weighs without it.
void ask(Imported& into, std::string_view key, std::string why, const Mark& at);
// What was asked for and said by nobody since: into `unsaid`, and into the run, which is refused by that name.
void settle_asked(Imported& into);

// Each word of a list, or of a text: `mlp moe_act`, `mlp,moe_act`, `[mlp moe_act]`; of nothing none.
std::vector<Value> words_of(const Value* value);

// One document of theirs, while it is read into a run file.
class ConfigReader {
 public:
  ConfigReader(const Value& theirs, std::string_view format, Imported& into)
      : theirs_(theirs), format_(format), into_(into) {}

  const Value& theirs() const { return theirs_; }
  Imported& into() { return into_; }
  std::string_view format() const { return format_; }

  // The value at a dotted path, and it is understood; null and absent are nothing.
  const Value* take(std::string_view path);
  std::optional<bool> truth(std::string_view path);  // also "true", "True", "yes", 1
  std::optional<std::int64_t> count(std::string_view path);
  std::optional<std::string> word(std::string_view path);  // numbers and switches as text, too
  std::vector<Value> words(std::string_view path) { return words_of(take(path)); }
  bool is(std::string_view path) { return truth(path).value_or(false); }
  // The value there when it says yes: who says so is where it was written.
  const Value* on(std::string_view path);

  void rows(std::span<const Row> rows);

  // Says a key of the run file; `at` is where it was written. A second, different word is an error.
  void say(std::string_view ours, Value value, const Value& at);
  void say(std::string_view ours, std::string_view word, const Value& at) {
    say(ours, Value::string(std::string(word)), at);
  }
  // A default of the format, said unless somebody said otherwise.
  void take_default(std::string_view ours, Value value, std::string_view why);
  // Nothing says this, and the answer needs it.
  void lacks(std::string_view ours, std::string_view why);
  // Whether `lacks` asked for it before.
  bool is_asked(std::string_view ours) const;
  bool has(std::string_view ours) const { return into_.run.at(ours) != nullptr; }
  const Value* said(std::string_view ours) const { return into_.run.at(ours); }

  // Whether a value is a variable that nobody sets: then its key is asked for.
  bool asks(std::string_view ours, const Value& value);

  void refuse(const Value& at, std::string message, std::string label, std::string help = {});
  // Changes memory, and its rule is not known: the run file says so, and is refused by that name when it is weighed. The key
  // itself is kept.
  void unweighed(const Value& at, std::string_view theirs, std::string_view why);
  void unweighed(std::span<const UnweighedKey> keys);
  void warn(const Value& at, std::string message, std::string label, std::string help = {});

  // Kept, and known to change no memory here: no warning of heavy_keys.h names it.
  void idle(std::initializer_list<std::string_view> paths);

  // What was not asked for, verbatim, under [carried.FORMAT].
  void carry_rest();

 private:
  std::optional<Value> rest_of(const Value& value) const;

  const Value& theirs_;
  std::string_view format_;
  Imported& into_;
  std::set<const Value*> taken_;
};

// One document of theirs, while it is written from a run file.
class ConfigWriter {
 public:
  ConfigWriter(const Value& run, std::string_view format) : run_(run), format_(format) {}

  // A key of the run file, and it is expressed; absent is nothing.
  const Value* take(std::string_view ours);
  std::string word(std::string_view ours, std::string_view otherwise = {});
  std::int64_t count(std::string_view ours, std::int64_t otherwise);
  bool truth(std::string_view ours, bool otherwise);
  // Without expressing it.
  const Value* look(std::string_view ours) const { return run_.at(ours); }
  std::string look_word(std::string_view ours) const;
  std::int64_t look_count(std::string_view ours, std::int64_t otherwise) const;
  bool look_truth(std::string_view ours) const;

  void rows(std::span<const Row> rows);
  // `says`: the comment beside it; `under`: the section it belongs to in their document.
  void put(std::string_view path, Value value, std::string_view says = {});
  void put(std::string_view path, std::string_view word, std::string_view says = {}) {
    put(path, Value::string(std::string(word)), says);
  }
  void put(std::string_view path, const char* word, std::string_view says = {}) {
    put(path, std::string_view(word), says);
  }

  // The target has no word for it: the file would start another run.
  void refuse(std::string_view ours, std::string reason, std::string help = {});
  // Left out, and said so.
  void lose(std::string_view ours, std::string reason);

  // What the target needs and bytes do not, said where neither the run nor its carried keys say it (nor one of the `or_these`,
  // which say the same otherwise): marked to be filled in.
  void fill_in(std::string_view path, Value value,
               std::initializer_list<std::string_view> or_these = {});
  // [carried.FORMAT] back to where it came from, then what other formats' carried keys say and this one has a key for
  // (carried_concepts.h), then what is to be filled in.
  void bring_carried();
  // What nobody expressed becomes an error where it divides the run, else a loss; defaults are neither.
  void close();

  struct Loss {
    std::string key;
    std::string value;
    std::string reason;
  };
  const Value& run() const { return run_; }
  const std::set<std::string, std::less<>>& expressed() const { return expressed_; }
  std::set<std::string, std::less<>>
      brought;  // "carried.axolotl.learning_rate": said here in this format's words
  Value theirs = Value::table();
  std::map<std::string, std::string, std::less<>> comments;  // by dotted path
  std::map<std::string, const Row*, std::less<>> said_by;    // which row put it, by dotted path
  std::vector<Loss> losses;
  Diagnostics problems;

 private:
  struct ToFillIn {
    std::string path;
    Value value;
    std::vector<std::string> or_these;
  };
  const Value& run_;
  std::string_view format_;
  std::set<std::string, std::less<>> expressed_;
  std::vector<ToFillIn> to_fill_in_;
};

// What a value without effect looks like: nobody misses it where it cannot be written.
bool is_neutral(std::string_view ours, const Value& value);

// `the key is "stage"`, of those it resembles; empty when none.
std::string nearest_help(std::string_view word, std::span<const std::string_view> names);

// A word of a row's table, in either direction; nothing when there is none.
std::optional<std::string> ours_of(std::string_view words, std::string_view theirs);
std::optional<std::string> theirs_of(std::string_view words, std::string_view ours);
// Text that a run file's key would hold as a number or switch becomes one.
Value typed_value(std::string_view text);
// A value as the word that a table of words compares: true, 8, "fsdp2" -> true, 8, fsdp2.
std::string word_of(const Value& value);
std::optional<bool> truth_of(const Value& value);
std::optional<std::int64_t> count_of(const Value& value);

}  // namespace steelyard
