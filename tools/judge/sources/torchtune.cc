// torchtune's tables: Llama on 4090, A6000 and A100. The ladder of optimization flags (Llama 3.2 3B) prints all it needs; the
// early tables hide their options and are left out. The ladder's column is active bytes, close to allocated.
#include <array>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

struct Name {
  std::string_view printed, preset;
};
constexpr std::array kPresets = {
    Name{"Llama 3.2 3B", "llama-3.2-3b"},   Name{"Llama 3.1 8B", "llama-3.1-8b"},
    Name{"Llama 3.1 70B", "llama-3.1-70b"}, Name{"Llama 3.1 405B", "llama-3.1-405b"},
    Name{"Llama 2 7B", "llama-2-7b"},       Name{"Llama2-7B", "llama-2-7b"},
    Name{"Llama2-70B", "llama-2-70b"},
};

void map_optimizer(MeasuredRow& row, MappedRun& mapped) {
  const bool paged = row.says("train.optimizer", "Paged");
  const bool small = row.says("train.optimizer", "8bit");
  mapped.set("training.optimizer", paged && small ? "adamw-paged-8bit"
                                   : paged        ? "adamw-paged"
                                   : small        ? "adamw-8bit"
                                                  : "adamw");
  if (!paged && !small)
    mapped.assume("training.optimizer_form", "fused",
                  "not printed; torchtune's configs that name torch's AdamW say fused: True");
  if (row.says("train.optimizer", "optimizer_in_bwd"))
    mapped.set_switch("training.optimizer_in_backward", true);
}

void map_adapter(const MeasuredRow& row, MappedRun& mapped) {
  mapped.set("adapter.method", "lora");
  mapped.set("adapter.rank", row.count("train.lora.rank").value_or(8));
  const bool quantised = row.says("train.mode", "QLoRA");
  mapped.set("adapter.base", quantised ? "nf4" : "bf16");
  if (quantised) {  // torchao's NF4Tensor quantises its scales
    mapped.set_switch("adapter.double_quantization", true);
    mapped.set_switch("adapter.upcast", false);
  }
  mapped.set("adapter.type", "bf16");
  const Value* attention = row.at("train.lora.attn");
  if (attention == nullptr) return;
  Value::Array targets;
  for (const Value& printed : attention->items()) {
    const std::string& name = printed.as_string();
    targets.push_back(Value::string(name == "output" ? "o_proj" : name + "_proj"));
  }
  if (row.truth("train.lora.mlp").value_or(false))
    for (const char* module : {"gate_proj", "up_proj", "down_proj"})
      targets.push_back(Value::string(module));
  mapped.set("adapter.target_modules", Value::array(std::move(targets)));
}

Mapped map(MeasuredRow& row) {
  const bool adapted = row.says("train.mode", "LoRA");
  if (row.text("train.packing") == "none")
    return left_out("not packed, and the lengths of its samples are not printed");
  if (row.text("train.recompute").empty()) row.miss("train.recompute");
  if (!adapted && row.text("train.optimizer").empty()) row.miss("train.optimizer");
  MappedRun mapped;
  for (const Name& name : kPresets)
    if (row.text("model.name") == name.printed) mapped.set("model", name.preset);
  if (mapped.run.find("model") == nullptr) row.miss("model.name that we know");
  map_cluster(row, mapped);
  mapped.set("engine", row.count("parallel.dp").value_or(1) > 1 ? "fsdp2" : "ddp");
  mapped.set("implementation", "torchtune");
  mapped.assume("environment.torchtune", "0.4",
                "the ladder is of November 2024, between 0.4 and 0.5");
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  if (const auto steps = row.count("train.grad_accum"))
    mapped.set("training.gradient_accumulation", *steps);
  mapped.set("training.precision", "bf16-pure");
  map_optimizer(row, mapped);
  mapped.set("training.attention", "flash");
  if (row.says("train.loss_kernel", "Chunked")) mapped.set("training.loss", "chunked");
  if (row.truth("train.compile").value_or(false)) mapped.set_switch("training.compile", true);
  mapped.set("recompute.mode",
             row.says("train.recompute", "activation checkpointing") ? "full" : "none");
  if (row.says("train.offload", "activation offloading")) mapped.set("offload.activations", "cpu");
  if (row.says("train.offload", "CPU offload")) {
    mapped.set("offload.parameters", "cpu");
    mapped.set("offload.optimizer", "cpu");
  }
  if (adapted) map_adapter(row, mapped);
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_active_gib")) {
    mapped.readings.push_back({Meter::kAllocated, *bytes});
    mapped.read_as("active bytes as allocated", "they differ by what waits for another stream");
  } else if (const auto reserved = row.gib("measured.peak_reserved_gib")) {
    mapped.readings.push_back({Meter::kReserved, *reserved});
  }
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.origin() == "pytorch/torchtune"; }

}  // namespace

constinit const RowSource kTorchtune = {
    "torchtune", "Llama fine-tunes on one device and eight: active, reserved", owns, map};

}  // namespace steelyard
