// PEFT's method comparison: Llama 3.2 3B on MetaMathQA with each of its methods on an L40S, and once in full. Batches are padded
// up to 768 tokens, and those of 768 are rare: what was reserved after a step, of which a 99th percentile is printed, is mostly
// less than the longest needs, as the script empties the cache every ten steps. The run's maximum is that of the longest batch. It
// has the evaluation in it, too, but grows with what a method keeps for backward, as generation does not: 20.8 GiB with two adapted
// matrices a layer, 22.8 with DoRA, 23.0 with the three of the MLP.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// What was reserved: over the whole run, evaluation and all, or after a training step, of which the 99th percentile is printed.
enum class Printed : std::uint8_t { kMaximum, kPercentile };

Mapped map_as(MeasuredRow& row, Printed printed) {
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
  const bool maximum = printed == Printed::kMaximum;
  if (const auto bytes = row.gib(maximum ? "measured.peak_reserved_with_evaluation_gib"
                                         : "measured.reserved_p99_gib")) {
    mapped.readings.push_back({Meter::kReserved, *bytes});
    mapped.infer(
        maximum ? "the run's maximum as that of its longest batch"
                : "the 99th percentile after a step as that of a batch of full length",
        "the maximum grows with what the method keeps for backward, as evaluation does not");
  }
  map_outcome(row, mapped);
  return mapped;
}

Mapped map(MeasuredRow& row) { return map_as(row, Printed::kMaximum); }
Mapped map_percentile(MeasuredRow& row) { return map_as(row, Printed::kPercentile); }

bool owns(const MeasuredRow& row) {
  return row.origin() == "huggingface/peft" && row.says("source.path", "method_comparison");
}

}  // namespace

constinit const RowSource kPeft = {"peft", "Llama 3.2 3B with PEFT's methods on an L40S: reserved",
                                   owns, map};
constinit const RowSource kPeftPercentile = {
    "peft-p99", "the rows of peft, by the 99th percentile after a step", owns, map_percentile};

}  // namespace steelyard
