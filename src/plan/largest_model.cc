#include "plan/largest_model.h"

#include <fmt/format.h>

#include "model/guess.h"
#include "plan/shared_states.h"

namespace steelyard {
namespace {

constexpr std::int64_t kSmallest = kSmallestGuess / 1'000'000;  // millions of parameters
constexpr std::int64_t kLargest = 100'000'000;                  // 100 T

void put(Value& run, std::string_view key, Value value) {
  Place place;
  place.source = "sweep --largest";
  value.set_mark(mark_of(place));
  set_path(run, key, std::move(value), place);
}

// "7.125B": a size that the model reader takes as a question.
std::string size_words(std::int64_t millions) {
  return fmt::format("{}.{:03}B", millions / 1000, millions % 1000);
}

Value question(const Value& run, const Strategy& strategy, std::int64_t devices) {
  Value asked = run;
  put(asked, "engine", Value::string(strategy.engine));
  put(asked, "parallel.zero_stage", Value::integer(strategy.zero_stage));
  put(asked, "cluster.devices", Value::integer(devices));
  // What follows from the number of devices is derived anew, one micro-batch a step.
  for (const char* derived : {"parallel.data", "parallel.replicate", "training.global_batch"})
    remove_path(asked, derived);
  put(asked, "training.gradient_accumulation", Value::integer(1));
  return asked;
}

bool fits(const Weighed& weighed) {
  return weighed.prediction && weighed.prediction->verdict != Verdict::kDoesNotFit;
}

Weighed weigh_size(Value& asked, std::int64_t millions, const Weigh& weigh) {
  put(asked, "model", Value::string(size_words(millions)));
  return weigh(asked);
}

// Within half a percent; the guessed shapes are no smoother than that.
std::int64_t largest_that_fits(Value asked, const Weigh& weigh) {
  std::int64_t low = kSmallest;
  std::int64_t best = 0;
  Weighed at_low = weigh_size(asked, low, weigh);
  if (!fits(at_low)) return 0;
  best = at_low.prediction->parameters.total;
  std::int64_t high = low * 2;
  while (high < kLargest) {
    const Weighed weighed = weigh_size(asked, high, weigh);
    if (!fits(weighed)) break;
    best = weighed.prediction->parameters.total;
    low = high;
    high *= 2;
  }
  while (high - low > 1 && static_cast<double>(high) > 1.005 * static_cast<double>(low)) {
    const std::int64_t middle = low + (high - low) / 2;
    const Weighed weighed = weigh_size(asked, middle, weigh);
    if (fits(weighed)) {
      low = middle;
      best = weighed.prediction->parameters.total;
    } else {
      high = middle;
    }
  }
  return best;
}

}  // namespace

const std::vector<Strategy>& strategies() {
  static const std::vector<Strategy> kStrategies = {{"ddp", "ddp", 0},
                                                    {"zero 1", "deepspeed", 1},
                                                    {"zero 2", "deepspeed", 2},
                                                    {"zero 3", "deepspeed", 3}};
  return kStrategies;
}

LargestModelAnswer largest_models(const Value& run, const std::vector<std::int64_t>& devices,
                                  const Weigh& weigh) {
  LargestModelAnswer answer;
  for (const Strategy& strategy : strategies()) {
    LargestModelCurve curve{strategy, {}};
    for (const std::int64_t count : devices) {
      Value asked = question(run, strategy, count);
      const Weighed small = weigh_size(asked, kSmallest, weigh);
      if (!small.job || !small.prediction) {
        answer.problems = small.problems;
        return answer;
      }
      LargestModel point;
      point.devices = count;
      const BytesPerParameter states =
          bytes_per_parameter(small.job->training.optimizer, small.job->training.precision);
      const std::int64_t ranks = small.job->parallel.data;
      point.states_alone =
          static_cast<std::int64_t>(static_cast<double>(small.prediction->usable.value().value()) /
                                    bytes_per_rank(states, strategy.zero_stage, ranks));
      point.predicted = largest_that_fits(asked, weigh);
      curve.points.push_back(point);
    }
    answer.curves.push_back(std::move(curve));
  }
  return answer;
}

}  // namespace steelyard
