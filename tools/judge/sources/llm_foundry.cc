// MosaicML's llm-foundry benchmarks: MPT models under FSDP on A100 and H100. No bytes: each row ran, and its micro-batch is the
// largest or best that was tried, so it bounds the memory from one side. The table is stored twice, by two readers.
// An MPT block is a GPT-2 block without biases; gpt2 is the closest of ours, and a little larger.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// The table's runs of 128 devices and more on H100 (January 2024, scripts/train/benchmarking/sweep.py): attn_impl flash, which is
// flash-attn 2.4.2 there, of four models.
bool ran_second_flash_attention(MeasuredRow& row) {
  if (!row.says("hardware.gpu", "H100") || row.count("hardware.gpus").value_or(0) < 128)
    return false;
  const std::string model = row.text("model.name");
  return !model.ends_with("13b") && !model.ends_with("30b");
}

Mapped map(MeasuredRow& row) {
  if (row.says("train.precision", "fp8"))
    return left_out("fp8 of Transformer Engine within an MPT block");
  MappedRun mapped;
  Shape shape = printed_shape(row);
  shape.tied = true;  // MPT's output is its embedding
  Value model = gpt_model(shape);
  // llmfoundry/models/layers/ffn.py: torch's GELU, not the one that GPT-2 spells out.
  set_path(model, "activation_function", Value::string("gelu"), Place{});
  mapped.set("model", std::move(model));
  mapped.read_as("model_type gpt2", "MPT's own model code is not ours; gpt2 adds its biases");
  mapped.set("engine", "fsdp1");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("train.global_batch"));
  mapped.assume("training.precision", "bf16-mixed", "Composer's amp_bf16 and bf16 under FSDP");
  mapped.set("training.optimizer", "adamw");
  mapped.set("training.optimizer_form", "loop");
  mapped.read_as("optimizer_form loop",
                 "Composer's DecoupledAdamW steps tensor by tensor (composer/optim)");
  mapped.set("training.loss", "fused");
  mapped.read_as("loss fused",
                 "MPT's default loss_fn fused_crossentropy is flash-attn's (modeling_mpt.py)");
  mapped.set("training.attention", "flash");
  if (!ran_second_flash_attention(row))
    mapped.assume(
        "environment.flash-attn", "1.0",
        "attn_impl triton, the default of submit_benchmarks.py: FlashAttention 1 in Triton");
  mapped.set("training.dropout", Value::number(0));
  mapped.set("parallel.data", row.need("parallel.dp"));
  const bool gradients_only = row.says("parallel.fsdp_zero_stage", "SHARD_GRAD_OP") ||
                              row.says("parallel.fsdp", "SHARD_GRAD_OP");
  mapped.set("parallel.zero_stage", gradients_only ? 2 : 3);
  mapped.set("recompute.mode", row.says("train.recompute", "full") ? "full" : "none");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

Mapped leave_out(MeasuredRow&) {
  return left_out("the table of llm-foundry, which is judged once");
}

bool owns_foundry(const MeasuredRow& row) { return row.origin() == "mosaicml/llm-foundry"; }
bool owns_mosaic(const MeasuredRow& row) {
  return row.says("source.title", "llm-foundry MPT training benchmarks");
}

}  // namespace

constinit const RowSource kLlmFoundry = {
    "llm-foundry", "MPT under FSDP on A100 and H100: runs that fit", owns_foundry, map};
constinit const RowSource kMosaicmlMpt = {
    "mosaicml-mpt", "the table of llm-foundry, copied a second time", owns_mosaic, leave_out};

}  // namespace steelyard
