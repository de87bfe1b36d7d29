#include "plan/first_fit.h"

#include <algorithm>
#include <utility>

#include "plan/furthest.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

// Of layouts that nearly fit by the search's estimate, so many with the least need are asked of the predictor.
constexpr std::size_t kMostNear = 64;

}  // namespace

// Whether weigh says that it is sure to fit.
bool FirstFit::is_confirmed(std::uint32_t layout) const {
  try {
    const ReadJob job = reader_.job_of(space_.layout(layout));
    return job && predict_if_it_fits(*job);
  } catch (const OverflowError&) {
    return false;
  }
}

// The first of these that is confirmed; their number when none is, or when the time was up. In rounds of 1, 2, 4, ...: most
// of the time the first one is.
std::size_t FirstFit::first_confirmed(const std::vector<std::uint32_t>& layouts) const {
  std::size_t round = 1;
  for (std::size_t from = 0; from < layouts.size() && !help_.is_out_of_time(); from += round) {
    if (from > 0) round *= 2;
    std::vector<char> sure(std::min(round, layouts.size() - from), 0);
    help_.share(sure.size(), [&](std::size_t i) {
      sure[i] = !help_.is_out_of_time() && is_confirmed(layouts[from + i]) ? 1 : 0;
    });
    const auto first = std::find(sure.begin(), sure.end(), 1);
    if (first != sure.end()) return from + static_cast<std::size_t>(first - sure.begin());
  }
  return layouts.size();
}

void FirstFit::take(std::vector<LayoutOutcome>& answers) {
  std::vector<std::size_t> fit;
  std::vector<std::uint32_t> layouts;
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (!answers[i].skipped && answers[i].answer.fate == Fate::kFits) {
      fit.push_back(i);
      layouts.push_back(answers[i].answer.layout);
    }
  const std::size_t first = first_confirmed(layouts);
  for (std::size_t i = 0; i < fit.size(); ++i) {
    LayoutOutcome& outcome = answers[fit[i]];
    if (i < first)
      outcome.answer.fate = Fate::kTight;
    else if (i > first)
      outcome.skipped = true;  // nobody needs a second one
  }
  for (LayoutOutcome& outcome : answers)
    if (!outcome.skipped && outcome.answer.fate == Fate::kTight &&
        std::find(layouts.begin(), layouts.end(), outcome.answer.layout) == layouts.end())
      near_.push_back(outcome);
    else
      found_.take(outcome);
}

// Nothing was confirmed: those that nearly fit by the estimate, the leanest first.
void FirstFit::settle() {
  std::stable_sort(near_.begin(), near_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.answer.high, a.answer.layout) < std::pair(b.answer.high, b.answer.layout);
  });
  if (found_.counts.fits == 0) {
    std::vector<std::uint32_t> layouts;
    for (std::size_t i = 0; i < std::min(kMostNear, near_.size()); ++i)
      layouts.push_back(near_[i].answer.layout);
    const std::size_t first = first_confirmed(layouts);
    if (first < layouts.size())
      near_[first].answer.fate = Fate::kFits;
    else if (help_.is_out_of_time())
      found_.interrupted = true;
  }
  for (const LayoutOutcome& outcome : near_) found_.take(outcome);
}

}  // namespace steelyard
