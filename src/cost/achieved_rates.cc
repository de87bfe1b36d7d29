#include "cost/achieved_rates.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/catalogue.h"

namespace steelyard {
namespace {

Fraction read_fraction(const Fact& fact) {
  return {fact["low"].number(), fact["expected"].number(), fact["high"].number()};
}

Seconds read_microseconds(const Fact& fact) {
  return Seconds(fact["microseconds"].number() * 1e-6);
}

struct NamedFraction {
  const char* name;
  Fraction AchievedRates::*value;
  const char* otherwise = nullptr;  // what stands for it where it was not measured apart
};
constexpr NamedFraction kFractions[] = {
    {"product", &AchievedRates::product},
    {"weight_product", &AchievedRates::weight_product},
    {"eight_bit_product", &AchievedRates::eight_bit_product},
    {"attention_forward", &AchievedRates::attention_forward},
    {"attention_backward", &AchievedRates::attention_backward},
    {"first_attention_forward", &AchievedRates::first_attention_forward, "attention_forward"},
    {"first_attention_backward", &AchievedRates::first_attention_backward, "attention_backward"},
    {"cudnn_attention_forward", &AchievedRates::cudnn_attention_forward, "attention_forward"},
    {"cudnn_attention_backward", &AchievedRates::cudnn_attention_backward, "attention_backward"},
    {"memory", &AchievedRates::memory},
    {"ring", &AchievedRates::ring},
    {"network", &AchievedRates::network},
    {"host_link", &AchievedRates::host_link},
    {"host_memory", &AchievedRates::host_memory},
    {"overlap_slowdown", &AchievedRates::overlap_slowdown}};
struct NamedSeconds {
  const char* name;
  Seconds AchievedRates::*value;
};
constexpr NamedSeconds kSeconds[] = {{"kernel_start", &AchievedRates::kernel_start},
                                     {"host_launch", &AchievedRates::host_launch},
                                     {"exchange_start", &AchievedRates::exchange_start},
                                     {"exchange_inside", &AchievedRates::exchange_inside},
                                     {"exchange_across", &AchievedRates::exchange_across}};

struct NamedAmount {
  const char *name, *unit;
  double AchievedRates::*value;
  bool always = true;  // otherwise 0 where it was not measured apart
};
constexpr NamedAmount kAmounts[] = {
    {"attention_forward_waves", "waves", &AchievedRates::attention_forward_waves},
    {"attention_backward_waves", "waves", &AchievedRates::attention_backward_waves},
    {"attention_forward_start", "keys", &AchievedRates::attention_forward_start, false},
    {"attention_backward_start", "keys", &AchievedRates::attention_backward_start, false}};

constexpr const char* kPower = "product_power";
constexpr const char *kHost = "host_launch", *kFast = "fast", *kSlow = "slow";

struct Entry {
  AchievedRates rates;
  std::vector<std::string> also;  // architectures that have no measurements of their own
};

Entry read_entry(const Fact& fact) {
  Entry entry;
  entry.also = fact.texts_or_none("also");
  AchievedRates& rates = entry.rates;
  rates.architecture = fact["name"].text();
  for (const auto& [name, value, otherwise] : kFractions)
    rates.*value = read_fraction(fact[otherwise == nullptr || fact.has(name) ? name : otherwise]);
  for (const auto& [name, value] : kSeconds) rates.*value = read_microseconds(fact[name]);
  const Fact host = fact[kHost];
  rates.host_launch_fast = host.number_or(kFast, 1);
  rates.host_launch_slow = host.number_or(kSlow, 1);
  for (const auto& [name, unit, value, always] : kAmounts)
    if (always || fact.has(name)) rates.*value = fact[name][unit].number();
  if (fact.has(kPower)) {
    rates.watts_of_product = fact[kPower]["watts_per_teraflop"].number();
    rates.limited_by_power = fact[kPower].texts_or_none("architectures");
  }
  return entry;
}

Catalogue<Entry>& catalogue() {
  static Catalogue<Entry> entries("efficiency", read_entry);
  return entries;
}

thread_local const AchievedRates* in_force = nullptr;

}  // namespace

const AchievedRates& achieved_rates(const Device& device) {
  if (in_force != nullptr && in_force->architecture == device.architecture) return *in_force;
  if (const Entry* entry = catalogue().find(device.architecture)) return entry->rates;
  for (const Entry& entry : catalogue().all())
    for (const std::string& also : entry.also)
      if (also == device.architecture) return entry.rates;
  throw DataError("no achieved rates for " + device.architecture);
}

Fraction product_of(const AchievedRates& rates, const Device& device) {
  const auto& limited = rates.limited_by_power;
  if (!device.rates.bf16 || device.watts <= 0 ||
      std::find(limited.begin(), limited.end(), device.architecture) == limited.end())
    return rates.product;
  const double watts = device.watts / (device.rates.bf16->value() * 1e-12);
  const double clock = watts / rates.watts_of_product;
  const auto under = [&](double part) {
    return std::min(part * clock, std::max(part, rates.product.high));
  };
  return {under(rates.product.low), under(rates.product.expected), rates.product.high};
}

RatesInForce::RatesInForce(AchievedRates rates) : rates_(std::move(rates)) { in_force = &rates_; }
RatesInForce::~RatesInForce() { in_force = nullptr; }

const AchievedRates* rates_in_force() { return in_force; }

SameRates::SameRates(const AchievedRates* rates) : before_(in_force) { in_force = rates; }
SameRates::~SameRates() { in_force = before_; }

tl::expected<AchievedRates, std::string> read_rates(std::string_view text, std::string_view name) {
  try {
    const FactFile file(name, text);
    const AchievedRates rates = read_entry(file.root()).rates;
    for (const NamedFraction& named : kFractions) {
      const Fraction& fraction = rates.*named.value;
      for (const double part : {fraction.low, fraction.expected, fraction.high})
        if (!(part >= 0 && part <= 1))
          return tl::unexpected(std::string(named.name) + " is not between 0 and 1");
    }
    return rates;
  } catch (const DataError& fault) {
    return tl::unexpected(std::string(fault.what()));
  }
}

std::string rates_text(const AchievedRates& rates,
                       const std::function<std::string(std::string_view)>& source_of) {
  nlohmann::ordered_json json = {{"name", rates.architecture}, {"list_order", 1}};
  for (const NamedFraction& named : kFractions) {
    const Fraction& fraction = rates.*named.value;
    json[named.name] = {{"low", fraction.low},
                        {"expected", fraction.expected},
                        {"high", fraction.high},
                        {"source", source_of(named.name)}};
  }
  for (const auto& [name, value] : kSeconds)
    json[name] = {{"microseconds", (rates.*value).value() * 1e6}, {"source", source_of(name)}};
  json[kHost][kFast] = rates.host_launch_fast;
  json[kHost][kSlow] = rates.host_launch_slow;
  for (const auto& [name, unit, value, always] : kAmounts)
    if (always || rates.*value > 0)
      json[name] = {{unit, rates.*value}, {"source", source_of(name)}};
  if (rates.watts_of_product > 0)
    json[kPower] = {{"watts_per_teraflop", rates.watts_of_product},
                    {"architectures", rates.limited_by_power},
                    {"source", source_of(kPower)}};
  return json.dump(2) + "\n";
}

double at(const Fraction& fraction, Outlook outlook) {
  switch (outlook) {
    case Outlook::kSlow:
      return fraction.low;
    case Outlook::kFast:
      return fraction.high;
    case Outlook::kExpected:
      break;
  }
  return fraction.expected;
}

Seconds host_launch_at(const AchievedRates& rates, Outlook outlook) {
  const double part = outlook == Outlook::kSlow   ? rates.host_launch_slow
                      : outlook == Outlook::kFast ? rates.host_launch_fast
                                                  : 1.0;
  return Seconds(rates.host_launch.value() * part);
}

}  // namespace steelyard
