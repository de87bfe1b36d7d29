#include "plan/extremes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace steelyard {
namespace {

constexpr std::int64_t kMostDevices = 65'536;
constexpr std::int64_t kMostSequence = std::int64_t{1} << 26;
constexpr std::int64_t kMostMillions = 100'000'000;
constexpr std::size_t kConfirmed = 6;

class Asker {
 public:
  Asker(const SearchHelp& help, ExtremeAnswer& answer) : help_(help), answer_(answer) {}

  // Whether anything fits, or the fastest of what does.
  ExtremePoint ask(const Value& document, std::int64_t value, bool fastest) {
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
    const Space space = space_of(*question);
    SearchWish wish;
    wish.best = kConfirmed;
    wish.within = 0;
    wish.first_that_fits = !fastest;
    const SearchResult found = search(question->run, question->target, space, wish, help_);
    answer_.layouts += found.counts.layouts;
    point.fits = found.best() != nullptr;
    if (!fastest || !point.fits) return point;
    for (const WeighedLayout& weighed : best_unlike(found, space, kConfirmed)) {
      auto row = row_of(*question, space, layout_of(space, weighed), help_);
      if (!row || row->prediction.verdict != Verdict::kFits) continue;
      if (point.row && point.row->time.step <= row->time.step) continue;
      point.row = std::move(row);
      break;
    }
    point.fits = point.row.has_value();
    if (point.row)
      point.device_hours = point.row->time.step.value() / 3600 * static_cast<double>(point.devices);
    return point;
  }
  const Diagnostics& problems() const { return problems_; }

 private:
  const SearchHelp& help_;
  ExtremeAnswer& answer_;
  Diagnostics problems_;
};

using Asked = std::function<Value(std::int64_t value)>;

void note(ExtremeAnswer& answer, ExtremePoint point) { answer.tried.push_back(std::move(point)); }

// The largest multiple of `unit` that fits, from `least` on; 0: not even that.
std::int64_t largest(Asker& asker, ExtremeAnswer& answer, const Asked& asked, std::int64_t least,
                     std::int64_t most, const std::function<std::int64_t(std::int64_t)>& unit_at) {
  const auto fits = [&](std::int64_t value) {
    ExtremePoint point = asker.ask(asked(value), value, false);
    const bool yes = point.fits;
    note(answer, std::move(point));
    return yes;
  };
  if (!fits(least)) return 0;
  std::int64_t low = least, high = least;
  while (high < most) {
    high = std::min(most, high * 2);
    if (!fits(high)) break;
    low = high;
    if (low == most) return low;
  }
  while (high - low > unit_at(low)) {
    const std::int64_t unit = unit_at(low);
    const std::int64_t middle = low + std::max(unit, (high - low) / 2 / unit * unit);
    if (middle >= high) break;
    (fits(middle) ? low : high) = middle;
  }
  return low;
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
    ExtremePoint point = asker.ask(on(some), some, false);
    const bool fits = point.fits;
    note(answer, std::move(point));
    if (fits) break;
    none = some;
  }
  if (some > kMostDevices) return;
  // Between two powers the batch may not divide, so every count has its say; whole machines where there are many.
  std::int64_t fewest = some;
  const std::int64_t step = some > 16 ? 8 : 1;
  for (std::int64_t devices = none + step; devices < some; devices += step) {
    ExtremePoint point = asker.ask(on(devices), devices, false);
    const bool fits = point.fits;
    note(answer, std::move(point));
    if (!fits) continue;
    fewest = devices;
    break;
  }
  ExtremePoint best = asker.ask(on(fewest), fewest, true);
  if (best.fits) answer.answers.push_back(std::move(best));
}

void least_cost(Asker& asker, ExtremeAnswer& answer, const Value& document, std::int64_t most) {
  const ExtremePoint* cheapest = nullptr;
  for (std::int64_t devices = 1; devices <= most; devices *= 2)
    note(answer,
         asker.ask(with_key(document, KeyId::kDevices, Value::integer(devices)), devices, true));
  if (answer.tried.empty() || answer.tried.back().value != most)
    note(answer, asker.ask(with_key(document, KeyId::kDevices, Value::integer(most)), most, true));
  for (const ExtremePoint& point : answer.tried)
    if (point.fits && (cheapest == nullptr || point.device_hours < cheapest->device_hours))
      cheapest = &point;
  if (cheapest != nullptr) answer.answers.push_back(*cheapest);
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
  const auto finish = [&](const Asked& asked, std::int64_t value) {
    while (value > 0) {
      ExtremePoint best = asker.ask(asked(value), value, true);
      if (best.fits) {
        answer.answers.push_back(std::move(best));
        return;
      }
      // With the allocator simulated it does not: the next that seemed to.
      std::int64_t next = 0;
      for (ExtremePoint& point : answer.tried) {
        if (point.value == value) point.fits = false;
        if (point.fits && point.value < value) next = std::max(next, point.value);
      }
      value = next;
    }
  };
  const auto power = [](std::int64_t low) { return low; };  // doublings only
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
      finish(asked,
             largest(asker, answer, asked, std::min<std::int64_t>(1024, most), most,
                     [](std::int64_t low) { return std::max<std::int64_t>(1024, low / 16); }));
      break;
    }
    case Wanted::kLargestMicroBatch: {
      const Asked asked = [&](std::int64_t batch) {
        Value run = with_key(kept, KeyId::kMicroBatch, Value::integer(batch));
        remove_path(run, key_of(KeyId::kGradientAccumulation).path);
        // A batch that this micro-batch divides, however many data ranks there are.
        const std::int64_t global = (target.global_batch + batch - 1) / batch * batch;
        return with_key(run, KeyId::kGlobalBatch, Value::integer(global));
      };
      finish(asked, largest(asker, answer, asked, 1, target.global_batch, power));
      break;
    }
    case Wanted::kLargestBatch: {
      const Asked asked = [&](std::int64_t batch) {
        return with_key(with_key(kept, KeyId::kGradientAccumulation, Value::integer(1)),
                        KeyId::kGlobalBatch, Value::integer(batch));
      };
      finish(asked, largest(asker, answer, asked, target.devices, std::int64_t{1} << 24, power));
      break;
    }
    case Wanted::kMostParameters: {
      const Asked asked = [&](std::int64_t millions) {
        return with_key(kept, KeyId::kModel,
                        Value::string(fmt::format("{}.{:03}B", millions / 1000, millions % 1000)));
      };
      finish(asked, largest(asker, answer, asked, 125, kMostMillions,
                            [](std::int64_t low) { return std::max<std::int64_t>(1, low / 50); }));
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
  answer.space = space_of(answer.question);
  SearchWish wish;
  wish.best = kConfirmed;
  answer.result = search(answer.question.run, answer.question.target, answer.space, wish, help);
  for (const WeighedLayout& weighed : best_unlike(answer.result, answer.space, kConfirmed)) {
    auto row = row_of(answer.question, answer.space, layout_of(answer.space, weighed), help);
    if (!row || row->prediction.verdict != Verdict::kFits) continue;
    answer.fastest = std::move(row);
    break;
  }
  if (answer.fastest) return answer;
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
