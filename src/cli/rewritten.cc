#include "cli/rewritten.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/run_input.h"
#include "formats/launch/launch.h"

namespace steelyard {
namespace {

// Whether the tool's own files can say these keys.
class Sayable {
 public:
  Sayable(const Value& document, std::string folder, std::string_view tool)
      : document_(document), folder_(std::move(folder)), tool_(tool) {}

  bool has_words(const Value& changed, const Job& job, const RunEdits& edits) const {
    if (tool_.empty()) return true;
    const Exported exported = written(changed, job);
    if (!exported.problems.empty() && !refuses_the_run_itself()) return false;
    return std::none_of(exported.losses.begin(), exported.losses.end(), [&](const auto& loss) {
      return std::any_of(edits.begin(), edits.end(),
                         [&](const Suggestion::Edit& edit) { return edit.key == loss.key; });
    });
  }

 private:
  Exported written(const Value& run, const Job& job) const {
    return export_launch(completed(run, job), tool_);
  }

  // What it cannot write of the run as it is, no change is to blame for.
  bool refuses_the_run_itself() const {
    if (!refuses_) {
      const auto job = job_of(document_, folder_);
      refuses_ = !job || !written(document_, *job).problems.empty();
    }
    return *refuses_;
  }

  const Value& document_;
  std::string folder_, tool_;
  mutable std::optional<bool> refuses_;
};

}  // namespace

Rewritten rewritten(const Value& document, const std::string& folder, std::string_view tool) {
  const auto sayable = std::make_shared<const Sayable>(document, folder, tool);
  return [&document, folder, sayable](const RunEdits& edits) -> std::optional<Job> {
    Value changed = document;
    for (const Suggestion::Edit& edit : edits) {
      if (edit.to.empty())
        remove_path(changed, edit.key);
      else
        lay_over(changed, {edit_of(edit.key, edit.to, "--apply")});
    }
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
