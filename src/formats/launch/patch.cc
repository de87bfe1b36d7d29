#include "formats/launch/patch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "document/edit_distance.h"
#include "formats/launch/formats.h"
#include "formats/launch/patch_check.h"
#include "formats/launch/patch_documents.h"
#include "formats/launch/patch_launcher.h"
#include "formats/launch/patch_text.h"

namespace steelyard {
namespace {

// Few enough to read the files again for each; a run has some hundred keys.
constexpr std::size_t kMostEdits = 200;

class Patcher {
 public:
  Patcher(std::string_view main, const Imported& imported, const Value& wanted,
          const LaunchContext& context)
      : main_(main),
        imported_(imported),
        wanted_(wanted),
        check_(main_, imported_, wanted_, changed_, context) {
    const Leaves before(imported.run);
    follow_devices();
    follow_positions();
    const Leaves after(wanted_);
    for (const Leaf& leaf : after) {
      const Value* was = before.find(leaf.path);
      if (was == nullptr || !says_the_same(*was, *leaf.value)) changed_.insert(leaf.path);
    }
    for (const Leaf& leaf : before)
      if (after.find(leaf.path) == nullptr) changed_.insert(leaf.path);
  }

  Patched patched() {
    if (!changed_.empty()) {
      for (const LaunchDocument& document : imported_.documents) compare(document);
      for (const std::string& key : changed_) drop_other_words(key);
      for (PlacedEdit& edit : launcher_edits(imported_, wanted_, changed_))
        add(std::move(edit), false);
      settle();
    }
    Patched result;
    result.also = also_;
    report(result);
    if (!result.problems.empty()) return result;
    const auto texts = check_.texts_of(kept());
    for (const auto& [name, text] : texts)
      if (name == main_ || text != imported_.sources.find(name)->second.text) {
        PatchedFile file{name, imported_.sources.find(name)->second.text, text};
        result.files.insert(name == main_ ? result.files.begin() : result.files.end(),
                            std::move(file));
      }
    return result;
  }

 private:
  // A script that says its nodes says the devices twice.
  void follow_devices() {
    const auto count = [&](const Value& run, const char* key) {
      const Value* value = run.at(key);
      return value == nullptr ? std::int64_t{0} : count_of(*value).value_or(0);
    };
    const std::int64_t devices = count(wanted_, "cluster.devices");
    const std::int64_t each = count(wanted_, "cluster.devices_per_node");
    // Fewer devices than one machine had are one smaller machine.
    if (devices > 0 && devices < each && each == count(imported_.run, "cluster.devices_per_node"))
      set_path(wanted_, "cluster.devices_per_node", Value::integer(devices), Place());
    const std::int64_t nodes = count(imported_.run, "launch.nodes");
    if (nodes > 0 && nodes == count(wanted_, "launch.nodes") && each > 0 && devices % each == 0 &&
        devices != count(imported_.run, "cluster.devices"))
      set_path(wanted_, "launch.nodes", Value::integer(devices / each), Place());
  }

  // Megatron-LM starts no run whose sequence is longer than its positions (megatron/training/arguments.py).
  void follow_positions() {
    const Value* length = wanted_.at("training.sequence_length");
    const Value* positions = wanted_.at("model.max_position_embeddings");
    const bool is_megatron =
        std::any_of(imported_.documents.begin(), imported_.documents.end(),
                    [](const LaunchDocument& document) { return document.format == "megatron"; });
    if (!is_megatron || length == nullptr || positions == nullptr) return;
    const std::int64_t least = count_of(*length).value_or(0);
    if (least <= count_of(*positions).value_or(0)) return;
    set_path(wanted_, "model.max_position_embeddings", Value::integer(least), Place());
    also_.emplace_back("max-position-embeddings: Megatron-LM needs it to be at least the sequence");
  }

  struct Candidate {
    PlacedEdit edit;
    bool needed = false;  // the document says this value today, and the run says another
    bool on = true;
  };

