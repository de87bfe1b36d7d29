#include "cost/achieved_rates.h"

#include "data/catalogue.h"

namespace steelyard {
namespace {

Fraction read_fraction(const Fact& fact) {
  return {fact["low"].number(), fact["expected"].number(), fact["high"].number()};
}

Seconds read_microseconds(const Fact& fact) {
  return Seconds(fact["microseconds"].number() * 1e-6);
}

struct Entry {
  AchievedRates rates;
  std::vector<std::string> also;  // architectures that have no measurements of their own
};

Entry read_entry(const Fact& fact) {
  Entry entry;
  entry.also = fact.texts_or_none("also");
  AchievedRates& rates = entry.rates;
  rates.architecture = fact["name"].text();
  rates.product = read_fraction(fact["product"]);
  rates.weight_product = read_fraction(fact["weight_product"]);
  rates.attention_forward = read_fraction(fact["attention_forward"]);
  rates.attention_backward = read_fraction(fact["attention_backward"]);
  rates.memory = read_fraction(fact["memory"]);
  rates.ring = read_fraction(fact["ring"]);
  rates.network = read_fraction(fact["network"]);
  rates.host_link = read_fraction(fact["host_link"]);
  rates.host_memory = read_fraction(fact["host_memory"]);
  rates.overlap_slowdown = read_fraction(fact["overlap_slowdown"]);
  rates.kernel_start = read_microseconds(fact["kernel_start"]);
  rates.host_launch = read_microseconds(fact["host_launch"]);
  rates.exchange_inside = read_microseconds(fact["exchange_inside"]);
  rates.exchange_across = read_microseconds(fact["exchange_across"]);
  return entry;
}

Catalogue<Entry>& catalogue() {
  static Catalogue<Entry> entries("efficiency", read_entry);
  return entries;
}

}  // namespace

const AchievedRates& achieved_rates(const Device& device) {
  if (const Entry* entry = catalogue().find(device.architecture)) return entry->rates;
  for (const Entry& entry : catalogue().all())
    for (const std::string& also : entry.also)
      if (also == device.architecture) return entry.rates;
  throw DataError("no achieved rates for " + device.architecture);
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

}  // namespace steelyard
