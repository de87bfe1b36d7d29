// What training reaches of a device's peak rates: the constants of the cost model, each with a physical meaning.
//
//   sm_80   products 0.76 of peak (0.66 to 0.84) · attention 0.66 forward, 0.52 backward · memory 0.80 of its bandwidth
//           rings 0.78 of the links · 20 us of host time an operator
//
// Facts live in data/efficiency/*.json, one file for each architecture, each constant with its source: read somewhere,
// or fitted on published runs (the file says which were used and which were kept for the test).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "machine/device.h"

namespace steelyard {

// low: the slowest that has been seen, high: the fastest.
struct Fraction {
  double low = 0, expected = 0, high = 0;
};

struct AchievedRates {
  std::string architecture;  // "sm_80"
  Fraction product;          // of the peak rate, for a product that fills the device with tiles
  // Watts for each TFLOP/s of the 16-bit peak where that was measured, and the architectures whose clock the power limits
  // so: `product` goes with it, up to its high end. None: it does not.
  double watts_of_product = 0;
  std::vector<std::string> limited_by_power;
  Fraction weight_product;     // of that again, where tokens are summed: the gradient of a weight
  Fraction eight_bit_product;  // of `product` again, where both factors have 8 bits
  // Of the peak rate, FlashAttention 2, as many heads and queries as one likes; a causal square counts half, backward has
  // five products for two. Then FlashAttention 1, and cuDNN's, which Transformer Engine takes from Hopper on.
  Fraction attention_forward, attention_backward;
  Fraction first_attention_forward, first_attention_backward;
  Fraction cudnn_attention_forward, cudnn_attention_backward;
  // Waves of blocks of 128 queries, one for each multiprocessor, that the ends of such a kernel cost.
  double attention_forward_waves = 0, attention_backward_waves = 0;
  // What FlashAttention 2 takes for each query whatever its keys, in keys: of short rows it is most. 0: not known apart.
  double attention_forward_start = 0, attention_backward_start = 0;
  Fraction memory;            // of the memory's bandwidth, for kernels that only read and write
  Fraction ring;              // of the device's link, as bus bandwidth of large rings
  Fraction network;           // of the interface, as bus bandwidth across machines
  Fraction host_link;         // of the link to the host, for large pinned copies
  Fraction host_memory;       // of the host's memory bandwidth, by an optimizer's step on its CPUs
  Fraction overlap_slowdown;  // of the shorter one, when communication runs beside compute
  Seconds kernel_start{};     // between two kernels on the device
  Seconds host_launch{};      // of the host, for each operator of eager code
  double host_launch_fast = 1, host_launch_slow = 1;  // parts of it: what has been seen
  Seconds exchange_start{};                           // of a collective, whatever its ranks
  Seconds exchange_inside{};  // each of its steps from a rank to one of the same machine
  Seconds exchange_across{};  // and of another
};

// By the device's architecture; the nearest older one of the same vendor where there is no file.
const AchievedRates& achieved_rates(const Device& device);
// `product` under the device's own power limit.
Fraction product_of(const AchievedRates& rates, const Device& device);

// While it lives these rates stand for their architecture, on this thread: a calibration, or what a user has calibrated.
// One at a time.
class RatesInForce {
 public:
  explicit RatesInForce(AchievedRates rates);
  ~RatesInForce();
  RatesInForce(const RatesInForce&) = delete;
  RatesInForce& operator=(const RatesInForce&) = delete;
  AchievedRates& rates() { return rates_; }

 private:
  AchievedRates rates_;
};
// For threads that do a part of this one's work: SameRates rates(rates_in_force() of the first).
const AchievedRates* rates_in_force();
class SameRates {
 public:
  explicit SameRates(const AchievedRates* rates);
  ~SameRates();
  SameRates(const SameRates&) = delete;
  SameRates& operator=(const SameRates&) = delete;

 private:
  const AchievedRates* before_;
};
// Of a file as data/efficiency has them; a complaint where it is none.
tl::expected<AchievedRates, std::string> read_rates(std::string_view text, std::string_view name);
// The same text again, every constant with the source that `source_of` gives for its name.
std::string rates_text(const AchievedRates& rates,
                       const std::function<std::string(std::string_view)>& source_of);

// How sure a time is asked to be: every fraction at its slow end, as expected, or at its fast end.
enum class Outlook : std::uint8_t { kSlow, kExpected, kFast };
double at(const Fraction& fraction, Outlook outlook);
Seconds host_launch_at(const AchievedRates& rates, Outlook outlook);

}  // namespace steelyard