  void add(PlacedEdit edit, bool needed) {
    if (candidates_.size() >= kMostEdits) return;
    for (const Candidate& other : candidates_)
      if (other.edit.source == edit.source && other.edit.edit.at == edit.edit.at &&
          other.edit.edit.length == edit.edit.length && edit.edit.length > 0)
        return;
    candidates_.push_back({std::move(edit), needed, true});
  }

  // What the format's writer says otherwise of the two runs, where the document says it or should.
  void compare(const LaunchDocument& document) {
    if (format_of(document.theirs) == "llama-factory-v1") return;
    const auto before = written_document(document.format, imported_.run);
    const auto after = written_document(document.format, wanted_);
    if (!before || !after) return;
    for (const Diagnostic& problem : after->problems)
      if (std::none_of(before->problems.begin(), before->problems.end(),
                       [&](const Diagnostic& old) { return old.message == problem.message; }))
        refusals_.push_back(problem);
    const Leaves old(before->theirs);
    const Leaves fresh(after->theirs);
    for (const Leaf& leaf : fresh) {
      written_paths_.insert(leaf.path);
      const Value* was = old.find(leaf.path);
      if (was != nullptr && says_the_same(*was, *leaf.value)) continue;
      say(document, *after, leaf.path, was, *leaf.value);
    }
    for (const Leaf& leaf : old) {
      written_paths_.insert(leaf.path);
      if (fresh.find(leaf.path) != nullptr) continue;
      if (const Value::Member* member = member_at(document.theirs, leaf.path))
        take_out(*member, says_the_same(member->value, *leaf.value));
    }
    insert_tables(document, *after);
  }

  void take_out(const Value::Member& member, bool needed) {
    const LaunchSource* source = source_of(imported_, member.key_mark);
    if (source == nullptr) return;
    if (auto edit = removed(*source, member))
      add({member.key_mark.source->name, std::move(*edit)}, needed);
  }

  void say(const LaunchDocument& document, const WrittenDocument& after, const std::string& path,
           const Value* was, const Value& value) {
    const Value::Member* member = member_at(document.theirs, path);
    const auto row = after.said_by.find(path);
    if (member == nullptr && row != after.said_by.end() && row->second->also.size() > 0) {
      std::string_view names = row->second->also;
      while (!names.empty() && member == nullptr) {
        const std::string_view name = names.substr(0, names.find('|'));
        member = member_at(document.theirs, name);
        names.remove_prefix(std::min(names.size(), name.size() + 1));
      }
      if (member != nullptr) written_paths_.insert(member->key);
    }
    if (member != nullptr) {
      const bool needed = was != nullptr && says_the_same(member->value, *was);
      const LaunchSource* source =
          source_of(imported_, member->value.is_null() ? member->key_mark : member->value.mark());
      if (source == nullptr) return;
      const bool switches_off = source->language == LaunchSource::Language::kShell &&
                                document.format == "megatron" && value.is_bool() &&
                                !value.as_bool();
      if (switches_off) return take_out(*member, needed);
      if (auto edit = replaced(*source, *member, value))
        add({(member->value.is_null() ? member->key_mark : member->value.mark()).source->name,
             std::move(*edit)},
            needed);
      else
        note_unwritable(*member);
      return;
    }
    // A key that the old run's document has not is one that the engine needs beside the others.
    insert(document, after, path, value, was == nullptr);
  }

  void insert(const LaunchDocument& document, const WrittenDocument& after, const std::string& path,
              const Value& value, bool needed) {
    const std::vector<std::string> parts = parts_of(path);
    const Value* here = &document.theirs;
    std::string table;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      here = here->find(parts[i]);
      table += (table.empty() ? "" : ".") + parts[i];
      // Where their document holds one word for what is written as a table, that word stays.
      if (here != nullptr && !here->is_table() && !here->is_null()) return;
      if (here != nullptr && here->is_table()) continue;
      // The keys of a table that is new come together.
      new_tables_.push_back({table, path, value, needed});
      return;
    }
    join(document, {parts, value, neighbours_of(after.theirs, path)}, needed);
  }

