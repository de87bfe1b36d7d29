#include "cli/rewritten.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/run_input.h"
#include "formats/launch/launch.h"

namespace steelyard {
namespace {

// Whether the tool's own files can say these keys.
class Sayable {
 public:
  Sayable(const Value& document, const std::string& folder, std::string_view tool) : tool_(tool) {
    if (tool_.empty()) return;
    // What it cannot write of the run as it is, no change is to blame for.
    const auto job = job_of(document, folder);
    refuses_as_it_is_ = !job || !written(document, *job).problems.empty();
  }

  bool has_words(const Value& changed, const Job& job, const RunEdits& edits) const {
    if (tool_.empty()) return true;
    const Exported exported = written(changed, job);
    if (!refuses_as_it_is_ && !exported.problems.empty()) return false;
    return std::none_of(exported.losses.begin(), exported.losses.end(), [&](const auto& loss) {
      return std::any_of(edits.begin(), edits.end(),
                         [&](const Suggestion::Edit& edit) { return edit.key == loss.key; });
    });
  }

 private:
  Exported written(const Value& run, const Job& job) const {
    return export_launch(completed(run, job), tool_);
  }

  std::string tool_;
  bool refuses_as_it_is_ = false;
};

}  // namespace

Rewritten rewritten(const Value& document, const std::string& folder, std::string_view tool) {
  const auto sayable = std::make_shared<const Sayable>(document, folder, tool);
  return [&document, folder, sayable](const RunEdits& edits) -> std::optional<Job> {
    Value changed = document;
    for (const Suggestion::Edit& edit : edits)
      lay_over(changed, {edit_of(edit.key, edit.to, "--apply")});
    try {
      auto job = job_of(changed, folder);
      if (!job || !sayable->has_words(changed, *job, edits)) return std::nullopt;
      return std::move(*job);
    } catch (const OverflowError&) {
      return std::nullopt;
    }
  };
}

std::string_view tool_of(const Value& document) {
  const std::string_view target = target_of(document);
  return target == "megatron" || target == "nanotron" || target == "torchtitan"
             ? target
             : std::string_view{};
}

}  // namespace steelyard
