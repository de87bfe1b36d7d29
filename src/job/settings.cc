#include "job/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "job/unknown_key.h"

namespace steelyard {

Settings::Settings(const Value& document, Diagnostics& problems)
    : document_(&document), problems_(&problems) {
  index_.fill(-1);
  settings_.reserve(40);
  if (!document.is_table()) {
    complain({Severity::kError,
              "E105",
              fmt::format("the run is {}, not a table of keys", name_of(document.kind())),
              document.place(),
              "expected { \"model\": ..., \"cluster\": ... }",
              {}});
    return;
  }
  const auto sections = run_file_sections();
  for (const Value::Member& member : document.members()) {
    if (const Key* key = find_key("", member.key)) {
      read_member(member, *key);
      continue;
    }
    const auto section = std::find(sections.begin(), sections.end(), std::string_view(member.key));
    if (section != sections.end()) {
      read_section(member, *section);
    } else {
      read_unknown(member, "");
    }
  }
}

void Settings::read_section(const Value::Member& section, std::string_view name) {
  if (is_carried_section(name) || section.value.is_null()) return;
  if (section.value.is_table()) {
    for (const Value::Member& member : section.value.members()) {
      if (const Key* key = find_key(name, member.key)) {
        read_member(member, *key);
      } else {
        read_unknown(member, name);
      }
    }
    return;
  }
  // `recompute = "full"` says enough: the first key of the section is meant.
  const Key* first = find_key_by_path(name);
  if (section.value.is_string() && first != nullptr && first->section == name &&
      is_section_word(first->kind)) {
    read_member(section, *first);
    return;
  }
  complain({Severity::kError, "E105",
            fmt::format("{} is {}, not a table", name, shown(section.value)), section.value.place(),
            "expected a table of keys", fmt::format("write its keys below [{}]", name)});
}

void Settings::read_member(const Value::Member& member, const Key& key) {
  if (member.value.is_null()) return;
  const auto id = static_cast<std::size_t>(key.id);
  if (index_[id] >= 0) {
    Setting& earlier = settings_[static_cast<std::size_t>(index_[id])];
    const Value::Member& first = *earlier.member;
    // A flag over a file's key of another spelling: the flag was said last, and it stands on no line.
    if (first.key_mark.line > 0 && member.key_mark.line == 0) {
      Setting later;
      later.member = &member;
      if (read_value(member.value, key, later)) earlier = std::move(later);
      return;
    }
    complain(
        {Severity::kError, "E102",
         fmt::format("{} is given twice: as \"{}\" and as \"{}\"", key.path, first.key, member.key),
         member.key_place(), "given again here", "keep one of the two"});
    return;
  }
  Setting setting;
  setting.member = &member;
  if (!read_value(member.value, key, setting)) {
    refused_.set(id);
    return;
  }
  index_[id] = static_cast<std::int16_t>(settings_.size());
  settings_.push_back(std::move(setting));
}

void Settings::read_unknown(const Value::Member& member, std::string_view section) {
  // The nearest name is looked for among hundreds: not for each key of a file of another kind.
  if (is_full(*problems_, Severity::kError)) return count_problem(*problems_, Severity::kError);
  UnknownKey unknown = unknown_key(member, section);
  for (const KeyId id : unknown.meant) refused_.set(static_cast<std::size_t>(id));
  complain(std::move(unknown.problem));
}

void Settings::complain(Diagnostic problem) { add_problem(*problems_, std::move(problem)); }

const Setting* Settings::find(KeyId id) const {
  const std::int16_t at = index_[static_cast<std::size_t>(id)];
  return at < 0 ? nullptr : &settings_[static_cast<std::size_t>(at)];
}
std::optional<std::int64_t> Settings::count(KeyId id) const {
  const Setting* setting = find(id);
  return setting == nullptr ? std::nullopt : std::optional(setting->count);
}
std::optional<double> Settings::number(KeyId id) const {
  const Setting* setting = find(id);
  return setting == nullptr ? std::nullopt : std::optional(setting->number);
}
std::optional<bool> Settings::truth(KeyId id) const {
  const Setting* setting = find(id);
  return setting == nullptr ? std::nullopt : std::optional(setting->truth);
}
std::optional<int> Settings::name(KeyId id) const {
  const Setting* setting = find(id);
  return setting == nullptr ? std::nullopt : std::optional(setting->name);
}
const std::string* Settings::text(KeyId id) const {
  const Setting* setting = find(id);
  return setting == nullptr ? nullptr : &setting->text;
}

Place Settings::place(KeyId id) const {
  if (const Setting* setting = find(id)) return setting->member->whole_place();
  const std::string_view section = key_of(id).section;
  return has_section(section) ? section_place(section)
                              : Place{document_->place().source, 0, 0, {}, 0};
}
Place Settings::value_place(KeyId id) const {
  const Setting* setting = find(id);
  return setting == nullptr ? place(id) : setting->member->value.place();
}
bool Settings::has_section(std::string_view section) const {
  const Value* value = document_->find(section);
  return value != nullptr && !value->is_null();
}
Place Settings::section_place(std::string_view section) const {
  const Value::Member* member = document_->member(section);
  return member == nullptr ? Place{document_->place().source, 0, 0, {}, 0} : member->key_place();
}

}  // namespace steelyard
