// The keys of the run file, as one table (keys.def).
//
//   for (const Key& key : run_file_keys())
//     print(key.flag, key.fallback, key.help);      --sequence-length   the model's positions, ...   tokens of one sequence
//
// A key that is not here does not exist: not for the reader, the flags, the help or the completion.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "document/value.h"

namespace steelyard {

// No size of a training run is larger; what is larger is a slip of the keyboard.
constexpr std::int64_t kLargestCount = 1'000'000'000'000'000;

// Of a network, in bytes a second.
constexpr double kLeastBandwidth = 125e3, kLargestBandwidth = 1e15;

enum class KeyKind : std::uint8_t {
  kModel,      // preset, path, table, size
  kDevice,     // "h100-sxm-80gb", "8xh100", "24gb"
  kMachine,    // "aws-p4de", a path, a table
  kPrecision,  // a name of precisions()
  kOptimizer,  // a name of optimizers()
  kName,       // one of `names`
  kNames,      // several of `names`
  kCount,      // 64, 8_192, "7B", "500M": k, M, B are thousands
  kSequence,   // a count whose k is 1024
  kBytes,      // a count of bytes, or "25MiB"
  kBandwidth,  // "400 Gb/s", "50GB/s"
  kNumber,     // any number from `least` to `most`, or one of `names`
  kFraction,   // a number from 0 to 1
  kSwitch,     // true or false
  kClip,       // true, false, or a number of zero or more (zero: false)
  kText,       // any text
  kTexts,      // a list of texts, or one
  kCounts,     // a list of counts
};

enum class KeyId : std::uint8_t {
#define KEY(id, section, name, kind, names, least, most, fallback, aliases, help) id,
#include "job/keys.def"
#undef KEY
};

struct Key {
  KeyId id{};
  std::string_view section;  // "training"; empty for the three at the top
  std::string_view name;     // "sequence_length"
  KeyKind kind{};
  std::vector<std::string_view> names;  // accepted, for kName and kNames
  std::int64_t least = 0, most = 0;
  std::string_view fallback;  // what absence means, in words
  std::vector<std::string_view> aliases;
  std::string_view help;
  std::string path;  // "training.sequence_length"
  std::string
      flag;  // "--sequence-length"; "--recompute-mode" where the name alone would not say enough
  std::vector<std::string> flag_aliases;  // "--seq-len"
};

// All keys, in the order of the run file.
std::span<const Key> run_file_keys();
const Key& key_of(KeyId id);

// The sections, in order: "cluster", "training", ... and those whose names are free: "environment" (of which
// environment_choice.h reads one) and "carried".
std::span<const std::string_view> run_file_sections();
bool is_carried_section(std::string_view section);

// The key that a table [training] with `sequence_length`, or its alias `seq-len`, means.
const Key* find_key(std::string_view section, std::string_view name);
// "training.sequence_length", "sequence_length", "recompute" (its first key): what `explain` and `--over` take.
const Key* find_key_by_path(std::string_view path);
// "--sequence-length", "--tp".
const Key* find_flag(std::string_view flag);

// Rewrites other spellings to the table's own: `tp = 4` becomes `tensor = 4`, `recompute = "full"` the
// table { mode = "full" }. So a flag or a suggestion that sets a key by its path meets it. What cannot
// be rewritten (a key given twice) stays as it is, for the reader to complain of.
void use_canonical_keys(Value& document);

// Whether a section may be written as its first key's value alone: `recompute = "full"`.
bool is_section_word(KeyKind kind);

// The names that a value of this key may have, for help and completion: those of the table, or of the
// devices, precisions, optimizers and presets known.
std::vector<std::string> accepted_names(const Key& key);

// Another word for an accepted name: "fsdp" of kEngine -> "fsdp2". Empty when there is none.
std::string_view meant_name(const Key& key, std::string_view word);

}  // namespace steelyard
