#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plan/recipe_changes.h"
#include "plan/side_by_side.h"
#include "plan/steadiest.h"
#include "predict/host_room.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

// Rows are confirmed with the allocator simulated, and some fall: so many more are tried.
constexpr std::size_t kSpare = 4, kSpareTight = 1;
// Of those that a person may try before the sure one.
constexpr std::size_t kMostTight = 3;

using Work = std::function<void()>;

void sort_by_time(std::vector<PlanRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(),
                   [](const PlanRow& a, const PlanRow& b) { return a.time.step < b.time.step; });
}

struct Confirmed {
  std::vector<PlanRow> rows, tight;  // fastest first
  void add(std::optional<PlanRow> row) {
    if (!row) return;
    if (row->prediction.verdict == Verdict::kFits)
      rows.push_back(std::move(*row));
    else if (row->prediction.is_expected_to_fit())
      tight.push_back(std::move(*row));
  }
};

using RowOf = std::optional<PlanRow> (*)(const PlanQuestion& question, const Space& space,
                                         const Layout& layout, const SearchHelp& help);

// `beside`: what else there is to do meanwhile. `row_of`: launched_fitting_row_of where nobody asks for what nearly fits.
Confirmed confirmed(const PlanQuestion& question, const Space& space,
                    const std::vector<WeighedLayout>& candidates, std::size_t wanted,
                    const SearchHelp& help, std::vector<Work> beside = {},
                    RowOf row_of = launched_row_of) {
  std::vector<std::optional<PlanRow>> weighed(candidates.size());
  Confirmed answer;
  // In rounds: most of the time the first are enough.
  for (std::size_t from = 0;
       !beside.empty() || (from < candidates.size() && answer.rows.size() < wanted);) {
    const std::size_t count = std::min(candidates.size() - from, wanted - answer.rows.size());
    help.share(count + beside.size(), [&](std::size_t i) {
      if (i >= count) return beside[i - count]();
      weighed[from + i] = row_of(question, space, layout_of(space, candidates[from + i]), help);
    });
    beside.clear();
    for (std::size_t i = from; i < from + count; ++i) answer.add(std::move(weighed[i]));
    from += count;
  }
  sort_by_time(answer.rows);
  sort_by_time(answer.tight);
  return answer;
}

// Where none of the fastest of their kinds is confirmed: the fastest of all that fit by the search's estimate, if it is among
// so many. What has been tried is not tried again.
constexpr std::size_t kMostTries = 64;
void confirm_any(const PlanQuestion& question, const Space& space, const SearchResult& result,
                 const std::vector<WeighedLayout>& tried, const SearchHelp& help,
                 Confirmed& answer) {
  if (!answer.rows.empty()) return;
  std::vector<WeighedLayout> rest;
  for (std::size_t i = 0; i < std::min(kMostTries, result.weighed.size()); ++i) {
    const WeighedLayout& weighed = result.weighed[i];
    if (weighed.fate == Fate::kFits &&
        std::none_of(tried.begin(), tried.end(),
                     [&](const WeighedLayout& other) { return other.layout == weighed.layout; }))
      rest.push_back(weighed);
  }
  answer.rows = confirmed(question, space, rest, 1, help, {}, launched_fitting_row_of).rows;
}

// ---- the rule of thumb

bool has_experts(const Architecture& model) {
  return std::any_of(model.kinds.begin(), model.kinds.end(), [](const Layer& layer) {
    return std::holds_alternative<ExpertMlp>(layer.mlp);
  });
}

