// Bekman et al. 2025, Arctic Long Sequence Training (arXiv:2506.13996): Llama 3.1 8B under ZeRO-3 on H100, with the longest
// sequence that fitted, found by its authors. Lengths are printed rounded: "160K". Their recipes (snowflakedb/ArcticTraining,
// projects/sequence-parallelism) have what the tables leave out.
#include <algorithm>

#include "quantity/parse.h"
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

bool has_feature(const MeasuredRow& row, std::string_view wanted) {
  const Value* features = row.at("measured.extra.features");
  if (features == nullptr || !features->is_array()) return false;
  const auto& list = features->items();
  return std::any_of(list.begin(), list.end(), [&](const Value& feature) {
    return feature.is_string() && feature.as_string() == wanted;
  });
}

Mapped map(MeasuredRow& row) {
  if (has_feature(row, "tiled MLP")) return left_out("computes its MLPs in tiles");
  MappedRun mapped;
  mapped.set("model", "llama-3.1-8b");
  mapped.set("engine", "deepspeed");
  map_cluster(row, mapped);
  if (row.says("hardware.interconnect", "EFA v2")) mapped.set("cluster.machine", "aws-p5");
  if (const auto length = parse_count(row.text("train.seq_len"), CountSuffix::kBinary))
    mapped.set("training.sequence_length", *length);
  else
    row.miss("train.seq_len in thousands");
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", 1);
  mapped.set("training.precision", "bf16-mixed");
  mapped.set("training.attention", "flash");
  mapped.assume("training.optimizer", "adamw", "cpu_adam of their recipes");
  if (has_feature(row, "Liger tiled logits+loss")) {
    mapped.set("training.loss", "fused-linear");
    mapped.assume("training.kernels", "liger", "model.type of their recipes");
  }
  mapped.set("recompute.mode", "full");
  mapped.set("parallel.zero_stage", row.need("parallel.zero_stage"));
  mapped.set("parallel.data", row.need("hardware.gpus"));
  mapped.set("offload.optimizer", "cpu");
  if (row.says("train.offload", "weights")) mapped.set("offload.parameters", "cpu");
  mapped.set("environment.PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
  mapped.set("environment.transformers", "4.51");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().starts_with("alst25-"); }

}  // namespace

constinit const RowSource kAlst = {
    "alst-2025", "Llama 3.1 8B under ZeRO-3 on H100, longest sequences: fit, speeds", owns, map};

}  // namespace steelyard
