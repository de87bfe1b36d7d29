// Layouts that experts published, with how fast they measured them, against what a plan of the same task finds.
//
//   GPT-3 175B on 64 A100      measured 13.8 s     predicted 13.2 s     planned 12.9 s
//
// A plan that is more than 15 % faster than what experts measured promises too much, or they left that much: it is called
// suspicious, with the term of the step that is to be looked at first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace steelyard {

// data/published/*.json
struct PublishedRecipe {
  std::string name;   // "megatron-175b"
  std::string title;  // "GPT-3 175B on 64 A100"
  Value run;
  // As the source has it; one of them.
  double step_seconds = 0, teraflops_per_device = 0, device_hours_per_trillion_tokens = 0;
  std::string url, where, notes;
};
const std::vector<PublishedRecipe>& published_recipes();

struct AgainstPublished {
  PublishedRecipe recipe;
  PlanRow published;            // their layout, weighed
  double measured_seconds = 0;  // of a step
  std::optional<PlanRow> best;  // ours, with their engine, model, devices, batch and precision
  bool suspicious = false;
  TimeTerm responsible{};  // of the step: what the plan spares most, else what it spends most on
};
constexpr double kSuspicious = 0.15;

tl::expected<AgainstPublished, Diagnostics> against_published(const PublishedRecipe& recipe,
                                                              const SearchHelp& help);

}  // namespace steelyard