  struct NewLeaf {
    std::string table;
    std::string path;
    Value value;
    bool needed = false;
  };

  void insert_tables(const LaunchDocument& document, const WrittenDocument& after) {
    std::vector<NewLeaf> leaves = std::move(new_tables_);
    new_tables_.clear();
    while (!leaves.empty()) {
      const std::string table = leaves.front().table;
      Value all = Value::table();
      bool needed = false;
      for (const NewLeaf& leaf : leaves)
        if (leaf.table == table) {
          set_path(all, leaf.path.substr(table.size() + 1), leaf.value, Place());
          needed = needed || leaf.needed;
        }
      if (!join(document, {parts_of(table), all, neighbours_of(after.theirs, table)}, needed))
        for (const NewLeaf& leaf : leaves)  // flags have no tables
          if (leaf.table == table)
            join(document, {parts_of(leaf.path), leaf.value, {}}, leaf.needed);
      leaves.erase(std::remove_if(leaves.begin(), leaves.end(),
                                  [&](const NewLeaf& leaf) { return leaf.table == table; }),
                   leaves.end());
    }
  }

  bool join(const LaunchDocument& document, const NewMember& member, bool needed) {
    std::set<std::string> names;
    for (const Value::Member& one : document.theirs.members())
      if (one.key_mark.source != nullptr) names.insert(one.key_mark.source->name);
    // A file before the flags that are laid over it.
    for (const bool file : {true, false})
      for (const std::string& name : names) {
        const auto source = imported_.sources.find(name);
        if (source == imported_.sources.end() ||
            (source->second.language != LaunchSource::Language::kShell) != file)
          continue;
        auto edit = inserted(source->second, name, document.theirs, member);
        if (!edit) continue;
        add({name, std::move(*edit)}, needed);
        return true;
      }
    return false;
  }

  // A key of theirs that says a changed key in a word which is never written: flash_attention beside attn_implementation.
  void drop_other_words(const std::string& key) {
    const Value* said = imported_.run.at(key);
    if (said == nullptr) return;
    for (const LaunchDocument& document : imported_.documents) {
      if (document.format == "launcher" || document.format == "sbatch") continue;
      for (const Leaf& leaf : Leaves(document.theirs)) {
        if (!is_same_place(leaf.value->mark(), said->mark()) || written_paths_.count(leaf.path) > 0)
          continue;
        if (const Value::Member* member = member_at(document.theirs, leaf.path))
          take_out(*member, false);
      }
    }
  }

  void note_unwritable(const Value::Member& member) {
    if (unwritable_.empty()) unwritable_place_ = member.value.place();
    unwritable_.push_back(member.key);
  }

  std::vector<const PlacedEdit*> kept() const {
    std::vector<const PlacedEdit*> edits;
    for (const Candidate& candidate : candidates_)
      if (candidate.on) edits.push_back(&candidate.edit);
    return edits;
  }

  // Leaves out each edit without which the files still are the run that is wanted.
  void settle() {
    std::size_t score = check_.differences(kept()).size();
    for (int round = 0; round < 2; ++round)
      for (Candidate& candidate : candidates_) {
        if (!candidate.on) continue;
        candidate.on = false;
        const std::size_t without = check_.differences(kept()).size();
        if (candidate.needed ? without < score : without <= score)
          score = without;
        else
          candidate.on = true;
      }
  }

