#include "plan/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>

#include "quantity/checked.h"

namespace steelyard {
namespace {

// Some of those that the search estimates to fit fall when the allocator is simulated, or cannot be launched.
constexpr std::size_t kUnlike = 8, kTries = 64;
constexpr const char* kUnfinished = "not finished in time";

const Stack* stack_of_row(const PlanRow& row) {
  return stack_of(row.layout.engine, row.layout.implementation, row.layout.zero_stage);
}

// The same question, of one stack alone.
PlanQuestion asked_of(const PlanQuestion& question, const Stack& stack) {
  PlanQuestion asked = question;
  asked.target.stacks.clear();
  for (SearchedStack searched : question.target.stacks) {
    if (!stack.runs(searched.engine, searched.implementation)) continue;
    for (std::int64_t stage = 0; stage < 4; ++stage)
      searched.stages[stage] = searched.stages[stage] && stack.has_stage(stage);
    asked.target.stacks.push_back(std::move(searched));
  }
  asked.recipes.resize(1);
  return asked;
}

std::string reason_of(const SearchResult& result, const Space& space) {
  if (result.interrupted) return kUnfinished;
  if (space.empty()) return "divides neither the devices nor the batch";
  const TooLarge* nearest = nullptr;
  for (const TooLarge& group : result.too_large)
    if (nearest == nullptr || group.least_excess < nearest->least_excess) nearest = &group;
  if (nearest != nullptr)
    return fmt::format("{:.1f} GiB too much",
                       static_cast<double>(nearest->least_excess) / (1024.0 * 1024.0 * 1024.0));
  return result.refusals.empty() ? "does not fit" : result.refusals.front().words;
}

// The fastest that a person would not call the same, then all by time: each once.
std::vector<WeighedLayout> candidates_of(const SearchResult& found, const Space& space) {
  std::vector<WeighedLayout> candidates = best_unlike(found, space, kUnlike);
  std::vector<std::uint32_t> known;
  for (const WeighedLayout& unlike : candidates) known.push_back(unlike.layout);
  for (std::size_t i = 0; i < std::min(found.weighed.size(), kTries - known.size()); ++i) {
    if (found.weighed[i].fate != Fate::kFits) break;
    if (std::find(known.begin(), known.end(), found.weighed[i].layout) == known.end())
      candidates.push_back(found.weighed[i]);
  }
  return candidates;
}

std::optional<std::string> fault_of(const PlanQuestion& question, const Layout& layout,
                                    const Value& run, const SearchHelp& help) {
  if (!help.cannot_launch) return std::nullopt;
  for (const SearchedStack& stack : question.target.stacks)
    if (stack.engine == layout.engine && stack.implementation == layout.implementation &&
        !stack.target.empty())
      return help.cannot_launch(run, stack.target);
  return std::nullopt;
}

// Nothing, too, where a layout need not be launched. Takes a hundredth of the time of the allocator's replay.
std::optional<std::string> launch_fault_of(const PlanQuestion& question, const Space& space,
                                           const Layout& layout, const SearchHelp& help) {
  if (!must_launch(question, help)) return std::nullopt;
  return fault_of(question, layout,
                  run_of(question.run, layout, space, question.target.model->layers), help);
}

// In rounds of 1, 2, 4, ... that the workers share: most of the time the first is enough.
void answer_with_first(const PlanQuestion& question, const Space& space,
                       const std::vector<WeighedLayout>& candidates, const SearchHelp& help,
                       StackAnswer& answer) {
  std::optional<std::string> fault;  // of the fastest
  std::size_t round = 1, launched = 0;
  for (std::size_t from = 0; from < candidates.size(); from += round, round *= 2) {
    if (from > 0 && help.is_out_of_time()) break;
    std::vector<std::optional<PlanRow>> rows(std::min(round, candidates.size() - from));
    std::vector<std::optional<std::string>> faults(rows.size());
    help.share(rows.size(), [&](std::size_t i) {
      if (from > 0 && help.is_out_of_time()) return;
      const Layout layout = layout_of(space, candidates[from + i]);
      faults[i] = launch_fault_of(question, space, layout, help);
      if (!faults[i]) rows[i] = fitting_row_of(question, space, layout, help);
    });
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i]) {
        answer.row = std::move(rows[i]);
        return;
      }
      if (!faults[i]) ++launched;
      if (!fault) fault = std::move(faults[i]);
    }
  }
  answer.reason = "is not sure to fit";
  if (fault && launched == 0) answer.reason = std::move(*fault);
  if (help.is_out_of_time()) answer.reason = kUnfinished;
}

StackAnswer answer_of(const PlanQuestion& question, const Stack& stack, const SearchHelp& help) {
  StackAnswer answer;
  answer.stack = &stack;
  const PlanQuestion asked = asked_of(question, stack);
  const Space space = space_of(asked, help);
  SearchWish wish;
  wish.best = kUnlike;
  wish.within = 0;
  const SearchResult found = search(asked.run, asked.target, space, wish, help);
  answer_with_first(asked, space, candidates_of(found, space), help, answer);
  if (found.best() == nullptr) answer.reason = reason_of(found, space);
  return answer;
}

}  // namespace

bool must_launch(const PlanQuestion& question, const SearchHelp& help) {
  return !question.stacks.is_said || help.must_launch;
}

std::optional<std::string> launch_fault(const PlanQuestion& question, const PlanRow& row,
                                        const SearchHelp& help) {
  return fault_of(question, row.layout, row.run, help);
}

std::optional<PlanRow> launched_row_of(const PlanQuestion& question, const Space& space,
                                       const Layout& layout, const SearchHelp& help) {
  if (launch_fault_of(question, space, layout, help)) return std::nullopt;
  return row_of(question, space, layout, help);
}

std::optional<PlanRow> launched_fitting_row_of(const PlanQuestion& question, const Space& space,
                                               const Layout& layout, const SearchHelp& help) {
  if (launch_fault_of(question, space, layout, help)) return std::nullopt;
  return fitting_row_of(question, space, layout, help);
}

std::vector<StackAnswer> side_by_side(const PlanQuestion& question,
                                      const std::vector<PlanRow>& known, const SearchHelp& help) {
  std::vector<StackAnswer> answers;
  const bool alone = question.target.devices == 1 && help.stacks.empty();
  for (const Stack* stack : question.stacks.rows) {
    if (alone && stack->several) continue;
    const PlanRow* fastest = nullptr;
    for (const PlanRow& row : known)
      if (row.recipe.empty() && stack_of_row(row) == stack &&
          (fastest == nullptr || row.time.step < fastest->time.step))
        fastest = &row;
    if (fastest == nullptr) {
      answers.push_back(answer_of(question, *stack, help));
      continue;
    }
    StackAnswer& answer = answers.emplace_back();
    answer.stack = stack;
    answer.row = *fastest;
  }
  std::stable_sort(answers.begin(), answers.end(), [](const StackAnswer& a, const StackAnswer& b) {
    if (a.row.has_value() != b.row.has_value()) return a.row.has_value();
    return a.row && a.row->time.step < b.row->time.step;
  });
  return answers;
}

}  // namespace steelyard
