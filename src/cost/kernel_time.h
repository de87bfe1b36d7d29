// Seconds that one kernel takes on the device.
//
//   product     flops / (peak · fraction · tiles), at least its bytes / bandwidth
//   attention   flops / (peak · fraction of the kernel and direction · filling · keys / (keys + start))
//   traffic     bytes / (bandwidth · fraction)
//
// Tiles: the result is cut into tiles that multiprocessors work on in waves; what the last wave and the edges waste, and
// a start of 128 columns of the inner dimension, is lost (the model of hardware studies of cuBLAS; see tile_fraction).
// Filling: attention is cut into blocks of queries of one head; few of them leave multiprocessors idle at its ends, which is
// what a tensor rank's few heads cost.
#pragma once

#include "cost/achieved_rates.h"
#include "operators/work.h"

namespace steelyard {

// A tile's first and last columns of the inner dimension fill and drain its pipeline. That is a time, said in columns of
// 16 bits: the slower units of fp32 pass fewer in it.
constexpr double kInnerStart = 128;

// The part of the multiprocessors' time that a product uses, 0 to 1.
double tile_fraction(const Arithmetic& product, std::int64_t multiprocessors,
                     double start = kInnerStart);

// The same of attention, whose ends cost `waves`.
double filling(const Arithmetic& attention, std::int64_t multiprocessors, double waves);

// The peak rate for operands of this type; 8-bit types that the device has no units for run as 16 bits. `short_products`: of
// fp32 factors 10 bits of the mantissa are read (tf32), where the device has units for that.
FlopsPerSecond peak_rate(const Device& device, ElementType type, bool short_products = false);

class KernelClock {
 public:
  KernelClock(const Device& device, Outlook outlook, bool short_products = false);
  // Of the device, all its times; exchanges take none of it.
  Seconds device_time(const Kernel& kernel) const;

 private:
  Seconds time_of_one(const Kernel& kernel) const;
  double attention_fraction(const Kernel& kernel) const;
  double share_of_keys(const Kernel& kernel) const;
  double start_of(ElementType type) const;

  const Device& device_;
  const AchievedRates& rates_;
  Outlook outlook_;
  double product_;  // of the peak rate
  bool short_products_;
};

}  // namespace steelyard
