#include "plan/largest_model.h"

#include "model/guess.h"
#include "plan/furthest.h"
#include "plan/shared_states.h"

namespace steelyard {
namespace {

constexpr std::int64_t kSmallest = kSmallestGuess / 1'000'000;  // millions of parameters

void put(Value& run, std::string_view key, Value value) {
  Place place;
  place.source = "sweep --largest";
  value.set_mark(mark_of(place));
  set_path(run, key, std::move(value), place);
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

Weighed weigh_size(Value& asked, std::int64_t millions, const Weigh& weigh) {
  put(asked, "model", Value::string(size_words(millions)));
  return weigh(asked);
}

void take_largest_that_fits(Value asked, const Weigh& weigh, const Weigh& estimate,
                            LargestModel& point) {
  std::int64_t parameters = 0;
  const Furthest found = furthest(
      rungs_of_parameters(), kFirstSize, [&](std::int64_t millions) -> std::optional<bool> {
        // What certainly does not fit needs no simulation to be passed over.
        const Weighed quick = weigh_size(asked, millions, estimate);
        if (!quick.prediction || quick.prediction->verdict == Verdict::kDoesNotFit) return false;
        const Weighed weighed = weigh_size(asked, millions, weigh);
        const bool fits = weighed.prediction && is_sure_to_fit(*weighed.prediction);
        if (fits) parameters = weighed.prediction->parameters.total;
        return fits;
      });
  point.predicted = found.last ? parameters : 0;
  point.size = found.last ? size_words(*found.last) : std::string();
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
                                  const Weigh& weigh, const Weigh& estimate) {
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
      take_largest_that_fits(asked, weigh, estimate, point);
      curve.points.push_back(point);
    }
    answer.curves.push_back(std::move(curve));
  }
  return answer;
}

}  // namespace steelyard
