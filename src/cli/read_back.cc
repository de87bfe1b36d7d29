#include "cli/read_back.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/run_input.h"
#include "report/json_values.h"
#include "report/verdict_words.h"

namespace steelyard {
namespace {

// What a launch file cannot change by saying it otherwise: the launcher's own words, and what nothing reads.
bool is_apart(std::string_view key) {
  return key.starts_with("launch.") || key.starts_with("carried.") || key == "carried";
}

std::map<std::string, std::string> words_of_run(const Value& run) {
  std::map<std::string, std::string> words;
  for (const Value::Member& section : run.members()) {
    if (!section.value.is_table() || section.key == "model") {
      words[section.key] = section.value.is_table() ? "" : shown(section.value);
      continue;
    }
    for (const Value::Member& member : section.value.members())
      if (const std::string key = section.key + "." + member.key; !is_apart(key))
        words[key] = shown(member.value);
  }
  words.erase("model");  // its sizes are compared by what they weigh
  return words;
}

bool is_same(const Prediction& a, const Prediction& b) {
  const auto seconds = [](const Prediction& one) {
    return one.time ? one.time->step.value() : 0.0;
  };
  return a.verdict == b.verdict && a.peak.device == b.peak.device &&
         a.peak.reserved == b.peak.reserved && a.peak.allocated == b.peak.allocated &&
         a.host_of_node == b.host_of_node && a.usable == b.usable &&
         a.parameters.total == b.parameters.total && a.trainable == b.trainable &&
         seconds(a) == seconds(b);
}

std::string result_of(const Prediction& prediction) {
  return fmt::format("{:.1f} GiB, {}",
                     static_cast<double>(number(prediction.peak.device)) / (1024.0 * 1024 * 1024),
                     verdict_words(prediction.verdict));
}

}  // namespace

ReadBack read_back(const Exported& exported, const Value& run, const std::string& folder) {
  const Weighed asked = weigh_document(run, folder);
  if (!asked.prediction) return {};
  const Imported imported =
      import_file(folder.empty() ? "exported.sh" : folder + "/exported.sh", exported.script);
  const auto unread = [](const Diagnostics& problems) {
    return ReadBack{{{"the whole", "",
                      fmt::format("what is written cannot be weighed again: {}",
                                  problems.empty() ? "" : problems.front().message)}},
                    {}};
  };
  if (imported.failed()) return unread(imported.problems);
  const Weighed again = weigh_document(imported.run, folder);
  if (!again.prediction) return unread(again.problems);
  if (is_same(*asked.prediction, *again.prediction)) return {};
  const std::int64_t parameters = again.prediction->parameters.total;
  if (parameters != asked.prediction->parameters.total) {
    const Value* model = run.find("model");
    return {
        {},
        {{Severity::kError, "E603",
          fmt::format("what is written is another model: {} parameters, and {} here", parameters,
                      asked.prediction->parameters.total),
          model == nullptr ? run.place() : model->place(), "a size that the target has no word for",
          "a run file with these sizes can be weighed, and not exported"}}};
  }
  const Value whole = completed(run, *asked.job);
  const Value read = completed(imported.run, *again.job);
  const auto before = words_of_run(whole);
  const auto after = words_of_run(read);
  const std::string result = result_of(*again.prediction);
  std::vector<ConfigWriter::Loss> losses;
  std::vector<ConfigWriter::Loss> idle;  // that alone change nothing
  const auto add = [&](const std::string& key, const std::string& word) {
    const Value* other = read.at(key);
    Value changed = whole;
    if (other == nullptr)
      remove_path(changed, key);
    else
      set_path(changed, key, *other, Place{});
    const Weighed weighed = weigh_document(changed, folder);
    const bool same = weighed.prediction && is_same(*asked.prediction, *weighed.prediction);
    (same ? idle : losses)
        .push_back({key, word,
                    other == nullptr
                        ? fmt::format("what is written does not say it ({})", result)
                        : fmt::format("what is written starts {} ({})", shown(*other), result)});
  };
  for (const auto& [key, word] : before)
    if (const auto found = after.find(key); found == after.end() || found->second != word)
      add(key, word);
  for (const auto& [key, word] : after)
    if (before.find(key) == before.end()) add(key, "");
  if (losses.empty()) losses = std::move(idle);
  if (losses.empty())
    losses.push_back({"model", "", fmt::format("what is written starts another ({})", result)});
  return {std::move(losses), {}};
}

}  // namespace steelyard
