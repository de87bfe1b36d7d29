#include "plan/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>

#include "quantity/checked.h"

namespace steelyard {
namespace {

// Some of those that the search estimates to fit fall when the allocator is simulated, or cannot be launched.
constexpr std::size_t kUnlike = 8, kTries = 64;

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
  if (result.interrupted) return "not finished in time";
  if (space.empty()) return "divides neither the devices nor the batch";
  const TooLarge* nearest = nullptr;
  for (const TooLarge& group : result.too_large)
    if (nearest == nullptr || group.least_excess < nearest->least_excess) nearest = &group;
  if (nearest != nullptr)
    return fmt::format("{:.1f} GiB too much",
                       static_cast<double>(nearest->least_excess) / (1024.0 * 1024.0 * 1024.0));
  return result.refusals.empty() ? "does not fit" : result.refusals.front().words;
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
  std::vector<WeighedLayout> candidates = best_unlike(found, space, kUnlike);
  for (const WeighedLayout& weighed : found.weighed) {
    if (weighed.fate != Fate::kFits || candidates.size() == kTries) break;
    candidates.push_back(weighed);
  }
  for (const WeighedLayout& weighed : candidates) {
    auto row = launched_row_of(asked, space, layout_of(space, weighed), help);
    if (!row || row->prediction.verdict != Verdict::kFits) continue;
    answer.row = std::move(row);
    return answer;
  }
  answer.reason = found.best() == nullptr ? reason_of(found, space) : "is not sure to fit";
  return answer;
}

}  // namespace

std::optional<std::string> launch_fault(const PlanQuestion& question, const PlanRow& row,
                                        const SearchHelp& help) {
  if (!help.cannot_launch) return std::nullopt;
  for (const SearchedStack& stack : question.target.stacks)
    if (stack.engine == row.layout.engine && stack.implementation == row.layout.implementation &&
        !stack.target.empty())
      return help.cannot_launch(row.run, stack.target);
  return std::nullopt;
}

std::optional<PlanRow> launched_row_of(const PlanQuestion& question, const Space& space,
                                       const Layout& layout, const SearchHelp& help) {
  auto row = row_of(question, space, layout, help);
  const bool must = !question.stacks.is_said || help.must_launch;
  if (row && must && row->prediction.verdict != Verdict::kDoesNotFit &&
      launch_fault(question, *row, help))
    return std::nullopt;
  return row;
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
