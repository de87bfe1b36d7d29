#include "cost/budget.h"

#include "data/catalogue.h"

namespace steelyard {

namespace {

constexpr double kSecondsAnHour = 3600;

DevicePrice read_price(const Fact& fact) {
  return {fact["name"].text(), fact["dollars_an_hour"].number(), fact["day"].text(),
          fact["source"].text()};
}

Catalogue<DevicePrice>& prices() {
  static Catalogue<DevicePrice> entries("prices", read_price);
  return entries;
}

}  // namespace

const DevicePrice* price_of(const Device& device) {
  for (const DevicePrice& price : prices().all())
    if (price.device == device.name) return &price;
  return nullptr;
}

Budget budget_of(const Job& job, const StepTime& time, double tokens,
                 std::optional<double> dollars_an_hour) {
  const double tokens_a_step = static_cast<double>(job.training.global_batch) *
                               static_cast<double>(job.training.sequence_length.value());
  const auto devices = static_cast<double>(job.cluster.devices.value());
  Budget budget;
  budget.tokens = tokens;
  budget.steps = tokens / tokens_a_step;
  budget.seconds = budget.steps * time.step.value();
  budget.device_hours = budget.seconds * devices / kSecondsAnHour;
  if (dollars_an_hour) {
    budget.dollars_an_hour = dollars_an_hour;
    budget.price_source = "given";
  } else if (const DevicePrice* price = price_of(*job.cluster.device)) {
    budget.dollars_an_hour = price->dollars_an_hour;
    budget.price_source = price->source + ", " + price->day;
  }
  if (budget.dollars_an_hour) budget.dollars = budget.device_hours * *budget.dollars_an_hour;
  if (job.cluster.device->watts > 0)
    budget.kilowatt_hours = budget.device_hours * job.cluster.device->watts / 1000;
  return budget;
}

}  // namespace steelyard
