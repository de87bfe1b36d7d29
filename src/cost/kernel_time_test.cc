#include "cost/kernel_time.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

Kernel product(std::int64_t rows, std::int64_t inner, std::int64_t columns) {
  Kernel kernel;
  kernel.kind = Kernel::kProduct;
  kernel.arithmetic = {Arithmetic::kProduct, rows, inner, columns};
  kernel.flops = kernel.arithmetic.flops();
  return kernel;
}

TEST(KernelTime, WholeWavesOfLargeTilesLoseOnlyTheStart) {
  // 108 multiprocessors, 108 tiles of 256 x 128
  const Arithmetic whole{Arithmetic::kProduct, 256 * 12, 4096, 128 * 9};
  EXPECT_DOUBLE_EQ(tile_fraction(whole, 108), 4096.0 / (4096 + 128));
  // one tile more begins a second wave
  const Arithmetic spilled{Arithmetic::kProduct, 256 * 12, 4096, 128 * 9 + 1};
  EXPECT_LT(tile_fraction(spilled, 108), 0.75);
}

TEST(KernelTime, AProductTakesItsArithmeticOrItsBytes) {
  const Device& device = *find_device("a100-sxm-80gb").device;
  const KernelClock clock(device, Outlook::kExpected);
  const AchievedRates& rates = achieved_rates(device);
  const Kernel large = product(8192, 8192, 8192);
  const double arithmetic = large.flops / 312e12 / rates.product.expected /
                            tile_fraction(large.arithmetic, device.multiprocessors);
  EXPECT_NEAR(clock.device_time(large).value(), arithmetic + rates.kernel_start.value(), 1e-9);
  Kernel thin = product(1, 8192, 8192);
  thin.bytes = 2.0 * 8192 * 8192;
  EXPECT_NEAR(clock.device_time(thin).value(),
              thin.bytes / (2.039e12 * rates.memory.expected) + rates.kernel_start.value(), 1e-6);
}

TEST(KernelTime, FactorsOfEightBitsRunAtTheirOwnRate) {
  const Device& device = *find_device("h100-sxm-80gb").device;
  const KernelClock clock(device, Outlook::kExpected);
  const AchievedRates& rates = achieved_rates(device);
  Kernel wide = product(8192, 8192, 8192), narrow = wide;
  narrow.type = ElementType::kFloat8E4M3;
  const double start = rates.kernel_start.value();
  const double ratio =
      (clock.device_time(wide).value() - start) / (clock.device_time(narrow).value() - start);
  EXPECT_NEAR(ratio, 1979.0 / 989 * rates.eight_bit_product.expected, 1e-9);
}

TEST(KernelTime, EveryDeviceHasRatesInOrder) {
  for (const Device& device : devices()) {
    const AchievedRates& rates = achieved_rates(device);
    for (const Fraction* part :
         {&rates.product, &rates.attention_forward, &rates.attention_backward, &rates.memory,
          &rates.ring, &rates.network}) {
      EXPECT_GT(part->low, 0) << device.name;
      EXPECT_LE(part->low, part->expected) << device.name;
      EXPECT_LE(part->expected, part->high) << device.name;
      EXPECT_LT(part->high, 1) << device.name;
    }
    EXPECT_GE(rates.overlap_slowdown.low, rates.overlap_slowdown.high) << device.name;
  }
}

}  // namespace
}  // namespace steelyard
