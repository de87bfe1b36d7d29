// PEFT's method comparison: Llama 3.2 3B on MetaMathQA with each of its methods on an L40S, and once in full. Batches are padded
// up to 768 tokens, so the 99th percentile of what was reserved after a step is the step of the longest batch.
#include "validate/sources/published.h"
#include "validate/sources/sources.h"

namespace steelyard {
namespace {

Mapped map(MeasuredRow& row) {
  const std::string method = row.text("train.lora.peft_type");
  const bool full = row.at("train.lora.peft_type") == nullptr;
  if (!full && method != "LORA") return left_out("PEFT's method " + method + ": not one of ours");
  for (const std::string_view variant : {"lorafa", "bdlora"})
    if (row.id().find(variant) != std::string::npos)
      return left_out("a variant of LoRA: not one of ours");
  MappedRun mapped;
  mapped.set("model", "llama-3.2-3b");
  map_cluster(row, mapped);
  mapped.set("engine", "ddp");
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", row.need("train.grad_accum"));
  mapped.set("training.precision", "bf16-pure");
  mapped.set("training.optimizer", "adamw");
  mapped.assume("training.attention", "flash",
                "transformers' default, scaled_dot_product_attention");
  mapped.set("recompute.mode", "none");
  if (!full) {
    mapped.set("adapter.method",
               row.truth("train.lora.use_dora").value_or(false) ? "dora" : "lora");
    mapped.set("adapter.rank", row.need("train.lora.r"));
    if (const Value* targets = row.at("train.lora.target_modules"))
      mapped.set("adapter.target_modules", *targets);
  }
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.reserved_p99_gib")) {
    mapped.readings.push_back({Meter::kReserved, *bytes});
    mapped.read_as("the 99th percentile as the peak", "batches of 768 tokens are the longest");
  }
  map_outcome(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) {
  return row.origin() == "huggingface/peft" && row.says("source.path", "method_comparison");
}

}  // namespace

constinit const RowSource kPeft = {"peft", "Llama 3.2 3B with PEFT's methods on an L40S: reserved",
                                   owns, map};

}  // namespace steelyard
