// Qi et al. 2024, Zero Bubble Pipeline Parallelism (arXiv:2401.10241): GPT-3-like models in Megatron, one rank a stage. The
// first and the last part of the model have one layer less than the others: where every layer is a part, none.
#include <algorithm>
#include <array>
#include <string_view>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

constexpr std::int64_t kVocabulary = 50'257;  // GPT-2's tokenizer, which Megatron's GPT runs use
constexpr std::int64_t kMostParts = 1024;
constexpr Bytes kHalfGigabyte{500'000'000};
constexpr Bytes kHalfGibibyte{std::int64_t{1} << 29};

// 22 layers in 8 parts: 2, 3, 3, 3, 3, 3, 3, 2. In 24 parts: 0, 1, ..., 1, 0.
std::optional<Value::Array> part_layers(std::int64_t layers, std::int64_t parts) {
  if (parts < 2 || parts > kMostParts || layers < 1 || layers > 1'000'000 ||
      (layers + 2) % parts != 0)
    return std::nullopt;
  Value::Array counts(static_cast<std::size_t>(parts), Value::integer((layers + 2) / parts));
  counts.front() = counts.back() = Value::integer((layers + 2) / parts - 1);
  return counts;
}

struct Order {
  std::string_view printed, schedule, why;
};
// The automatic orders are searched for within a limit of memory; what they find is not printed.
constexpr std::array kOrders = {
    Order{"1F1B", "1f1b", ""},
    Order{"1F1B-I", "interleaved", ""},
    Order{"ZB-1p", "zb-h1", "searched for within p micro-batches in flight: those of zb-h1"},
    Order{"ZB-2p", "zb-h2", "searched for within 2p micro-batches in flight: zb-h2 has 2p - 1"},
    Order{"ZB-V", "zb-v", ""},
};

// What a printed GB is. The authors' pipelines print max_memory_allocated in 10^6 bytes (sail-sg/zero-bubble-pipeline-parallelism,
// megatron/core/pipeline_parallel/zerobubble/runtime.py), Megatron's own report in MiB; the paper does not say which it took.
enum class Gigabyte : std::uint8_t { kDecimal, kBinary };

Mapped map_as(MeasuredRow& row, Gigabyte gigabyte) {
  const std::string schedule = row.text("parallel.schedule");
  const auto order = std::find_if(kOrders.begin(), kOrders.end(),
                                  [&](const Order& known) { return known.printed == schedule; });
  if (order == kOrders.end()) return left_out("schedule " + schedule + ", which we do not know");
  MappedRun mapped;
  const std::int64_t layers = row.need("model.layers");
  const std::int64_t stages = row.need("parallel.pp");
  const std::int64_t hidden = row.need("model.hidden");
  mapped.set("model", gpt_model({layers, hidden, row.need("model.heads"), 0,
                                 std::min<std::int64_t>(hidden, 1 << 30) * 4, kVocabulary,
                                 row.need("train.seq_len"), true, false}));
  mapped.read_as("model.vocab_size 50257",
                 "not printed; Megatron's GPT runs use GPT-2's tokenizer");
  mapped.set("engine", "megatron");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", row.need("train.grad_accum"));
  mapped.assume("training.precision", "fp16-mixed", "not printed; Megatron's 16 bytes a parameter");
  mapped.assume("training.optimizer", "adam", "not printed");
  mapped.assume("training.attention", "eager", "not printed; Megatron-LM's own core attention");
  assume_megatron_dropout(mapped);
  mapped.assume("recompute.mode", "none", "not printed");
  mapped.set("parallel.data", 1);
  mapped.set("parallel.tensor", 1);
  mapped.set("parallel.pipeline", stages);
  mapped.set("parallel.schedule", std::string(order->schedule));
  if (!order->why.empty())
    mapped.read_as("parallel.schedule " + std::string(order->schedule), std::string(order->why));
  std::int64_t chunks = schedule == "ZB-V" ? 2 : 1;
  if (schedule == "1F1B-I") chunks = stages > 0 ? (layers + 2) / stages : 1;  // of one layer each
  if (chunks > 1) mapped.set("parallel.virtual_pipeline", chunks);
  if (auto counts = part_layers(layers, stages > kMostParts ? 0 : stages * chunks)) {
    mapped.set("parallel.pipeline_layout", Value::array(std::move(*counts)));
  } else {
    row.miss("layers that its stages divide");
  }
  if (!row.complete()) return left_out(row.missing());
  const bool decimal = gigabyte == Gigabyte::kDecimal;
  const char* where = "measured.peak_reported";
  if (const auto bytes = decimal ? row.gigabytes(where) : row.gib(where)) {
    Reading whole{Meter::kAllocated, *bytes};
    whole.rounding = decimal ? kHalfGigabyte : kHalfGibibyte;
    mapped.readings.push_back(whole);
    mapped.infer(
        decimal ? "10^9 bytes, allocated, the largest rank" : "2^30 bytes, the largest rank",
        "the paper does not say what a GB is; read as GiB, every table is 7 % more than 16 bytes a "
        "parameter and the activations in flight");
  }
  map_outcome(row, mapped);
  return mapped;
}

Mapped map(MeasuredRow& row) { return map_as(row, Gigabyte::kDecimal); }
Mapped map_binary(MeasuredRow& row) { return map_as(row, Gigabyte::kBinary); }

bool owns(const MeasuredRow& row) { return row.id().substr(0, 5) == "zb24-"; }

}  // namespace

constinit const RowSource kQi2024 = {
    "qi-2024", "Megatron pipelines on A100: allocated, in whole GB", owns, map};
constinit const RowSource kQi2024Binary = {
    "qi-2024-gib", "the rows of qi-2024, their GB read as GiB", owns, map_binary};

}  // namespace steelyard
