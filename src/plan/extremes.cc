#include "plan/extremes.h"

#include <algorithm>
#include <functional>

#include "plan/furthest.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMostDevices = 65'536;
constexpr std::int64_t kMostSequence = std::int64_t{1} << 26;
constexpr std::int64_t kMostBatch = std::int64_t{1} << 24;
// Lengths that tensor and context ranks can share, and the first that is asked.
constexpr std::int64_t kSequenceStep = 128, kFirstSequence = 1024;
constexpr std::size_t kConfirmed = 6;

using Asked = std::function<Value(std::int64_t value)>;

class Asker {
 public:
  Asker(const SearchHelp& help, ExtremeAnswer& answer) : help_(help), answer_(answer) {}

  // Whether any layout is sure to fit; nothing when the time was up before that was known.
  std::optional<bool> fits(const Value& document, std::int64_t value) {
    ExtremePoint point = asked(document, value, false);
    const bool known = point.fits || !point.unfinished;
    if (!known) {
      answer_.unfinished = true;
      return std::nullopt;
    }
    const bool fits = point.fits;
    answer_.tried.push_back(std::move(point));
    return fits;
  }

  // The fastest of what fits there; where time or luck runs out, the layout that was found to fit.
  std::optional<ExtremePoint> fastest(const Value& document, std::int64_t value) {
    ExtremePoint point = asked(document, value, true);
    answer_.unfinished = answer_.unfinished || point.unfinished;
    if (!point.row) take_known(document, point);
    point.fits = point.row.has_value();
    if (!point.fits) return std::nullopt;
    point.device_hours = point.row->time.step.value() / 3600 * static_cast<double>(point.devices);
    return point;
  }
  const Diagnostics& problems() const { return problems_; }

 private:
  ExtremePoint asked(const Value& document, std::int64_t value, bool fastest) {
    ExtremePoint point;
    point.value = value;
    const auto question = question_of(document, help_);
    if (!question) {
      problems_ = question.error();
      return point;
    }
    if (answer_.assumptions.empty()) answer_.assumptions = question->assumptions;
    point.devices = question->target.devices;
    point.device = question->target.device->name;
    const Space space = space_of(*question, help_);
    SearchWish wish;
    wish.best = kConfirmed;
    wish.within = 0;
    wish.first_that_fits = !fastest;
    const SearchResult found = search(question->run, question->target, space, wish, help_);
    answer_.layouts += found.counts.asked();
    point.unfinished = found.interrupted;
    if (!fastest) {
      point.fits = found.best() != nullptr;
      if (point.fits) point.known = layout_of(space, *found.best());
      return point;
    }
    for (const WeighedLayout& weighed : best_unlike(found, space, kConfirmed)) {
      auto row = fitting_row_of(*question, space, layout_of(space, weighed), help_);
      if (!row) continue;
      point.row = std::move(row);
      break;
    }
    return point;
  }

  void take_known(const Value& document, ExtremePoint& point) {
    for (const ExtremePoint& tried : answer_.tried) {
      if (tried.value != point.value || !tried.known) continue;
      const auto question = question_of(document, help_);
      if (!question) return;
      Space recipes;
      recipes.recipes = question->recipes;
      recipes.stacks = question->target.stacks;  // in whose recipe it was found to fit
      point.row = fitting_row_of(*question, recipes, *tried.known, help_);
      return;
    }
  }

  const SearchHelp& help_;
  ExtremeAnswer& answer_;
  Diagnostics problems_;
};

// The largest of the rungs with a layout that is sure to fit, and the fastest there.
void largest(Asker& asker, ExtremeAnswer& answer, const Asked& asked,
             const std::vector<std::int64_t>& rungs, std::int64_t start) {
  const Furthest found =
      furthest(rungs, start, [&](std::int64_t value) { return asker.fits(asked(value), value); });
  answer.next = found.next;
  if (!found.last) return;
  if (auto best = asker.fastest(asked(*found.last), *found.last))
    answer.answers.push_back(std::move(*best));
}

