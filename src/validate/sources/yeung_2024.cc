// Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism (arXiv:2411.05288): Megatron, one rank a stage,
// vocabularies of 32k to 256k. The plain 1F1B rows are runs of ours; the other schedules move the vocabulary's layers.
#include <algorithm>

#include "validate/sources/published.h"
#include "validate/sources/sources.h"

namespace steelyard {
namespace {

// "128k": a thousand, by the steps between rows.
std::optional<std::int64_t> vocabulary_of(const std::string& printed) {
  if (printed == "32k") return 32'000;
  if (printed == "64k") return 64'000;
  if (printed == "128k") return 128'000;
  if (printed == "256k") return 256'000;
  return std::nullopt;
}

Mapped map(MeasuredRow& row) {
  const std::string schedule = row.text("parallel.schedule");
  if (schedule != "1F1B / Baseline" && schedule != "1F1B / baseline")
    return left_out("schedule " + schedule + ": its layers are placed otherwise");
  MappedRun mapped;
  const auto vocabulary = vocabulary_of(row.text("model.vocab"));
  if (!vocabulary) row.miss("model.vocab");
  mapped.set("model",
             gpt_model({row.need("model.layers"), row.need("model.hidden"), row.need("model.heads"),
                        0, std::min<std::int64_t>(row.need("model.hidden"), 1 << 30) * 4,
                        vocabulary.value_or(1), row.need("train.seq_len"), false, false}));
  mapped.set("engine", "megatron");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", row.need("train.grad_accum"));
  mapped.assume("training.precision", "bf16-mixed",
                "not printed; steps between vocabularies are 16 bytes a parameter");
  mapped.assume("types.gradients", "bf16", "the same steps: 2 + 2 + 12 bytes, so not fp32");
  mapped.assume("training.optimizer", "adam", "not printed");
  mapped.assume("training.attention", "flash", "not printed");
  assume_megatron_dropout(mapped);
  mapped.assume("recompute.mode", "none", "not printed");
  mapped.set("parallel.data", 1);
  mapped.set("parallel.tensor", 1);
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  mapped.set("parallel.schedule", "1f1b");
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_reported")) {
    mapped.readings.push_back({Meter::kAllocated, *bytes});
    mapped.read_as("GB as GiB", "steps between vocabularies are 16 bytes a parameter in GiB");
  }
  map_outcome(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 10) == "vocabpp24-"; }

}  // namespace

constinit const RowSource kYeung2024 = {
    "yeung-2024", "Megatron pipelines with large vocabularies on A100: allocated", owns, map};

}  // namespace steelyard