std::optional<Layout> thumb_layout(const Space& space, Engine engine, int stage,
                                   std::int64_t tensor, std::int64_t pipeline,
                                   std::int64_t devices_per_node, bool experts) {
  std::optional<Layout> chosen;
  for (const Bundle& bundle : space.bundles) {
    const Layout& common = bundle.common;
    if (common.engine != engine || common.tensor != tensor || common.pipeline != pipeline ||
        common.context != 1 || common.chunks != 1 || common.recipe != 0 ||
        common.loss != LossKernel::kPlain || (tensor > 1 && !common.sequence_parallel) ||
        common.expert > devices_per_node ||
        common.schedule > PipelineSchedule::kOneForwardOneBackward ||
        (pipeline > 1 && common.schedule != PipelineSchedule::kOneForwardOneBackward))
      continue;
    for (std::uint32_t at = 0; at < space.size_of(bundle); ++at) {
      const Layout layout = space.layout(bundle, space.choice_of(bundle, bundle.first + at));
      if (layout.zero_stage != stage || layout.replicate != 1 ||
          (experts && layout.expert_tensor != 1) || layout.recompute != RecomputeMode::kFull)
        continue;
      // The smallest micro-batch, and experts over the machine.
      if (!chosen || layout.expert > chosen->expert ||
          (layout.expert == chosen->expert && layout.micro_batch < chosen->micro_batch))
        chosen = layout;
    }
  }
  return chosen;
}

std::optional<RuleOfThumb> rule_of_thumb(const PlanQuestion& question, const Space& space,
                                         const SearchHelp& help) {
  struct Try {
    Engine engine;
    int stage;
    std::int64_t tensor, pipeline;
  };
  const PlanTarget& target = question.target;
  const bool experts = has_experts(*target.model);
  std::vector<Try> tries;
  if (target.devices <= target.devices_per_node) {
    tries = {{Engine::kDeepSpeed, 2, 1, 1},
             {Engine::kDeepSpeed, 3, 1, 1},
             {Engine::kFsdp2, 3, 1, 1},
             {Engine::kDdp, 0, 1, 1}};
  } else if (experts) {
    for (std::int64_t tensor = 1; tensor <= target.devices_per_node; tensor *= 2)
      for (std::int64_t pipeline = 1; pipeline <= target.model->layers; ++pipeline)
        if (target.devices % (tensor * pipeline) == 0)
          tries.push_back({Engine::kMegatron, 1, tensor, pipeline});
    tries.push_back({Engine::kFsdp2, 3, 1, 1});
  } else {
    std::int64_t tensor = 1;
    for (; tensor <= target.devices_per_node; tensor *= 2)
      tries.push_back({Engine::kMegatron, 1, tensor, 1});
    for (std::int64_t pipeline = 2; pipeline <= target.model->layers; ++pipeline)
      tries.push_back({Engine::kMegatron, 1, target.devices_per_node, pipeline});
    tries.push_back({Engine::kFsdp2, 3, 1, 1});
  }
  for (const Try& step : tries) {
    const auto layout = thumb_layout(space, step.engine, step.stage, step.tensor, step.pipeline,
                                     target.devices_per_node, experts);
    if (!layout) continue;
    const ReadJob job = help.read(run_of(question.run, *layout, space, target.model->layers));
    if (!job || estimate(*job).verdict != Verdict::kFits) continue;
    if (auto row = row_of(question, space, *layout, help)) {
      const bool fits = row->prediction.verdict == Verdict::kFits;
      return RuleOfThumb{std::move(*row), fits};
    }
  }
  return std::nullopt;
}

// ---- the same on more devices

// One machine with fewer than usual has room for more; several are what they are.
std::int64_t room_in_machine(const PlanTarget& target) {
  const bool one = target.devices <= target.devices_per_node;
  return one ? std::max(target.devices_per_node, target.room_in_node) : target.devices_per_node;
}

PlanQuestion on_devices(const PlanQuestion& question, std::int64_t devices) {
  PlanQuestion asked = question;
  PlanTarget& target = asked.target;
  target.devices = devices;
  target.devices_per_node =
      std::max(target.devices_per_node, std::min(devices, room_in_machine(question.target)));
  asked.run = with_key(asked.run, KeyId::kDevices, Value::integer(target.devices));
  asked.run = with_key(asked.run, KeyId::kDevicesPerNode, Value::integer(target.devices_per_node));
  return asked;
}

// ---- when nothing fits

// Layouts that nearly fit, of which one may lack nothing but a host that somebody knows.
constexpr std::size_t kMostUnsure = 8;

