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

// An adapter's two products, of which one sums over many columns and the other over 16.
TEST(KernelTime, NarrowProductsAreSlicedAndTheirStartIsATime) {
  const Arithmetic down{Arithmetic::kProduct, 2048, 3584, 16};
  Arithmetic wide = down;
  wide.columns = 160;
  // whole tiles of 64 x 64 would keep 32 of 108 multiprocessors busy, with a quarter of their columns
  const double unsliced = 32.0 / 108 * 16 / 64 * 0.55 * 3584 / (3584 + kInnerStart);
  EXPECT_GT(tile_fraction(down, 108), 4 * unsliced);
  EXPECT_LT(tile_fraction(wide, 108), 0.5);
  // fp32's units pass a sixteenth of the columns in the time in which a tile of 16 bits starts
  const Device& device = *find_device("a100-sxm-80gb").device;
  const KernelClock clock(device, Outlook::kExpected);
  Kernel up = product(2048, 16, 3584);
  up.type = ElementType::kFloat32;
  const double peak = peak_rate(device, up.type).value();
  const double full = tile_fraction(up.arithmetic, device.multiprocessors, 0);
  const double taken = clock.device_time(up).value() - achieved_rates(device).kernel_start.value();
  EXPECT_NEAR(up.flops / taken / peak / achieved_rates(device).product.expected / full, 16.0 / 24,
              1e-6);
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

// fp32 products of which 10 bits are read run at the tf32 rate; what is no product has none.
TEST(KernelTime, ShortProductsRunAtTheirOwnRate) {
  const Device& device = *find_device("h100-sxm-80gb").device;
  Kernel large = product(8192, 8192, 8192);
  large.type = ElementType::kFloat32;
  const double whole = KernelClock(device, Outlook::kExpected).device_time(large).value();
  const double shorter = KernelClock(device, Outlook::kExpected, true).device_time(large).value();
  EXPECT_NEAR(whole / shorter, 494.5 / 67, 0.2);
  large.kind = Kernel::kTraffic;
  large.bytes = 1e9;
  EXPECT_EQ(KernelClock(device, Outlook::kExpected, true).device_time(large).value(),
            KernelClock(device, Outlook::kExpected).device_time(large).value());
}

// A loss in pieces: eight products of a few rows take longer than one of all, and each is launched.
TEST(KernelTime, PiecesAreProductsOfTheirOwn) {
  const Device& device = *find_device("a100-sxm-80gb").device;
  const KernelClock clock(device, Outlook::kExpected);
  Kernel piece = product(128, 2048, 128256);
  const double once = clock.device_time(piece).value();
  piece.times = 8;
  EXPECT_DOUBLE_EQ(clock.device_time(piece).value(), 8 * once);
  EXPECT_GT(8 * once, clock.device_time(product(1024, 2048, 128256)).value());
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

TEST(KernelTime, AttentionOfFewHeadsLeavesMultiprocessorsIdle) {
  // MooreThreads/SimuMax configs/system/a100_pcie.json: FlashAttention 2, causal, 4,096 tokens, head size 128
  const Device& device = *find_device("a100-pcie-80gb").device;
  const KernelClock clock(device, Outlook::kExpected);
  struct Measured {
    std::int64_t heads;
    double forward, backward;
  };
  for (const Measured& shape :
       {Measured{64, 0.594, 0.503}, Measured{32, 0.559, 0.483}, Measured{16, 0.494, 0.444},
        Measured{8, 0.393, 0.380}, Measured{4, 0.257, 0.337}}) {
    Kernel kernel;
    kernel.kind = Kernel::kAttention;
    kernel.arithmetic = {Arithmetic::kAttention, 4096, 128, 4096, shape.heads, true};
    for (const bool backward : {false, true}) {
      kernel.backward = backward;
      kernel.flops = kernel.arithmetic.flops() * (backward ? 2.5 : 1);
      const double reached = kernel.flops / clock.device_time(kernel).value() / 312e12;
      const double measured = backward ? shape.backward : shape.forward;
      EXPECT_NEAR(reached / measured, 1, 0.09) << shape.heads << " heads, backward " << backward;
    }
  }
}

TEST(KernelTime, TheFirstFlashAttentionIsSlower) {
  const Device& device = *find_device("a100-sxm-80gb").device;
  const KernelClock clock(device, Outlook::kExpected);
  Kernel kernel;
  kernel.kind = Kernel::kAttention;
  kernel.arithmetic = {Arithmetic::kAttention, 4096, 128, 4096, 64, true};
  kernel.flops = kernel.arithmetic.flops();
  const double second = clock.device_time(kernel).value();
  kernel.arithmetic.code = AttentionCode::kFirstFlash;
  // arXiv:2307.08691, section 4.1: 1.7 to 3.0 times FlashAttention, 1.3 to 2.5 times its Triton form
  EXPECT_GT(clock.device_time(kernel).value(), 1.3 * second);
  EXPECT_LT(clock.device_time(kernel).value(), 3.0 * second);
}

TEST(KernelTime, PowerSetsTheClockOfLargeProducts) {
  const auto rate = [](const char* name) {  // FLOP/s
    const Device& device = *find_device(name).device;
    return product_of(achieved_rates(device), device).expected * device.rates.bf16->value();
  };
  EXPECT_NEAR(rate("gb200") / rate("b200"), 1200.0 / 1000, 1e-3);
  EXPECT_NEAR(rate("gb300") / rate("b200"), 1400.0 / 1000, 1e-3);
  EXPECT_NEAR(rate("h100-pcie-80gb") / find_device("h100-pcie-80gb").device->rates.bf16->value(),
              rate("h100-sxm-80gb") / find_device("h100-sxm-80gb").device->rates.bf16->value(),
              1e-9);
}

TEST(KernelTime, EveryDeviceHasRatesInOrder) {
  for (const Device& device : devices()) {
    const AchievedRates& rates = achieved_rates(device);
    for (const Fraction* part :
         {&rates.product, &rates.attention_forward, &rates.attention_backward,
          &rates.first_attention_forward, &rates.first_attention_backward,
          &rates.cudnn_attention_forward, &rates.cudnn_attention_backward, &rates.memory,
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
