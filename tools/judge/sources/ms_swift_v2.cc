// ms-swift 2.x's benchmark page: Qwen, Yi and ChatGLM in full and with adapters on one or two A100 80 GB. max_memory_reserved of
// each device. Samples longer than max_length are dropped, the others keep their length.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// Qwen's and Yi's own config.json; Qwen halves its printed intermediate_size over the two matrices of its gate.
std::optional<Shape> shape_of(const MeasuredRow& row) {
  Shape shape;
  if (row.says("model.name", "qwen-1_8b"))
    shape = {24, 2048, 16, 16, 5504, 151'936};
  else if (row.says("model.name", "qwen-7b"))
    shape = {32, 4096, 32, 32, 11'008, 151'936};
  else if (row.says("model.name", "qwen-14b"))
    shape = {40, 5120, 40, 40, 13'696, 152'064};
  else if (row.says("model.name", "qwen-72b"))
    shape = {80, 8192, 64, 64, 24'576, 152'064};
  else if (row.says("model.name", "yi-6b"))
    shape = {32, 4096, 32, 4, 11'008, 64'000};
  else if (row.says("model.name", "yi-34b"))
    shape = {60, 7168, 56, 8, 20'480, 64'000};
  else
    return std::nullopt;
  shape.positions = 8192;
  return shape;
}

Mapped map(MeasuredRow& row) {
  if (row.says("parallel.pp", "device_map") || row.count("hardware.gpus").value_or(1) > 1)
    return left_out("layers laid over two devices by device_map: not a layout of ours");
  MappedRun mapped;
  const std::optional<Shape> shape = shape_of(row);
  if (!shape) return left_out("a model that no preset of ours is: " + row.text("model.name"));
  Value model = llama_model(*shape);
  // Qwen has biases on queries, keys and values, as qwen2 of Hugging Face has them.
  if (row.says("model.name", "qwen"))
    set_path(model, "model_type", Value::string("qwen2"), Place{});
  mapped.set("model", std::move(model));
  map_cluster(row, mapped);
  mapped.set("engine", "ddp");
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  if (const auto steps = row.count("train.grad_accum"))
    mapped.set("training.gradient_accumulation", *steps);
  // truncation_strategy is "delete" unless said (swift/llm/utils/argument.py of 1.5, 1.6 and 2.0), and the page states the
  // tokens of its dataset; the samples of that stand in swift's own list of datasets.
  mapped.set("training.packing", "padded");
  mapped.set("training.mean_length", Value::number(3234.4));
  mapped.set("training.length_deviation", Value::number(2547.5));
  mapped.set("training.long_samples", "dropped");
  mapped.set("training.samples", 4959);
  const bool adapted = !row.says("train.mode", "full");
  const bool by_qwen = row.says("model.name", "qwen");
  if (adapted)
    mapped.assume("training.precision", "bf16-autocast",
                  "what bf16 means to transformers' Trainer");
  else
    mapped.assume("training.precision", "bf16-pure", "the model is loaded in bf16 and trained so");
  // What came with Qwen's weights moves 16-bit logits, and autocast widens the copy.
  if (by_qwen && adapted)
    mapped.assume("environment.transformers", "4.30",
                  "Qwen's own model code does as llama's did then");
  else
    mapped.assume("environment.transformers", "4.36",
                  by_qwen ? "the loss is computed in fp32, as autocast does beside Qwen's code"
                          : "of the time of torch 2.1 and flash-attn 2.3");
  mapped.assume("training.optimizer", "adamw", "not printed");
  mapped.set("training.attention", row.says("train.attention", "eager") ? "eager" : "flash");
  mapped.set("recompute.mode",
             row.says("train.recompute", "gradient_checkpointing") ? "full" : "none");
  if (adapted) {
    mapped.set("adapter.method", "lora");
    mapped.set("adapter.rank", row.count("train.lora.rank").value_or(8));
    if (row.says("train.lora.target", "DEFAULT")) {
      // Swift's DEFAULT for Qwen is its fused c_attn, for Yi q_proj, k_proj and v_proj.
      Value::Array targets;
      for (const char* module : {"q_proj", "k_proj", "v_proj"})
        targets.push_back(Value::string(module));
      mapped.set("adapter.target_modules", Value::array(std::move(targets)));
    }
    mapped.set("adapter.base", row.says("train.quant", "int4")   ? "nf4"
                               : row.says("train.quant", "int8") ? "int8"
                                                                 : "bf16");
    if (row.says("train.quant", "gptq")) {
      mapped.set_switch("adapter.upcast", false);
      mapped.read_as("GPTQ's weights as bitsandbytes'", "as many bits; the closest of ours");
    }
  }
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_reserved_gib"))
    mapped.readings.push_back({Meter::kReserved, *bytes});
  map_outcome(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) {
  return row.origin() == "modelscope/ms-swift" && row.id().substr(0, 7) == "swift2-";
}

}  // namespace

constinit const RowSource kMsSwiftV2 = {
    "ms-swift-v2", "Qwen and Yi fine-tunes on A100 80 GB: reserved", owns, map};

}  // namespace steelyard