std::vector<WayOut> ways_out(const PlanQuestion& question, const SearchHelp& help) {
  std::vector<WayOut> ways;
  const auto fastest = [&](const PlanQuestion& asked) -> std::optional<PlanRow> {
    const Space space = space_of(asked, help);
    SearchWish wish;
    wish.best = 1;
    wish.within = 0;
    wish.tight = kMostUnsure;
    const SearchResult found = search(asked.run, asked.target, space, wish, help);
    const std::vector<WeighedLayout> candidates = best_unlike(found, space, kSpare);
    Confirmed sure = confirmed(asked, space, candidates, 1, help, {}, launched_fitting_row_of);
    confirm_any(asked, space, found, candidates, help, sure);
    if (!sure.rows.empty()) return std::move(sure.rows.front());
    // A host that nobody knows may have what the devices lack.
    Confirmed near = confirmed(asked, space, best_unlike(found, space, kMostUnsure, Fate::kTight),
                               kMostUnsure, help);
    for (PlanRow& row : near.tight)
      if (only_host_is_unsure(row.prediction)) return std::move(row);
    return std::nullopt;
  };
  for (const AllowedChange& step : recipe_changes()) {
    // Products in 8 bits spare time, not memory.
    if (step.word == "fp8" || !step.is_way_out) continue;
    PlanQuestion asked = question;
    // Every layout has the change; what the layouts of the question were is known already.
    for (const auto& [path, value] : step.change.keys) {
      Place place;
      place.source = "plan";
      set_path(asked.run, path, value, place);
    }
    asked.recipes = {RecipeChange{}};
    if (step.change.keys.front().first.starts_with("adapter"))
      remove_path(asked.run, key_of(KeyId::kOptimizerForm).path);
    auto row = fastest(asked);
    // A search without an end says nothing of what does not help.
    if (!row && help.is_out_of_time()) return ways;
    ways.push_back({step.change.name, step.cost, std::move(row)});
  }
  for (std::int64_t times = 2; times <= 64; times *= 2) {
    const PlanQuestion asked = on_devices(question, question.target.devices * times);
    auto row = fastest(asked);
    if (!row && help.is_out_of_time()) return ways;
    if (!row) continue;
    ways.push_back(
        {fmt::format("{} devices", asked.target.devices), "the same training", std::move(row)});
    break;
  }
  return ways;
}

std::vector<Sensitivity> sensitivity_of(const PlanQuestion& question, const PlanRow& best,
                                        const SearchHelp& help) {
  std::vector<Sensitivity> answers;
  for (const WhatIf& what : what_would_help(best.job))
    answers.push_back({what.change, what.step.value(), what.gain});
  if (const std::vector<OnMachine> steps = step_on_machines(best.job); steps.size() > 1)
    if (const OnMachine& slowest = slowest_of(steps); slowest.machine != steps.front().machine)
      answers.push_back({fmt::format("on {} (--machine)", slowest.machine->name),
                         slowest.step.value(), 1 - slowest.step.value() / best.time.step.value()});
  // One more machine, or twice the devices of one, laid out anew for the same batch.
  const PlanTarget& target = question.target;
  const std::int64_t more = target.devices < room_in_machine(target)
                                ? target.devices * 2
                                : target.devices + target.devices_per_node;
  const PlanQuestion asked = on_devices(question, more);
  const Space space = space_of(asked, help);
  SearchWish wish;
  wish.best = 1;
  wish.within = 0;
  const SearchResult found = search(asked.run, asked.target, space, wish, help);
  if (found.interrupted) return answers;
  if (const WeighedLayout* fastest = found.best())
    answers.push_back({fmt::format("{} devices", more), fastest->seconds,
                       1 - fastest->seconds / best.time.step.value()});
  else if (space.empty())
    answers.push_back(
        {fmt::format("{} devices share no batch of {}", more, target.global_batch), 0, 0});
  return answers;
}

}  // namespace

