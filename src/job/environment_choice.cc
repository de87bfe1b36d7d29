#include "job/environment_choice.h"

#include <array>
#include <utility>

namespace steelyard {
namespace {

// Where both are set, PyTorch reads the first (c10/core/AllocatorConfig.cpp).
constexpr std::array<std::string_view, 2> kAllocatorNames = {"PYTORCH_ALLOC_CONF",
                                                             "PYTORCH_CUDA_ALLOC_CONF"};
// torchtitan run_train.sh.
constexpr std::string_view kTorchtitanSettings = "expandable_segments:True";

// A place within the text of a value, as a place in the run file.
Place within(const Value& value, const Place& in_text) {
  Place place = value.place();
  if (place.line == 0) return in_text;
  place.column += in_text.column;  // behind the quotation mark
  place.length = in_text.length;
  return place;
}

}  // namespace

void choose_environment(Draft& draft, const Value& document, Diagnostics& problems) {
  Job& job = draft.job();
  for (const std::string_view name : kAllocatorNames) {
    const Value* table = document.find("environment");
    const Value* value = table == nullptr ? nullptr : table->find(name);
    if (value == nullptr) continue;
    const std::string path = "environment." + std::string(name);
    if (!value->is_string()) {
      problems.push_back({Severity::kError, "E105", path + " is " + shown(*value) + ", not text",
                          value->place(), "expected text",
                          path + " = \"expandable_segments:True\""});
      return;
    }
    auto settings = read_allocator_settings(value->as_string(), path);
    if (!settings) {
      for (Diagnostic& problem : settings.error()) {
        problem.place = within(*value, problem.place);
        problems.push_back(std::move(problem));
      }
      return;
    }
    job.allocator = *settings;
    return;
  }
  if (job.implementation != Implementation::kTorchtitan) return;
  job.allocator.expandable_segments = true;
  job.assumptions.push_back({"environment.PYTORCH_ALLOC_CONF", std::string(kTorchtitanSettings),
                             "torchtitan's launch script sets it"});
}

}  // namespace steelyard
