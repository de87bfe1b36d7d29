#include "cost/kernel_time.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace steelyard {

namespace {

// Sizes that libraries of matrix products choose from, with the rate of each beside the largest one. Below 64 x 64 nothing was
// measured: what a tile has to read for each product, 1 / rows + 1 / columns, goes on as it does above.
struct Tile {
  std::int64_t rows, columns;
  double rate;
};
constexpr std::array kTiles = {Tile{256, 128, 1.0}, Tile{128, 256, 1.0}, Tile{128, 128, 0.90},
                               Tile{256, 64, 0.85}, Tile{64, 256, 0.85}, Tile{128, 64, 0.75},
                               Tile{64, 128, 0.75}, Tile{64, 64, 0.55},  Tile{128, 32, 0.46},
                               Tile{32, 128, 0.46}, Tile{64, 32, 0.40},  Tile{32, 64, 0.40}};
// Of products that are no wider, an adapter's or a router's, libraries also cut the inner dimension (cuBLAS's kernels
// "splitK" and "sliced"). Measured shapes of 160 columns and more show no sign of it.
constexpr std::int64_t kNarrow = 64;
// What one block of an attention kernel works on (flash-attn, kBlockM of a head of 128).
constexpr std::int64_t kQueriesOfBlock = 128;

std::int64_t pieces(std::int64_t whole, std::int64_t piece) { return (whole + piece - 1) / piece; }

}  // namespace

double tile_fraction(const Arithmetic& product, std::int64_t multiprocessors, double start) {
  double best = 0;
  const bool narrow = std::min(product.rows, product.columns) <= kNarrow;
  const auto results = static_cast<double>(product.rows) * static_cast<double>(product.columns) *
                       static_cast<double>(product.batch);
  for (const Tile& tile : kTiles) {
    const std::int64_t tiles =
        pieces(product.rows, tile.rows) * pieces(product.columns, tile.columns) * product.batch;
    // As many slices as leave no multiprocessor without one.
    const std::int64_t slices = narrow ? std::max<std::int64_t>(1, multiprocessors / tiles) : 1;
    const double inner = static_cast<double>(product.inner) / static_cast<double>(slices);
    const double computed = static_cast<double>(pieces(tiles * slices, multiprocessors)) *
                            static_cast<double>(multiprocessors) *
                            static_cast<double>(tile.rows * tile.columns) /
                            static_cast<double>(slices);
    best = std::max(best, results / computed * tile.rate * inner / (inner + start));
  }
  return best;
}

double filling(const Arithmetic& attention, std::int64_t multiprocessors, double waves) {
  const auto blocks = static_cast<double>(pieces(attention.rows, kQueriesOfBlock)) *
                      static_cast<double>(attention.batch);
  return blocks / (blocks + waves * static_cast<double>(multiprocessors));
}

FlopsPerSecond peak_rate(const Device& device, ElementType type, bool short_products) {
  const DeviceRates& rates = device.rates;
  const auto first = [](std::initializer_list<std::optional<FlopsPerSecond>> choices) {
    for (const auto& choice : choices)
      if (choice) return *choice;
    return FlopsPerSecond(1e12);
  };
  switch (type) {
    case ElementType::kFloat16:
      return first({rates.fp16, rates.bf16, rates.fp32});
    case ElementType::kBFloat16:
      return first({rates.bf16, rates.fp16, rates.fp32});
    default:
      break;
  }
  if (bits_of(type) == 8) return first({rates.fp8, rates.bf16, rates.fp16, rates.fp32});
  if (short_products) return first({rates.tf32, rates.fp32});
  return first({rates.fp32});
}

KernelClock::KernelClock(const Device& device, Outlook outlook, bool short_products)
    : device_(device),
      rates_(achieved_rates(device)),
      outlook_(outlook),
      product_(at(product_of(rates_, device), outlook)),
      short_products_(short_products) {}

double KernelClock::start_of(ElementType type) const {
  if (bits_of(type) <= 16) return kInnerStart;
  return kInnerStart * peak_rate(device_, type, short_products_).value() /
         peak_rate(device_, ElementType::kBFloat16).value();
}

double KernelClock::attention_fraction(const Kernel& kernel) const {
  using Rate = Fraction AchievedRates::*;
  constexpr std::array<std::array<Rate, 2>, 3> kRates = {
      {{&AchievedRates::attention_forward, &AchievedRates::attention_backward},
       {&AchievedRates::first_attention_forward, &AchievedRates::first_attention_backward},
       {&AchievedRates::cudnn_attention_forward, &AchievedRates::cudnn_attention_backward}}};
  const Rate rate = kRates[static_cast<std::size_t>(kernel.arithmetic.code)][kernel.backward];
  const double waves =
      kernel.backward ? rates_.attention_backward_waves : rates_.attention_forward_waves;
  return at(rates_.*rate, outlook_) * filling(kernel.arithmetic, device_.multiprocessors, waves) *
         share_of_keys(kernel);
}

// As a product's inner dimension fills and drains its tiles, a query's keys do a block's.
double KernelClock::share_of_keys(const Kernel& kernel) const {
  if (kernel.arithmetic.code != AttentionCode::kFlash) return 1;
  const double keys =
      static_cast<double>(kernel.arithmetic.columns) * (kernel.arithmetic.causal ? 0.5 : 1.0);
  return keys / (keys + (kernel.backward ? rates_.attention_backward_start
                                         : rates_.attention_forward_start));
}

Seconds KernelClock::device_time(const Kernel& kernel) const {
  return Seconds(time_of_one(kernel).value() * static_cast<double>(kernel.times));
}

Seconds KernelClock::time_of_one(const Kernel& kernel) const {
  const double moving =
      kernel.bytes / (device_.memory_bandwidth.value() * at(rates_.memory, outlook_));
  const double start = rates_.kernel_start.value() * kernel.launches;
  const bool product = kernel.kind == Kernel::kProduct;
  const double peak = peak_rate(device_, kernel.type, product && short_products_).value();
  switch (kernel.kind) {
    case Kernel::kProduct: {
      const double part =
          tile_fraction(kernel.arithmetic, device_.multiprocessors, start_of(kernel.type)) *
          (kernel.of_weights ? at(rates_.weight_product, outlook_) : 1.0) *
          (bits_of(kernel.type) == 8 ? at(rates_.eight_bit_product, outlook_) : 1.0);
      return Seconds(std::max(kernel.flops / (peak * product_ * part), moving) + start);
    }
    case Kernel::kAttention:
      return Seconds(std::max(kernel.flops / (peak * attention_fraction(kernel)), moving) + start);
    case Kernel::kTraffic:
      return Seconds(moving + start);
    case Kernel::kExchange:
      break;
  }
  return Seconds(0);
}

}  // namespace steelyard