namespace {

// What nearly fits by the search's estimate of the allocator may fit once it is simulated, and the other way round. Tight
// ones are shown where they are faster than what is sure, each shape once.
void show(Confirmed found, std::size_t wanted, PlanAnswer& answer) {
  sort_by_time(found.rows);
  sort_by_time(found.tight);
  answer.rows = std::move(found.rows);
  if (answer.rows.size() > wanted) answer.rows.resize(wanted);
  for (PlanRow& row : found.tight) {
    const bool is_faster = answer.rows.empty() || row.time.step < answer.rows.front().time.step;
    if (!is_faster || answer.tight.size() == kMostTight) break;
    if (std::none_of(answer.tight.begin(), answer.tight.end(),
                     [&](const PlanRow& other) { return are_alike(other.layout, row.layout); }))
      answer.tight.push_back(std::move(row));
  }
}

// Of a layout that may be among the rows.
std::optional<PlanRow> row_with(const Layout& layout, const PlanQuestion& question,
                                const SearchHelp& help, const PlanAnswer& answer) {
  for (const PlanRow& row : answer.rows)
    if (row.layout == layout) return row;
  return row_of(question, answer.space, layout, help);
}

// The time was up before any layout was found to fit: the rule of thumb asks for a few, and what it finds is the best so far.
void answer_by_thumb(const PlanQuestion& question, const SearchHelp& help, PlanAnswer& answer) {
  auto thumb = rule_of_thumb(question, answer.space, help);
  if (!thumb || !thumb->fits) return;
  if (must_launch(question, help) && launch_fault(question, thumb->row, help)) return;
  answer.rows.push_back(std::move(thumb->row));
}

// Exchanges of experts over machines are priced as plain all-to-alls.
void note_experts(const PlanQuestion& question, PlanAnswer& answer) {
  const PlanTarget& target = question.target;
  if (!has_experts(*target.model) || target.devices <= target.devices_per_node) return;
  answer.notes.emplace_back(
      "experts over machines are overpriced: neither DeepEP nor node-limited routing is modelled "
      "(DeepSeek-V3: published 0.6 of the predicted step)");
}

void put_steadiest_first(const PlanQuestion& question, std::size_t wanted, const SearchHelp& help,
                         PlanAnswer& answer) {
  if (answer.rows.empty()) return;
  auto steady = steadiest(question, answer.space, answer.result, answer.rows.front(), help);
  if (!steady) return;
  if (!question.stacks.is_said && launch_fault(question, steady->row, help)) return;
  std::erase_if(answer.rows,
                [&](const PlanRow& other) { return other.layout == steady->row.layout; });
  answer.rows.insert(answer.rows.begin(), std::move(steady->row));
  if (answer.rows.size() > wanted) answer.rows.resize(wanted);
  answer.steadiness = steady->why;
}

}  // namespace

namespace {

template <class Predict>
std::optional<PlanRow> row_by(Predict predict, const PlanQuestion& question, const Space& space,
                              const Layout& layout, const SearchHelp& help) {
  PlanRow row;
  row.layout = layout;
  row.recipe = space.recipes[layout.recipe].name;
  row.run = run_of(question.run, layout, space, question.target.model->layers);
  ReadJob job = help.read(row.run);
  if (!job) return std::nullopt;
  try {
    std::optional<Prediction> prediction = predict(*job);
    if (!prediction) return std::nullopt;
    row.prediction = std::move(*prediction);
    const auto time = predict_time(*job);
    row.prediction.time = time;
    if (time) row.time = *time;
  } catch (const OverflowError&) {
    return std::nullopt;
  }
  row.job = std::move(*job);
  return row;
}

}  // namespace

std::optional<PlanRow> row_of(const PlanQuestion& question, const Space& space,
                              const Layout& layout, const SearchHelp& help) {
  return row_by([](const Job& job) { return std::optional(predict_fullest(job)); }, question, space,
                layout, help);
}

std::optional<PlanRow> fitting_row_of(const PlanQuestion& question, const Space& space,
                                      const Layout& layout, const SearchHelp& help) {
  return row_by(predict_if_it_fits, question, space, layout, help);
}

