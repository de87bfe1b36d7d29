// The half of mapping.h that writes: what is expressed, what is lost, what cannot be said.
#include <fmt/format.h>

#include "formats/launch/carried_concepts.h"
#include "formats/launch/mapping.h"
#include "job/keys.h"

namespace steelyard {
namespace {

bool is_carried(std::string_view section) { return section == "carried"; }

// Without these the file would start a run of another shape.
bool is_structural(std::string_view ours) {
  for (const std::string_view prefix :
       {"parallel.", "adapter.", "offload.", "model", "engine", "recompute.mode",
        "training.micro_batch", "training.global_batch", "training.sequence_length"})
    if (ours.starts_with(prefix)) return true;
  return false;
}

}  // namespace

bool is_neutral(std::string_view ours, const Value& value) {
  const std::string word = word_of(value);
  if (value.is_bool()) return !value.as_bool();
  if (word == "none" || word == "plain" || word == "own" || word == "fixed" || word == "default")
    return true;
  if (ours == "parallel.zero_stage") return word == "0";
  if (ours == "parallel.schedule" || ours == "parallel.context_method") return false;
  if (ours.starts_with("parallel.") || ours == "training.loss_chunks") return word == "1";
  if (ours.find("dropout") != std::string_view::npos) return word == "0";
  return false;
}

const Value* ConfigWriter::take(std::string_view ours) {
  expressed_.emplace(ours);
  return run_.at(ours);
}

std::string ConfigWriter::look_word(std::string_view ours) const {
  const Value* value = run_.at(ours);
  return value == nullptr ? "" : word_of(*value);
}

std::int64_t ConfigWriter::look_count(std::string_view ours, std::int64_t otherwise) const {
  const Value* value = run_.at(ours);
  return value == nullptr ? otherwise : count_of(*value).value_or(otherwise);
}

bool ConfigWriter::look_truth(std::string_view ours) const {
  const Value* value = run_.at(ours);
  return value != nullptr && truth_of(*value).value_or(false);
}

std::string ConfigWriter::word(std::string_view ours, std::string_view otherwise) {
  const Value* value = take(ours);
  return value == nullptr ? std::string(otherwise) : word_of(*value);
}

std::int64_t ConfigWriter::count(std::string_view ours, std::int64_t otherwise) {
  take(ours);
  return look_count(ours, otherwise);
}

bool ConfigWriter::truth(std::string_view ours, bool otherwise) {
  const Value* value = take(ours);
  return value == nullptr ? otherwise : truth_of(*value).value_or(otherwise);
}

void ConfigWriter::rows(std::span<const Row> rows) {
  for (const Row& row : rows) {
    if (row.only_read) continue;
    const Value* value = take(row.ours);
    if (value == nullptr) continue;
    // One rank is what every format takes by itself; some refuse to be told.
    if (row.absent.empty() && row.ours.starts_with("parallel.") &&
        row.ours != "parallel.zero_stage" && is_neutral(row.ours, *value))
      continue;
    const Key* key = find_key_by_path(row.ours);
    const std::string says = key == nullptr ? std::string(row.ours) : std::string(key->help);
    said_by[std::string(row.theirs)] = &row;
    if (row.words.empty()) {
      put(row.theirs, *value, says);
    } else if (const auto word = theirs_of(row.words, word_of(*value))) {
      put(row.theirs, typed_value(*word), says);
    } else {
      refuse(row.ours, fmt::format("{} has no word for {} = {}", format_, row.ours, shown(*value)));
    }
  }
}

void ConfigWriter::put(std::string_view path, Value value, std::string_view says) {
  set_path(theirs, path, std::move(value), Place{});
  if (!says.empty()) comments[std::string(path)] = std::string(says);
}

void ConfigWriter::refuse(std::string_view ours, std::string reason, std::string help) {
  expressed_.emplace(ours);
  const Value* value = run_.at(ours);
  problems.push_back({Severity::kError, "E603", std::move(reason),
                      value == nullptr ? run_.place() : value->place(),
                      fmt::format("{} cannot say this", format_), std::move(help)});
}

void ConfigWriter::lose(std::string_view ours, std::string reason) {
  expressed_.emplace(ours);
  const Value* value = run_.at(ours);
  losses.push_back({std::string(ours), value == nullptr ? "" : shown(*value), std::move(reason)});
}

void ConfigWriter::fill_in(std::string_view path, Value value,
                           std::initializer_list<std::string_view> or_these) {
  to_fill_in_.push_back({std::string(path), std::move(value), {or_these.begin(), or_these.end()}});
}

void ConfigWriter::bring_carried() {
  const Value* all = run_.find("carried");
  const Value* own = all == nullptr ? nullptr : all->find(format_);
  if (own != nullptr && own->is_table()) {
    const std::function<void(Value&, const Value&)> bring = [&](Value& into, const Value& from) {
      for (const Value::Member& member : from.members()) {
        Value::Member* there = into.member(member.key);
        if (there == nullptr)
          into.members().push_back(member);
        else if (there->value.is_table() && member.value.is_table())
          bring(there->value, member.value);
      }
    };
    bring(theirs, *own);
  }
  for (MovedConcept& moved : concepts_for(run_, format_)) {
    brought.insert(moved.from);
    const std::size_t list = moved.path.find(".0.");
    if (list == std::string::npos) {
      if (theirs.at(moved.path) == nullptr) put(moved.path, std::move(moved.value));
    } else if (const std::string name = moved.path.substr(0, list); theirs.at(name) == nullptr) {
      Value item = Value::table();
      set_path(item, moved.path.substr(list + 3), std::move(moved.value), Place{});
      put(name, Value::array({std::move(item)}), "fill in its other keys");
    }
  }
  for (ToFillIn& one : to_fill_in_) {
    bool is_said = theirs.at(one.path) != nullptr;
    for (const std::string& other : one.or_these) is_said = is_said || theirs.at(other) != nullptr;
    if (!is_said) put(one.path, std::move(one.value), "fill in");
  }
}

void ConfigWriter::close() {
  const auto look_at = [&](const std::string& path, const Value& value) {
    if (expressed_.count(path) > 0 || is_neutral(path, value)) return;
    if (is_structural(path))
      refuse(path, fmt::format("{} has no word for {} = {}", format_, path, shown(value)));
    else
      lose(path, fmt::format("{} has no key for it", format_));
  };
  if (!run_.is_table()) return;
  for (const Value::Member& section : run_.members()) {
    if (is_carried(section.key)) continue;
    if (!section.value.is_table() || section.key == "model") {
      look_at(section.key, section.value);
      continue;
    }
    for (const Value::Member& member : section.value.members())
      look_at(section.key + "." + member.key, member.value);
  }
}

}  // namespace steelyard