void by_value(ExtremeAnswer& answer) {
  std::stable_sort(answer.tried.begin(), answer.tried.end(),
                   [](const ExtremePoint& a, const ExtremePoint& b) { return a.value < b.value; });
}

// The batch belongs to the task: it does not change with the devices.
Value with_batch(const Value& document, const PlanQuestion& question) {
  if (document.at(key_of(KeyId::kGlobalBatch).path) != nullptr) return document;
  return with_key(document, KeyId::kGlobalBatch, Value::integer(question.target.global_batch));
}

void fewest_devices(Asker& asker, ExtremeAnswer& answer, const Value& document) {
  const auto on = [&](std::int64_t devices) {
    return with_key(document, KeyId::kDevices, Value::integer(devices));
  };
  std::int64_t none = 0, some = 1;
  for (; some <= kMostDevices; some *= 2) {
    const auto fits = asker.fits(on(some), some);
    if (!fits) return;
    if (*fits) break;
    none = some;
  }
  if (some > kMostDevices) return;
  // Between two powers the batch may not divide, so every count has its say; whole machines where there are many.
  std::int64_t fewest = some;
  const std::int64_t step = some > 16 ? 8 : 1;
  for (std::int64_t devices = none + step; devices < some; devices += step) {
    const auto fits = asker.fits(on(devices), devices);
    if (!fits) break;
    if (!*fits) continue;
    fewest = devices;
    break;
  }
  if (auto best = asker.fastest(on(fewest), fewest)) answer.answers.push_back(std::move(*best));
}

void least_cost(Asker& asker, ExtremeAnswer& answer, const Value& document, std::int64_t most) {
  std::vector<std::int64_t> counts;
  for (std::int64_t devices = 1; devices <= most; devices *= 2) counts.push_back(devices);
  if (counts.empty() || counts.back() != most) counts.push_back(most);
  const ExtremePoint* cheapest = nullptr;
  for (const std::int64_t devices : counts) {
    auto point =
        asker.fastest(with_key(document, KeyId::kDevices, Value::integer(devices)), devices);
    if (point) answer.tried.push_back(std::move(*point));
  }
  for (const ExtremePoint& point : answer.tried)
    if (cheapest == nullptr || point.device_hours < cheapest->device_hours) cheapest = &point;
  if (cheapest != nullptr) answer.answers.push_back(*cheapest);
}

// Micro-batches that a stated batch can be made of; where nobody states one it follows them.
std::vector<std::int64_t> micro_batches(const Value& document, std::int64_t batch) {
  if (document.at(key_of(KeyId::kGlobalBatch).path) == nullptr) return rungs_of(1, 1, kMostBatch);
  std::vector<std::int64_t> parts;
  for (std::int64_t part = 1; part <= batch; ++part)
    if (batch % part == 0) parts.push_back(part);
  return parts;
}

}  // namespace

