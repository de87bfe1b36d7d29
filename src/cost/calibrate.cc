#include "cost/calibrate.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace steelyard {

namespace {

// One thing about a machine, though it stands in several constants.
struct Knob {
  const char* name;
  double least, most;
  std::function<double(const AchievedRates&)> get;
  std::function<void(AchievedRates&, double)> set;
};

// Its band goes with it, as wide as before in parts of it: how far runs of other people spread is not known better for one's
// own steps.
void multiply(Fraction& fraction, double times, double most = 1) {
  for (double* part : {&fraction.low, &fraction.expected, &fraction.high})
    *part = std::min(most, *part * times);
}

const std::vector<Knob>& knobs() {
  static const std::vector<Knob> kKnobs = {
      {"product", 0.05, 0.95, [](const AchievedRates& r) { return r.product.expected; },
       [](AchievedRates& r, double v) { multiply(r.product, v / r.product.expected); }},
      {"attention", 0.02, 0.9, [](const AchievedRates& r) { return r.attention_forward.expected; },
       [](AchievedRates& r, double v) {
         const double times = v / r.attention_forward.expected;
         for (Fraction* rate : {&r.attention_forward, &r.attention_backward,
                                &r.first_attention_forward, &r.first_attention_backward,
                                &r.cudnn_attention_forward, &r.cudnn_attention_backward})
           multiply(*rate, times, 0.9);
       }},
      {"memory", 0.1, 0.95, [](const AchievedRates& r) { return r.memory.expected; },
       [](AchievedRates& r, double v) { multiply(r.memory, v / r.memory.expected); }},
      {"links", 0.02, 1, [](const AchievedRates& r) { return r.ring.expected; },
       [](AchievedRates& r, double v) {
         const double times = v / r.ring.expected;
         multiply(r.ring, times);
         multiply(r.network, times);
       }},
      {"host", 1e-6, 1e-3, [](const AchievedRates& r) { return r.host_launch.value(); },
       [](AchievedRates& r, double v) { r.host_launch = Seconds(v); }}};
  return kKnobs;
}

class Fitter {
 public:
  explicit Fitter(const std::vector<MeasuredStep>& steps) : steps_(steps) {
    for (const MeasuredStep& step : steps)
      clocks_.push_back(std::make_unique<StepClock>(*step.job));
  }

  // Of one step under these rates, percent.
  double error(const AchievedRates& rates, std::size_t step) const {
    const RatesInForce scope(rates);
    const Cluster& cluster = steps_[step].job->cluster;
    const double seconds =
        clocks_[step]->read(*cluster.device, *cluster.machine, Outlook::kExpected).step.value();
    return 100 * std::abs(seconds / steps_[step].seconds - 1);
  }
  // Mean over all but one.
  double error_without(const AchievedRates& rates, std::size_t left_out) const {
    double sum = 0;
    std::size_t count = 0;
    for (std::size_t step = 0; step < steps_.size(); ++step)
      if (step != left_out) sum += error(rates, step), ++count;
    return count == 0 ? 0 : sum / static_cast<double>(count);
  }
  // Only `chosen` knobs move.
  AchievedRates fit(AchievedRates rates, const std::vector<const Knob*>& chosen,
                    std::size_t left_out) const {
    double best = error_without(rates, left_out);
    for (double stride = 0.2; stride > 0.004; stride /= 2)
      for (bool better = true; better;) {
        better = false;
        for (const Knob* knob : chosen)
          for (const double times : {1 + stride, 1 / (1 + stride)}) {
            AchievedRates trial = rates;
            knob->set(trial, std::clamp(knob->get(rates) * times, knob->least, knob->most));
            const double reached = error_without(trial, left_out);
            if (reached >= best - 1e-9) continue;
            best = reached;
            rates = trial;
            better = true;
          }
      }
    return rates;
  }
  double held_out(const AchievedRates& shipped, const std::vector<const Knob*>& chosen) const {
    double sum = 0;
    for (std::size_t step = 0; step < steps_.size(); ++step)
      sum += error(steps_.size() == 1 ? shipped : fit(shipped, chosen, step), step);
    return sum / static_cast<double>(steps_.size());
  }

 private:
  const std::vector<MeasuredStep>& steps_;
  std::vector<std::unique_ptr<StepClock>> clocks_;
};

}  // namespace

tl::expected<Calibration, std::string> calibrate(const std::vector<MeasuredStep>& steps) {
  if (steps.size() < 2) return tl::unexpected(std::string("needs two measured steps or more"));
  const std::string& architecture = steps.front().job->cluster.device->architecture;
  for (const MeasuredStep& step : steps) {
    if (step.job->cluster.device->architecture != architecture)
      return tl::unexpected(std::string("steps of several architectures: one file for each"));
    if (step.job->cluster.machine == nullptr)
      return tl::unexpected("no times are known of " + step.job->cluster.device->name);
  }
  const Fitter fitter(steps);
  const std::size_t all = steps.size();
  Calibration result;
  result.rates = achieved_rates(*steps.front().job->cluster.device);
  result.rates.architecture = architecture;
  const AchievedRates shipped = result.rates;
  result.error_before = fitter.error_without(shipped, all);
  std::vector<const Knob*> chosen;
  double best = fitter.held_out(shipped, chosen);
  for (bool better = true; better;) {
    better = false;
    const Knob* next = nullptr;
    for (const Knob& knob : knobs()) {
      if (std::find(chosen.begin(), chosen.end(), &knob) != chosen.end()) continue;
      std::vector<const Knob*> trial = chosen;
      trial.push_back(&knob);
      const double reached = fitter.held_out(shipped, trial);
      if (reached >= best - 0.05) continue;
      best = reached;
      next = &knob;
    }
    if (next == nullptr) break;
    chosen.push_back(next);
    better = true;
  }
  result.rates = fitter.fit(shipped, chosen, all);
  for (const Knob* knob : chosen)
    result.moved.push_back({knob->name, knob->get(shipped), knob->get(result.rates)});
  result.error_after = fitter.error_without(result.rates, all);
  result.error_held_out = best;
  return result;
}

}  // namespace steelyard
