// One config.json while it is being read: sizes checked, other spellings understood, faults
// collected.
//
//   Config config(object, diagnostics);
//   Checked hidden = config.size("hidden_size");          n_embd and d_model are the same key
//   Checked heads = config.size("num_attention_heads");
//   Checked width = config.quotient("hidden_size", hidden, "num_attention_heads", heads);
//   config.warn_of_unknown_keys();                        what no family asked for and what may
//   change tensors
//
// A fault gives the size 0 and a diagnostic, so that a reader goes on and finds the next one. 0
// means "unknown" everywhere below; nothing is complained of twice.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "model/architecture.h"
#include "quantity/checked.h"

namespace steelyard {

// What a tensor dimension may be: PyTorch's own indices are 32 bits wide in most kernels.
constexpr std::int64_t kLargestSize = 2'147'483'647;
// More layers than any model has; a sequence of layers is looked at layer by layer.
constexpr std::int64_t kMostLayers = 65'536;

class Config {
 public:
  Config(const Value& object, Diagnostics& diagnostics);

  // A size that must be there, from 1 to `largest`. 0 after a fault.
  Checked size(std::string_view key, std::int64_t largest = kLargestSize);
  // Absent or null: `fallback`, the class default of the family.
  Checked size_or(std::string_view key, Checked fallback, std::int64_t largest = kLargestSize);
  std::optional<Checked> find_size(std::string_view key, std::int64_t largest = kLargestSize);
  // As size_or, and 0 is allowed.
  Checked count_or(std::string_view key, Checked fallback, std::int64_t largest = kLargestSize);

  bool flag_or(std::string_view key, bool fallback);
  // A probability or a part: from 0 to 1.
  double fraction_or(std::string_view key, double fallback);
  // A positive number; null and absent are nothing.
  std::optional<double> find_number(std::string_view key);
  Activation activation_or(std::string_view key, Activation fallback);
  std::optional<std::string> find_word(std::string_view key);
  // A list of words or of whole numbers; null and absent are nothing.
  std::optional<std::vector<std::string>> find_words(std::string_view key);
  std::optional<std::vector<std::int64_t>> find_numbers(std::string_view key);

  bool is_present(std::string_view key);  // written, be it null
  bool is_null(std::string_view key);     // written as null
  bool is_list(std::string_view key);
  bool is_word(std::string_view key);
  // `key` within the table `outer`, when both are there: rope_parameters.partial_rotary_factor.
  std::optional<double> find_number_within(std::string_view outer, std::string_view key);

  // The table `key`, read as a config of its own; none where there is no table. Its faults are told by `take_faults`.
  std::optional<Config> table(std::string_view key);
  void take_faults(const Config& part) { failed_ = failed_ || part.failed_; }
  // Sizes that an absent key means, where the file leaves out what its class has by itself.
  struct ClassDefault {
    std::string_view key;
    std::int64_t size = 0;
  };
  void assume(std::initializer_list<ClassDefault> sizes) { defaults_ = sizes; }
  // A whole number, or `fallback`.
  std::int64_t integer_or(std::string_view key, std::int64_t fallback);

  // How many members the table `key` has; none where there is no table.
  std::optional<std::int64_t> count_members(std::string_view key);

  // Keys that this family knows and that change no tensor.
  void know(std::initializer_list<std::string_view> keys);

  // `dividend / divisor`, 0 when either is unknown; a remainder is a fault that names both keys.
  Checked quotient(std::string_view dividend_key, Checked dividend, std::string_view divisor_key,
                   Checked divisor);

  void refuse(std::string_view key, std::string code, std::string message, std::string label,
              std::string help = {});
  void warn(std::string_view key, std::string code, std::string message, std::string label,
            std::string help = {});
  bool failed() const { return failed_; }

  // Keys that nobody asked for, that are not known to be harmless, and that hold more than a word.
  void warn_of_unknown_keys(std::string_view family);

 private:
  const Value::Member* member_of(std::string_view key);
  const Value* value_of(std::string_view key);  // nothing for null
  Place place_of(std::string_view key);
  void refuse_type(std::string_view key, const Value& value, std::string_view expected);
  std::optional<Checked> read_size(std::string_view key, std::int64_t smallest,
                                   std::int64_t largest);
  void add(Severity severity, std::string_view key, std::string code, std::string message,
           std::string label, std::string help);

  const Value& object_;
  Diagnostics& diagnostics_;
  std::vector<std::string_view> asked_;  // canonical names and their aliases
  std::vector<std::string_view> disagreed_;
  std::vector<ClassDefault> defaults_;
  bool failed_ = false;
};

}  // namespace steelyard