tl::expected<ExtremeAnswer, Diagnostics> extreme_of(Wanted wanted, const Value& document,
                                                    const std::vector<std::string>& devices,
                                                    const SearchHelp& help) {
  ExtremeAnswer answer;
  answer.wanted = wanted;
  Asker asker(help, answer);
  if (!devices.empty()) {
    for (const std::string& device : devices) {
      Value on = with_key(document, KeyId::kDevice, Value::string(device));
      auto one = extreme_of(wanted, on, {}, help);
      if (!one) return one;
      answer.layouts += one->layouts;
      answer.unfinished = answer.unfinished || one->unfinished;
      answer.assumptions = one->assumptions;
      for (ExtremePoint& point : one->answers) answer.answers.push_back(std::move(point));
    }
    return answer;
  }
  const auto first = question_of(document, help);
  if (!first) return tl::unexpected(first.error());
  answer.assumptions = first->assumptions;
  const Value kept = with_batch(document, *first);
  const PlanTarget& target = first->target;
  switch (wanted) {
    case Wanted::kFewestDevices:
      fewest_devices(asker, answer, kept);
      break;
    case Wanted::kLeastCost:
      least_cost(asker, answer, kept, target.devices);
      break;
    case Wanted::kLongestSequence: {
      const Asked asked = [&](std::int64_t length) {
        return with_key(kept, KeyId::kSequenceLength, Value::integer(length));
      };
      const std::int64_t most =
          target.model->learned_positions ? target.model->maximum_positions : kMostSequence;
      largest(asker, answer, asked, rungs_of(kSequenceStep, kSequenceStep, most), kFirstSequence);
      break;
    }
    case Wanted::kLargestMicroBatch: {
      const Asked asked = [&](std::int64_t batch) {
        Value run = with_key(kept, KeyId::kMicroBatch, Value::integer(batch));
        remove_path(run, key_of(KeyId::kGradientAccumulation).path);
        if (document.at(key_of(KeyId::kGlobalBatch).path) != nullptr) return run;
        // A batch of which every data rank can have whole micro-batches, however many ranks there are.
        const std::int64_t whole = batch * target.devices;
        return with_key(run, KeyId::kGlobalBatch,
                        Value::integer((target.global_batch + whole - 1) / whole * whole));
      };
      largest(asker, answer, asked, micro_batches(document, target.global_batch), 1);
      break;
    }
    case Wanted::kLargestBatch: {
      const Asked asked = [&](std::int64_t batch) {
        return with_key(with_key(kept, KeyId::kGradientAccumulation, Value::integer(1)),
                        KeyId::kGlobalBatch, Value::integer(batch));
      };
      // Fewer sequences than devices, where some share them; then as many for each.
      std::vector<std::int64_t> rungs;
      for (std::int64_t part = 1; part < target.devices; ++part)
        if (target.devices % part == 0) rungs.push_back(part);
      for (const std::int64_t batch : rungs_of(target.devices, target.devices, kMostBatch))
        if (batch % target.devices == 0) rungs.push_back(batch);
      largest(asker, answer, asked, rungs, target.devices);
      break;
    }
    case Wanted::kMostParameters: {
      const Asked asked = [&](std::int64_t millions) {
        return with_key(kept, KeyId::kModel, Value::string(size_words(millions)));
      };
      largest(asker, answer, asked, rungs_of_parameters(), kFirstSize);
      break;
    }
  }
  by_value(answer);
  if (answer.answers.empty() && !asker.problems().empty() && answer.layouts == 0)
    return tl::unexpected(asker.problems());
  return answer;
}

tl::expected<WhyAnswer, Diagnostics> why(const Value& document, std::string asked,
                                         const PlanAnswer& whole, const SearchHelp& help) {
  auto question = question_of(document, help);
  if (!question) return tl::unexpected(question.error());
  WhyAnswer answer;
  answer.asked = std::move(asked);
  answer.question = std::move(*question);
  answer.space = space_of(answer.question, help);
  SearchWish wish;
  wish.best = kConfirmed;
  answer.result = search(answer.question.run, answer.question.target, answer.space, wish, help);
  for (const WeighedLayout& weighed : best_unlike(answer.result, answer.space, kConfirmed)) {
    auto row =
        fitting_row_of(answer.question, answer.space, layout_of(answer.space, weighed), help);
    if (!row) continue;
    answer.fastest = std::move(row);
    break;
  }
  if (answer.fastest) return answer;
  // What nearly fits misses by less than anything that does not.
  for (const WeighedLayout& weighed : best_unlike(answer.result, answer.space, 1, Fate::kTight)) {
    answer.nearest = row_of(answer.question, answer.space, layout_of(answer.space, weighed), help);
    if (answer.nearest) return answer;
  }
  const TooLarge* least = nullptr;
  for (const TooLarge& group : answer.result.too_large)
    if (least == nullptr || group.least_excess < least->least_excess) least = &group;
  if (least == nullptr) return answer;
  const Layout& layout = answer.space.layout(least->nearest);
  answer.nearest = row_of(answer.question, answer.space, layout, help);
  if (const WeighedLayout* fit = nearest_fit(whole.result, whole.space, layout))
    answer.nearest_that_fits = layout_of(whole.space, *fit);
  return answer;
}

}  // namespace steelyard
