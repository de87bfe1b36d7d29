// Hugging Face's page "Efficient Training on a Single GPU" of 2022: bert-large on a V100 16 GB, read with NVML after training, so
// allocator, CUDA context and all.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

constexpr double kMibOfGib = 1024.0;

Mapped map(MeasuredRow& row) {
  if (!row.count("train.micro_batch")) return left_out("a context or a loaded model: not a run");
  MappedRun mapped;
  mapped.set("model", "bert-large-uncased");
  mapped.read_as("the head of masked language modelling",
                 "theirs classifies sequences; its head is smaller");
  map_cluster(row, mapped);
  mapped.set("engine", "ddp");
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", row.need("train.grad_accum"));
  if (row.says("train.precision", "fp16")) {
    mapped.set("training.precision", "fp16-autocast");
  } else {
    mapped.set("training.precision", "fp32");
  }
  mapped.set("training.optimizer", row.says("train.optimizer", "Adafactor") ? "adafactor"
                                   : row.says("train.optimizer", "8bit")    ? "adamw-8bit"
                                                                            : "adamw");
  if (!row.says("train.optimizer", "8bit"))
    mapped.assume("training.optimizer_form", "loop",
                  "the Trainer's optimizers of that version step tensor by tensor");
  mapped.assume("environment.torch", "1.13", "current when the page was written (2022 and 2023)");
  mapped.set("training.attention", "eager");
  mapped.set("recompute.mode",
             row.says("train.recompute", "gradient checkpointing") ? "full" : "none");
  const auto mib = row.number("measured.peak_reported");
  const auto bytes = mib ? bytes_of_gib(*mib / kMibOfGib) : std::nullopt;
  if (!bytes) row.miss("measured.peak_reported");
  if (!row.complete()) return left_out(row.missing());
  mapped.readings.push_back({Meter::kDevice, *bytes});
  map_outcome(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 17) == "hfdocs-bertlarge-"; }

}  // namespace

constinit const RowSource kHfBertLarge = {
    "hf-bert-large", "bert-large on a V100 16 GB: the whole device", owns, map};

}  // namespace steelyard
