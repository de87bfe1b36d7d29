#include "plan/steadiest.h"

#include <algorithm>
#include <utility>

#include "predict/draw.h"

namespace steelyard {
namespace {

// Few of those that the search estimates to fit fall when the allocator is simulated.
constexpr std::size_t kSteadyTries = 4;

std::vector<double> steps_of(const Job& job) {
  std::vector<double> steps;
  for (const OnMachine& on : step_on_machines(job)) steps.push_back(on.step.value());
  return steps;
}

// Where the fastest loses most to it.
Steadiness steadiness_of(const PlanRow& steady, const PlanRow& fastest) {
  const std::vector<OnMachine> ours = step_on_machines(steady.job),
                               theirs = step_on_machines(fastest.job);
  std::size_t worst = 0;
  for (std::size_t i = 1; i < ours.size(); ++i)
    if (theirs[i].step.value() * ours[worst].step.value() >
        theirs[worst].step.value() * ours[i].step.value())
      worst = i;
  return {fastest.time.step, ours[worst], theirs[worst].step};
}

}  // namespace

std::optional<SteadyPlan> steadiest(const PlanQuestion& question, const Space& space,
                                    const SearchResult& result, const PlanRow& fastest,
                                    const SearchHelp& help) {
  if (step_on_machines(fastest.job).size() < 2) return std::nullopt;
  std::vector<Layout> layouts;
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits || weighed.seconds > fastest.time.step.value() * (1 + kDraw))
      break;
    layouts.push_back(layout_of(space, weighed));
  }
  std::vector<std::vector<double>> steps(layouts.size());
  help.share(layouts.size(), [&](std::size_t i) {
    if (const ReadJob job =
            help.read(run_of(question.run, layouts[i], space, question.target.model->layers)))
      steps[i] = steps_of(*job);
  });
  if (std::any_of(steps.begin(), steps.end(), [](const auto& row) { return row.empty(); }))
    return std::nullopt;
  const std::vector<std::size_t> order = steadiest_first(steps);
  for (std::size_t i = 0; i < std::min(order.size(), kSteadyTries); ++i) {
    const Layout& layout = layouts[order[i]];
    if (layout == fastest.layout) return std::nullopt;
    auto row = fitting_row_of(question, space, layout, help);
    if (!row) continue;
    const Steadiness why = steadiness_of(*row, fastest);
    return SteadyPlan{std::move(*row), why};
  }
  return std::nullopt;
}

}  // namespace steelyard
