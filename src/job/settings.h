// The run file as it was written, each key checked by itself: known, of the right kind, within reason.
//
//   Settings settings(document, problems);
//   settings.count(KeyId::kTensor)         8, or nothing when the key is absent
//   settings.place(KeyId::kTensor)         run.toml:18:1, for an error about it
//
// What the keys mean together is for validate.h. The document must outlive its settings.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "job/job.h"
#include "job/keys.h"

namespace steelyard {

struct Setting {
  const Value::Member* member = nullptr;
  std::int64_t count = 0;  // kCount, kSequence, kBytes; of a list of counts the sum
  double number = 0;       // kNumber, kFraction; kBandwidth: bytes a second
  bool truth = false;      // kSwitch, kClip
  int name = -1;           // kName: the index in the key's names
  std::string text;  // kText, kPrecision, kOptimizer, kDevice; kModel and kMachine when it is text
  std::vector<std::string> texts;    // kTexts
  std::vector<std::int64_t> counts;  // kCounts
  std::vector<int> several;          // kNames: the indices
};

class Settings {
 public:
  Settings(const Value& document, Diagnostics& problems);

  const Setting* find(KeyId id) const;
  bool has(KeyId id) const { return find(id) != nullptr; }
  // Written, and so wrongly that there is an error about it already.
  bool was_refused(KeyId id) const { return refused_.test(static_cast<std::size_t>(id)); }

  std::optional<std::int64_t> count(KeyId id) const;
  std::optional<double> number(KeyId id) const;
  std::optional<bool> truth(KeyId id) const;
  std::optional<int> name(KeyId id) const;
  const std::string* text(KeyId id) const;

  // Where the key stands with its value; of an absent key the document itself.
  Place place(KeyId id) const;
  Place value_place(KeyId id) const;

  // Whether the section was written at all, be it empty.
  bool has_section(std::string_view section) const;
  Place section_place(std::string_view section) const;

  // What was read leniently: "8k" for 8192, "fsdp" for fsdp2.
  const std::vector<Assumption>& understood() const { return understood_; }

 private:
  void read_member(const Value::Member& member, const Key& key);
  void read_section(const Value::Member& section, std::string_view name);
  void read_unknown(const Value::Member& member, std::string_view section);
  bool read_value(const Value& value, const Key& key, Setting& setting);
  bool read_count(const Value& value, const Key& key, std::int64_t& count);
  bool read_number(const Value& value, const Key& key, double& number);
  bool read_bandwidth(const Value& value, const Key& key, double& bytes_per_second);
  bool read_switch(const Value& value, const Key& key, bool& truth);
  bool read_name(const Value& value, const Key& key, int& index);
  bool read_texts(const Value& value, const Key& key, std::vector<std::string>& texts);
  bool read_known_text(const Value& value, const Key& key, std::string& text);
  bool is_short(const Value& list, const Key& key, std::size_t most);
  void wrong_kind(const Value& value, const Key& key, std::string_view expected);
  void unknown_name(const Value& value, const Key& key, std::string_view word);
  void understand(const Key& key, std::string value, std::string reason);
  void complain(Diagnostic problem);

  static constexpr KeyId kEachKey[] = {
#define KEY(id, section, name, kind, names, least, most, fallback, aliases, help) KeyId::id,
#include "job/keys.def"
#undef KEY
  };
  static constexpr std::size_t kKeys = std::size(kEachKey);
  const Value* document_;
  Diagnostics* problems_;
  std::array<std::int16_t, kKeys> index_;  // of `settings_`; -1: absent
  std::vector<Setting> settings_;
  std::bitset<kKeys> refused_;
  std::vector<Assumption> understood_;
};

}  // namespace steelyard
