// The README of Qwen (v1): LoRA, QLoRA and full fine-tunes on A100 80 GB. The tool that read the memory is not stated.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// Qwen's own config.json (intermediate_size halved over the two matrices of the gate).
std::optional<Shape> shape_of(const std::string& size) {
  if (size == "1.8B") return Shape{24, 2048, 16, 16, 5504, 151'936, 8192};
  if (size == "7B") return Shape{32, 4096, 32, 32, 11'008, 151'936, 8192};
  if (size == "14B") return Shape{40, 5120, 40, 40, 13'696, 152'064, 8192};
  if (size == "72B") return Shape{80, 8192, 64, 64, 24'576, 152'064, 32'768};
  return std::nullopt;
}

Mapped map(MeasuredRow& row) {
  if (row.number("measured.peak_sum_over_gpus_reported"))
    return left_out("prints the total of several devices");
  const std::optional<Shape> shape = shape_of(row.text("model.params"));
  if (!shape) return left_out("a model that is none of Qwen's sizes");
  MappedRun mapped;
  Value model = llama_model(*shape);
  set_path(model, "model_type", Value::string("qwen2"),
           Place{});  // biases on queries, keys and values
  mapped.set("model", std::move(model));
  map_cluster(row, mapped);
  const std::int64_t devices = row.count("parallel.dp").value_or(1);
  const auto stage = row.count("parallel.zero_stage");
  mapped.set("engine", stage ? "deepspeed" : "ddp");
  if (stage) mapped.set("parallel.zero_stage", *stage);
  mapped.set("parallel.data", devices);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", row.need("train.grad_accum"));
  const bool adapted = row.at("train.lora") != nullptr;
  if (row.at("train.lora.modules_to_save") != nullptr)
    return left_out("trains embedding and head beside the adapters");
  // Trainer's own mixed precision is autocast; under DeepSpeed the engine casts.
  mapped.set("training.precision", row.says("train.precision", "fp16") ? "fp16-mixed"
                                   : adapted && !stage                 ? "bf16-autocast"
                                                                       : "bf16-mixed");
  mapped.assume("environment.transformers", "4.30",
                "Qwen's own model code moves 16-bit logits, as llama's did then");
  if (row.says("framework.version", "PyTorch 2.0")) mapped.set("environment.torch", "2.0");
  // finetune/ds_config_zero2.json
  if (stage && *stage == 2) {
    mapped.assume_switch("overlap.reduce", true, "its scripts' own ds_config_zero2.json");
    mapped.set("buckets.reduce", 200'000'000);
  }
  mapped.set("training.optimizer", "adamw");
  mapped.set("training.attention", "flash");
  mapped.set("recompute.mode",
             row.says("train.recompute", "gradient checkpointing") ? "full" : "none");
  if (adapted) {
    mapped.set("adapter.method", "lora");
    mapped.set("adapter.rank", row.count("train.lora.r").value_or(8));
    if (!row.text("train.quant").empty()) {
      mapped.set("adapter.base", "nf4");
      mapped.read_as("base nf4", "GPTQ's 4-bit weights: the closest of ours");
    }
    if (const auto dropout = row.number("train.lora.dropout"))
      mapped.set("adapter.dropout", Value::number(*dropout));
  }
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_reported")) {
    mapped.readings.push_back({Meter::kDevice, *bytes});
    mapped.read_as("device, GiB", "neither the tool nor the unit is stated");
  }
  map_outcome(row, mapped);
  if (row.text("train.quant").empty())
    map_time(row, mapped);
  else
    mapped.read_as("no step time", "auto-gptq's products are none of ours");
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 6) == "qwen1-"; }

}  // namespace

constinit const RowSource kQwen1Readme = {"qwen1-readme",
                                          "Qwen fine-tunes on A100 80 GB: unknown tool", owns, map};

}  // namespace steelyard
