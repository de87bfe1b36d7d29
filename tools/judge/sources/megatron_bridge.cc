// NVIDIA's Megatron-Bridge: performance tables up to GB300 (speed; each row fits) and the memory notes of its skills (max allocated,
// in decimal GB that the rows have as GiB).
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

Mapped map(MeasuredRow& row) {
  if (row.text("train.recompute").empty()) return left_out("prints no train.recompute");
  if (!row.says("model.name", "Llama 3 70B"))
    return left_out("a model that no preset of ours is: " + row.text("model.name"));
  MappedRun mapped;
  mapped.set("model", "llama-3-70b");
  mapped.set("engine", "megatron");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("train.global_batch"));
  mapped.set("training.precision",
             row.says("train.precision", "FP8") ? "fp8-tensorwise" : "bf16-mixed");
  // perf_recipes/llama/h100/llama3.py, llama3_70b_sft_32gpu_h100_{bf16,fp8cs}_config; mixed_precision.py.
  if (row.says("train.precision", "FP8")) {
    mapped.assume("types.parameters", "fp8", "its recipe: fp8_param_gather");
    mapped.assume("types.gradients", "bf16", "its recipe: grad_reduce_in_fp32 = False");
    mapped.assume_switch("training.transposed_weights", false,
                         "its recipe: disable_parameter_transpose_cache = True");
  }
  mapped.set("training.optimizer", "adamw");
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.assume("parallel.zero_stage", 1, "the distributed optimizer, as in its other tables");
  mapped.set("parallel.tensor", row.need("parallel.tp"));
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  const std::int64_t chunks = row.count("parallel.vpp").value_or(1);
  mapped.set("parallel.virtual_pipeline", chunks);
  mapped.set("parallel.schedule", chunks > 1 ? "interleaved" : "1f1b");
  mapped.set("recompute.mode", "selective");
  Value::Array modules;
  if (row.says("train.recompute", "core_attn")) modules.push_back(Value::string("core_attention"));
  if (row.says("train.recompute", "mlp")) modules.push_back(Value::string("mlp"));
  if (row.says("train.recompute", "layernorm")) modules.push_back(Value::string("norms"));
  if (!modules.empty()) mapped.set("recompute.modules", Value::array(std::move(modules)));
  if (!row.complete()) return left_out(row.missing());
  // What Bridge logged was the last rank's, whose process has the writers, until it took the most of a pipeline
  // (NVIDIA-NeMo/Megatron-Bridge#3645, May 2026); these notes are of #3107.
  mapped.stage = row.need("parallel.pp") - 1;
  if (const auto bytes = row.gib("measured.peak_allocated_gib"))
    mapped.readings.push_back({Meter::kAllocated, *bytes});
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.origin() == "NVIDIA-NeMo/Megatron-Bridge"; }

}  // namespace

constinit const RowSource kMegatronBridge = {
    "megatron-bridge", "Megatron-Bridge up to GB300: allocated, runs that fit", owns, map};

}  // namespace steelyard