  void report(Patched& result) {
    if (changed_.empty()) return;
    std::vector<std::string> keys = check_.differences(kept());
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    std::vector<std::string> failed;
    const bool is_engine_alone = std::all_of(
        imported_.documents.begin(), imported_.documents.end(), [](const LaunchDocument& document) {
          return document.format == "accelerate" || document.format == "deepspeed";
        });
    for (const std::string& key : keys) {
      // Who the launcher runs on is not in every file.
      const bool elsewhere = key.starts_with("cluster.") || key.starts_with("launch.") ||
                             key.starts_with("prediction.");
      if (elsewhere && imported_.run.at(key) == nullptr) continue;
      const bool is_lost = imported_.run.at(key) == nullptr && changed_.count(key) > 0;
      // An engine's file says nothing of what the script decides.
      if (is_lost && is_engine_alone && !key.starts_with("parallel."))
        result.left_out.push_back(key);
      else if (is_lost && !key.starts_with("parallel.") &&
               !key.starts_with("training.micro_batch") &&
               !key.starts_with("training.sequence_length") && !key.starts_with("adapter."))
        result.left_out.push_back(key);
      else
        failed.push_back(key);
    }
    if (failed.empty()) return;
    if (!refusals_.empty()) {
      result.problems = refusals_;
      return;
    }
    const auto list_of = [](const auto& all) {
      std::string list;
      for (const std::string& key : all) list += (list.empty() ? "" : ", ") + key;
      return list;
    };
    const bool moves_others = std::none_of(
        failed.begin(), failed.end(),
        [&](const std::string& key) { return changed_.count(key) > 0 || key == kTheFile; });
    Diagnostic problem{Severity::kError,
                       "E615",
                       fmt::format("{} cannot be changed to this in {}", list_of(failed), main_),
                       Place(),
                       "",
                       "change it by hand, then weigh the file; --new writes a new file instead"};
    if (moves_others)
      problem.message = fmt::format("{} cannot be changed alone in {}: {} would change with it",
                                    list_of(changed_), main_, list_of(failed));
    const Value* said = wanted_.at(moves_others ? *changed_.begin() : failed.front());
    if (said != nullptr) problem.place = said->place();
    if (!unwritable_.empty()) {
      problem.place = unwritable_place_;
      problem.label = fmt::format("{} is computed or written in a form that is not edited",
                                  unwritable_.front());
    } else if (!check_.failure().message.empty()) {
      problem.label = check_.failure().message;
    }
    result.problems.push_back(std::move(problem));
  }

  std::string main_;
  const Imported& imported_;
  Value wanted_;
  std::set<std::string> changed_;
  PatchCheck check_;
  std::set<std::string> written_paths_;
  std::vector<NewLeaf> new_tables_;
  std::vector<Candidate> candidates_;
  std::vector<std::string> unwritable_;
  std::vector<std::string> also_;
  Diagnostics refusals_;  // of the format's writer
  Place unwritable_place_;
};

}  // namespace

bool is_own_target(const Imported& imported, std::string_view target) {
  std::set<std::string, std::less<>> formats;
  for (const LaunchDocument& document : imported.documents)
    formats.insert(format_of(document.theirs) == "llama-factory-v1" ? "llama-factory-v1"
                                                                    : document.format);
  const auto reads = [&](std::string_view format) { return formats.count(format) > 0; };
  for (const std::string_view own :
       {"axolotl", "llama-factory", "torchtitan", "nanotron", "megatron"})
    if (reads(own)) return target == own;
  const Value* engine = imported.run.find("engine");
  const std::string name = engine == nullptr ? "" : word_of(*engine);
  if (target == "deepspeed") return reads("deepspeed") && name == "deepspeed";
  if (target == "trl") return reads("trainer");
  if (target != "accelerate") return false;
  const bool launched =
      std::any_of(imported.formats.begin(), imported.formats.end(),
                  [](const std::string& format) { return format.starts_with("accelerate"); });
  return reads("accelerate") || launched || (reads("trainer") && name != "deepspeed");
}

Patched patch_launch(std::string_view main, const Imported& imported, const Value& wanted,
                     const LaunchContext& context) {
  return Patcher(main, imported, wanted, context).patched();
}

}  // namespace steelyard
