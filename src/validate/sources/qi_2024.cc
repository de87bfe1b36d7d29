// Qi et al. 2024, Zero Bubble Pipeline Parallelism (arXiv:2401.10241): GPT-3-like models in Megatron, one rank a stage. The
// 1F1B rows are runs of ours; the first and the last stage have one layer less than the others.
#include <algorithm>

#include "validate/sources/published.h"
#include "validate/sources/sources.h"

namespace steelyard {
namespace {

constexpr std::int64_t kVocabulary = 50'257;  // GPT-2's tokenizer, which Megatron's GPT runs use
constexpr std::int64_t kMostStages = 1024;

// 22 layers on 8 stages: 2, 3, 3, 3, 3, 3, 3, 2.
std::optional<Value::Array> stage_layers(std::int64_t layers, std::int64_t stages) {
  if (stages < 2 || stages > kMostStages || layers < stages || layers > 1'000'000 ||
      (layers + 2) % stages != 0)
    return std::nullopt;
  Value::Array counts(static_cast<std::size_t>(stages), Value::integer((layers + 2) / stages));
  counts.front() = counts.back() = Value::integer((layers + 2) / stages - 1);
  return counts;
}

Mapped map(MeasuredRow& row) {
  const std::string schedule = row.text("parallel.schedule");
  if (schedule != "1F1B") return left_out("schedule " + schedule + " of the paper's own");
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
  mapped.set("parallel.schedule", "1f1b");
  if (auto counts = stage_layers(layers, stages)) {
    mapped.set("parallel.pipeline_layout", Value::array(std::move(*counts)));
  } else {
    row.miss("layers that its stages divide");
  }
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_reported")) {
    mapped.readings.push_back({Meter::kAllocated, *bytes});
    mapped.read_as("GB as GiB, allocated, the largest rank",
                   "which of these it is, the paper does not say");
  }
  map_outcome(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 5) == "zb24-"; }

}  // namespace

constinit const RowSource kQi2024 = {
    "qi-2024", "Megatron pipelines on A100: allocated, in whole GB", owns, map};

}  // namespace steelyard
