#include "formats/launch/patch_check.h"

#include <algorithm>

#include "formats/launch/patch_documents.h"

namespace steelyard {
namespace {

constexpr std::size_t kNotRead = 1000;  // keys that differ, where the files are no run any more

bool has(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_default(const Imported& run, const std::string& key) {
  return std::any_of(run.unsaid.begin(), run.unsaid.end(),
                     [&](const Unsaid& unsaid) { return unsaid.key == key; });
}

}  // namespace

bool is_same_place(const Mark& one, const Mark& other) {
  return one.source != nullptr && other.source != nullptr && one.line > 0 &&
         one.source->name == other.source->name && one.line == other.line &&
         one.column == other.column;
}

const LaunchSource* source_of(const Imported& imported, const Mark& mark) {
  if (mark.source == nullptr) return nullptr;
  const auto found = imported.sources.find(mark.source->name);
  return found == imported.sources.end() ? nullptr : &found->second;
}

// The texts with these edits. What a script writes itself, between << and its end, is edited in the script.
std::map<std::string, std::string> PatchCheck::texts_of(
    const std::vector<const PlacedEdit*>& edits) const {
  std::map<std::string, std::vector<TextEdit>> by_name;
  for (const auto& [name, source] : imported_.sources) by_name[name];
  const auto main = imported_.sources.find(main_);
  for (const PlacedEdit* placed : edits) {
    TextEdit edit = placed->edit;
    const auto own = imported_.sources.find(placed->source);
    std::string name = placed->source;
    if (name.ends_with(" in " + main_) && own != imported_.sources.end()) {
      const std::size_t at = main->second.text.find(own->second.text);
      if (at == std::string::npos) continue;
      edit.at += at;
      name = main_;
    }
    by_name[name].push_back(std::move(edit));
  }
  std::map<std::string, std::string> texts;
  for (auto& [name, own] : by_name) {
    const auto source = imported_.sources.find(name);
    if (source == imported_.sources.end()) continue;
    std::stable_sort(own.begin(), own.end(),
                     [](const TextEdit& a, const TextEdit& b) { return a.at < b.at; });
    std::string text;
    std::size_t from = 0;
    for (const TextEdit& edit : own) {
      if (edit.at < from) continue;
      text += source->second.text.substr(from, edit.at - from) + edit.text;
      from = edit.at + edit.length;
    }
    if (name.ends_with(" in " + main_)) continue;
    texts[name] = text + source->second.text.substr(std::min(from, source->second.text.size()));
  }
  return texts;
}

// The keys in which the files, read again, are another run than the one that is wanted.
std::vector<std::string> PatchCheck::differences(
    const std::vector<const PlacedEdit*>& edits) const {
  const auto texts = texts_of(edits);
  const auto main = texts.find(main_);
  if (main == texts.end()) return {kTheFile};
  LaunchContext context = context_;
  context.read_file = [&](const std::string& path) -> tl::expected<std::string, std::string> {
    const auto found = texts.find(path);
    if (found != texts.end()) return found->second;
    if (!context_.read_file) return tl::unexpected(std::string("no such file"));
    return context_.read_file(path);
  };
  const Imported again = import_launch(main->second, main_, context);
  if (again.failed()) {
    for (const Diagnostic& problem : again.problems)
      if (problem.severity == Severity::kError) failure_ = problem;
    return std::vector<std::string>(kNotRead, kTheFile);
  }
  std::vector<std::string> keys;
  const Leaves got(again.run);
  for (const Leaf& leaf : Leaves(wanted_)) {
    const std::string& key = leaf.path;
    if (key.starts_with("carried.")) continue;
    const Value* value = got.find(key);
    if (value != nullptr && says_the_same(*value, *leaf.value)) continue;
    // A default that went, or became another, with the key that it follows from.
    if (changed_.count(key) == 0 && is_default(imported_, key) &&
        (value == nullptr || is_default(again, key)))
      continue;
    // No word, and none needed.
    if (value == nullptr && imported_.run.at(key) == nullptr && is_neutral(key, *leaf.value))
      continue;
    // One word said two keys (adamw_torch_fused: the optimizer and its form), and another word says one.
    if (value == nullptr && changed_.count(key) == 0 && stands_with_a_change(imported_.run, key))
      continue;
    keys.push_back(key);
  }
  for (const Leaf& leaf : got)
    if (!leaf.path.starts_with("carried.") && wanted_.at(leaf.path) == nullptr &&
        !is_default(again, leaf.path) && !stands_with_a_change(again.run, leaf.path))
      keys.push_back(leaf.path);
  // What is only carried stays as it was written.
  const std::vector<std::string> edited = edited_keys(edits);
  for (const Leaf& leaf : Leaves(imported_.run)) {
    if (!leaf.path.starts_with("carried.") || has(edited, leaf.path)) continue;
    const Value* value = got.find(leaf.path);
    if (value == nullptr || !says_the_same(*value, *leaf.value)) keys.push_back(leaf.path);
  }
  return keys;
}

// Whether the key was written where a key that changes was.
bool PatchCheck::stands_with_a_change(const Value& run, const std::string& key) const {
  const Value* value = run.at(key);
  return value != nullptr &&
         std::any_of(changed_.begin(), changed_.end(), [&](const std::string& other) {
           const Value* there = run.at(other);
           return other != key && there != nullptr && is_same_place(there->mark(), value->mark());
         });
}

// Carried keys whose own place is edited.
std::vector<std::string> PatchCheck::edited_keys(
    const std::vector<const PlacedEdit*>& edits) const {
  std::vector<std::string> keys;
  for (const Leaf& leaf : Leaves(imported_.run)) {
    const Mark& mark = leaf.value->mark();
    if (!leaf.path.starts_with("carried.") || mark.source == nullptr) continue;
    const LaunchSource* source = source_of(imported_, mark);
    if (source == nullptr) continue;
    const auto at = offset_of(*source, mark);
    for (const PlacedEdit* edit : edits)
      if (at && edit->source == mark.source->name && edit->edit.length > 0 &&
          *at >= edit->edit.at && *at < edit->edit.at + edit->edit.length)
        keys.push_back(leaf.path);
  }
  return keys;
}

}  // namespace steelyard