std::vector<std::pair<TimeTerm, double>> term_differences(const StepTime& faster,
                                                          const StepTime& slower) {
  std::vector<std::pair<TimeTerm, double>> differences;
  for (std::size_t i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    const double difference = slower.terms[term] - faster.terms[term];
    if (difference != 0) differences.emplace_back(term, difference);
  }
  std::stable_sort(differences.begin(), differences.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return differences;
}

PlanAnswer plan(const PlanQuestion& question, const PlanWish& wish, const SearchHelp& help) {
  PlanAnswer answer;
  answer.space = space_of(question, help);
  if (answer.space.cut_short)
    answer.notes.push_back(fmt::format(
        "only the first {} layouts were looked at: say an engine, or tensor and pipeline",
        answer.space.size()));
  SearchWish asked = wish.search;
  asked.best += kSpare;
  asked.tight = kMostTight + kSpareTight;
  answer.result = search(question.run, question.target, answer.space, asked, help);
  const SearchResult& result = answer.result;
  // The time is up: the best so far is confirmed, and nothing beside it.
  const std::size_t wanted = result.interrupted ? 1 : wish.search.best;
  std::vector<WeighedLayout> tight;
  if (!result.interrupted) tight = best_unlike(result, answer.space, asked.tight, Fate::kTight);
  if (const WeighedLayout* best = result.best())
    std::erase_if(tight, [&](const WeighedLayout& one) { return one.seconds >= best->seconds; });
  std::vector<std::optional<PlanRow>> tight_rows(tight.size());
  std::vector<Work> beside;
  if (wish.explain && !result.interrupted) {
    beside.push_back([&] { answer.rule_of_thumb = rule_of_thumb(question, answer.space, help); });
    beside.push_back([&] { answer.first_question = first_question(question.run, help); });
  }
  for (std::size_t i = 0; i < tight.size(); ++i)
    beside.push_back([&, i] {
      tight_rows[i] =
          launched_row_of(question, answer.space, layout_of(answer.space, tight[i]), help);
    });
  const std::vector<WeighedLayout> candidates =
      best_unlike(result, answer.space, wish.search.best + kSpare);
  Confirmed found = confirmed(question, answer.space, candidates, wanted, help, std::move(beside));
  if (!result.interrupted) confirm_any(question, answer.space, result, candidates, help, found);
  for (std::optional<PlanRow>& row : tight_rows) found.add(std::move(row));
  show(std::move(found), wish.search.best, answer);
  if (result.interrupted && answer.rows.empty()) answer_by_thumb(question, help, answer);
  if (wish.steady && !result.interrupted)
    put_steadiest_first(question, wish.search.best, help, answer);
  if (wish.search.front && !result.interrupted)
    answer.front = confirmed(question, answer.space, front_of(result), 16, help).rows;
  if (!answer.rows.empty() && !result.interrupted) {
    if (const WeighedLayout* simple = simplest_within(result, answer.space, wish.search.within))
      if (complexity_of(layout_of(answer.space, *simple)) <
          complexity_of(answer.rows.front().layout))
        answer.simplest = row_with(layout_of(answer.space, *simple), question, help, answer);
    if (answer.simplest && answer.simplest->prediction.verdict != Verdict::kFits)
      answer.simplest.reset();
  }
  if (!answer.rows.empty() && question.stacks.is_said)
    answer.launch_fault = launch_fault(question, answer.rows.front(), help).value_or("");
  note_experts(question, answer);
  if (!wish.explain) return answer;
  if (question.stacks.rows.size() > 1 && !result.interrupted) {
    answer.stacks = side_by_side(question, answer.rows, help);
    // Where the fastest of the search cannot be launched, the fastest that can is the answer.
    if (answer.rows.empty())
      for (const StackAnswer& one : answer.stacks)
        if (one.row) answer.rows.push_back(*one.row);
  }
  if (result.interrupted) {
    // Searches that follow have no time left; what needs none is still said.
    if (!answer.rows.empty())
      for (const WhatIf& what : what_would_help(answer.rows.front().job))
        answer.sensitivity.push_back({what.change, what.step.value(), what.gain});
    return answer;
  }
  if (answer.rows.empty() && !answer.allows_nothing())
    answer.ways_out = ways_out(question, help);
  else if (!answer.rows.empty())
    answer.sensitivity = sensitivity_of(question, answer.rows.front(), help);
  return answer;
}

}  // namespace steelyard
