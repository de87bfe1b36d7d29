#include "job/unknown_key.h"

#include <fmt/format.h>

#include <string>

#include "document/edit_distance.h"

namespace steelyard {
namespace {

std::string section_name(std::string_view section) {
  return section.empty() ? "the top of the file" : fmt::format("[{}]", section);
}

// The right word in the wrong section.
std::string help_from_elsewhere(std::string_view word, std::string_view section) {
  std::string help;
  int found = 0;
  for (const Key& key : run_file_keys()) {
    if (key.section == section || find_key(key.section, word) != &key || found == 3) continue;
    help += (found++ == 0 ? fmt::format("\"{}\" belongs in ", word) : " or ") +
            section_name(key.section);
  }
  return help;
}

std::string help_from_sections(std::string_view word, UnknownKey& unknown) {
  const auto near = nearest_names(word, run_file_sections());
  for (const std::string& section : near)
    for (const Key& key : run_file_keys())
      if (key.section == section) unknown.meant.push_back(key.id);
  return did_you_mean("section", near);
}

std::string help_from_keys(std::string_view word, std::string_view section, UnknownKey& unknown) {
  std::vector<std::string_view> names;
  for (const Key& key : run_file_keys())
    if (key.section == section) names.push_back(key.name);
  const auto near = nearest_names(word, names);
  for (const std::string& name : near)
    if (const Key* key = find_key(section, name)) unknown.meant.push_back(key->id);
  return did_you_mean("key", near);
}

// A slip in a word that stands in the wrong section.
std::string help_from_any_key(std::string_view word) {
  std::vector<std::string_view> names;
  for (const Key& key : run_file_keys()) names.push_back(key.name);
  const auto near = nearest_names(word, names);
  const Key* key = near.empty() ? nullptr : find_key_by_path(near.front());
  if (key == nullptr) return {};
  return fmt::format("the key is \"{}\" in {}", key->name, section_name(key->section));
}

}  // namespace

UnknownKey unknown_key(const Value::Member& member, std::string_view section) {
  const bool is_section = section.empty() && member.value.is_table();
  UnknownKey unknown;
  unknown.problem = {Severity::kError,
                     "E104",
                     fmt::format("unknown {} \"{}\"", is_section ? "section" : "key", member.key),
                     member.key_place(),
                     section.empty()
                         ? fmt::format("not a {} of the run file", is_section ? "section" : "key")
                         : fmt::format("not a key of [{}]", section),
                     {}};
  std::string& help = unknown.problem.help;
  if (is_section) help = help_from_sections(member.key, unknown);
  if (help.empty()) help = help_from_elsewhere(member.key, section);
  if (help.empty()) help = help_from_keys(member.key, section, unknown);
  if (help.empty() && section.empty() && !is_section)
    help = help_from_sections(member.key, unknown);
  if (help.empty()) help = help_from_any_key(member.key);
  return unknown;
}

}  // namespace steelyard
