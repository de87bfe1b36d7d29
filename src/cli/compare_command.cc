#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/calibrated.h"
#include "cli/command.h"
#include "cli/compare_snapshot.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/run_input.h"
#include "cli/stored_tensors.h"
#include "document/printable.h"
#include "picture/answers.h"
#include "report/comparison.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

// Every value of the document with its dotted path, in order.
void flatten(const Value& value, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& into) {
  if (!value.is_table()) {
    into.emplace_back(printable(path), shown(value));
    return;
  }
  for (const Value::Member& member : value.members())
    flatten(member.value, path.empty() ? member.key : path + "." + member.key, into);
}

std::vector<ChangedKey> changed_keys(const Value& before, const Value& after) {
  std::vector<std::pair<std::string, std::string>> left;
  std::vector<std::pair<std::string, std::string>> right;
  flatten(before, "", left);
  flatten(after, "", right);
  const auto find = [](const auto& rows, const std::string& key) -> const std::string* {
    for (const auto& [name, text] : rows)
      if (name == key) return &text;
    return nullptr;
  };
  std::vector<ChangedKey> changed;
  for (const auto& [key, text] : left) {
    const std::string* other = find(right, key);
    if (other == nullptr || *other != text)
      changed.push_back({key, text, other == nullptr ? "" : *other});
  }
  for (const auto& [key, text] : right)
    if (find(left, key) == nullptr) changed.push_back({key, "", text});
  return changed;
}

}  // namespace

int compare_command(const Invocation& invocation) {
  const auto calibrated = calibrated_rates(invocation);
  if (!calibrated) return refuse(invocation, calibrated.error(), "nothing weighed");
  if (invocation.words.size() != 2)
    return refuse_words(invocation, "compare takes two run files, models or memory snapshots");
  for (std::size_t side : {0u, 1u})
    if (const auto checkpoint = stored_checkpoint(invocation.words[side])) {
      if (const auto status = refuse_pictures(invocation, "a comparison with a checkpoint"))
        return *status;
      return compare_with_checkpoint(invocation, invocation.words[1 - side], *checkpoint);
    }
  if (const auto status = compare_with_snapshot(invocation)) return *status;
  const std::vector<KeyEdit> edits = edits_of(invocation.keys);
  std::vector<RunInput> inputs;
  std::vector<Weighed> weighed;
  Diagnostics problems;
  for (const std::string& word : invocation.words) {
    auto input = read_run(word, invocation);
    if (!input) {
      problems.insert(problems.end(), input.error().begin(), input.error().end());
      continue;
    }
    lay_over(input->document, edits);
    Weighed one = weigh_document(input->document, input->folder);
    if (!one.prediction) problems.insert(problems.end(), one.problems.begin(), one.problems.end());
    inputs.push_back(std::move(*input));
    weighed.push_back(std::move(one));
  }
  if (!problems.empty()) return refuse(invocation, problems, "nothing compared");

  for (std::size_t i = 0; i < weighed.size(); ++i) {
    warn(invocation, warnings_of_import(inputs[i]));
    warn(invocation, weighed[i].job->warnings);
  }
  // Two files of one name are told apart by their folders.
  const bool alike = inputs[0].name == inputs[1].name;
  const Compared before{alike ? inputs[0].word : inputs[0].name, *weighed[0].job,
                        *weighed[0].prediction};
  const Compared after{alike ? inputs[1].word : inputs[1].name, *weighed[1].job,
                       *weighed[1].prediction};
  const std::vector<ChangedKey> changed = changed_keys(inputs[0].document, inputs[1].document);
  const auto drawn = write_pictures(
      invocation, differ(before, after) ? kFinding : kDone,
      [&](const Frame& frame) { return comparison_svg(before, after, frame); },
      [&](const std::string& svg) {
        return report_of_text(
            invocation, comparison_text(before, after, changed, report_text_style(invocation)), svg,
            document_text(json_of(before, after, changed)));
      });
  if (drawn) return *drawn;
  const Style& style = invocation.style;
  if (invocation.json) {
    answer(document_text(json_of(before, after, changed)));
  } else {
    const std::string text = invocation.has("batch") ? batch_text(before, after, style)
                             : invocation.has("quiet")
                                 ? comparison_line(before, after, style)
                                 : comparison_text(before, after, changed, style);
    answer(style.ascii ? plain_characters(text) : text);
  }
  if (invocation.has("batch")) return same_batch(before.job, after.job) ? kDone : kFinding;
  return differ(before, after) ? kFinding : kDone;
}

}  // namespace steelyard
