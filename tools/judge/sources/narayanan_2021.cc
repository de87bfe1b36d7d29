// Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters (arXiv:2104.04473): Megatron-LM up to a trillion
// parameters, beside ZeRO-3 of DeepSpeed. Speeds; table 2 says what fitted.
#include <optional>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// The seconds behind a printed rate: the paper's equation (3) counts the FLOPs of an iteration, with the second forward.
std::optional<double> seconds_of_rate(const MeasuredRow& row, const Shape& shape) {
  const auto rate = row.number("measured.tflops_per_gpu");
  const auto batch = row.count("train.global_batch"), devices = row.count("hardware.gpus"),
             sequence = row.count("train.seq_len");
  if (!rate || *rate <= 0 || !batch || !devices || *devices < 1 || !sequence) return std::nullopt;
  const auto h = static_cast<double>(shape.hidden), l = static_cast<double>(shape.layers),
             s = static_cast<double>(*sequence), v = static_cast<double>(shape.vocabulary);
  const double flops =
      96 * static_cast<double>(*batch) * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return flops / (*rate * 1e12 * static_cast<double>(*devices));
}

Mapped map(MeasuredRow& row) {
  if (row.says("source.where", "Table 1")) return left_out("prints no train.micro_batch");
  const bool zero3 = row.count("parallel.zero_stage").value_or(0) == 3;
  if (!zero3 && row.says("parallel.schedule", "interleaved"))
    return left_out("interleaved, and its chunks of layers are not printed");
  MappedRun mapped;
  Shape shape = printed_shape(row);
  shape.tied = true;
  mapped.set("model", gpt_model(shape));
  mapped.set("engine", zero3 ? "deepspeed" : "megatron");
  if (zero3) mapped.set("implementation", "megatron");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  if (const auto batch = row.count("train.global_batch")) {
    mapped.set("training.global_batch", *batch);
  } else {
    mapped.set("training.gradient_accumulation", 1);
  }
  mapped.set("training.precision", "fp16-mixed");
  mapped.assume("training.optimizer", "adam", "not printed");
  mapped.set("training.attention", "eager");
  assume_megatron_dropout(mapped);
  mapped.assume("recompute.mode", "full", "the paper's FLOPs count the second forward");
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.set("parallel.tensor", row.count("parallel.tp").value_or(1));
  mapped.set_switch("parallel.sequence_parallel", false);
  mapped.set("parallel.pipeline", row.count("parallel.pp").value_or(1));
  if (zero3) mapped.set("parallel.zero_stage", 3);
  mapped.set("parallel.schedule", "1f1b");
  if (!zero3) mapped.set_switch("parallel.scattered_transfers", true);
  mapped.read_as("transfers between stages scattered",
                 "Megatron-LM of those years sends a part from each tensor rank "
                 "(scatter_gather_tensors_in_pipeline, on by default)");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  if (!mapped.step_seconds && !mapped.tokens_per_second) {
    mapped.step_seconds = seconds_of_rate(row, shape);
    mapped.read_as("seconds of a step", "the printed TFLOP/s by the paper's equation (3)");
  }
  mapped.timed_apart = zero3 ? "ZeRO-3" : "tensor and pipeline";
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 7) == "ptdp21-"; }

}  // namespace

constinit const RowSource kNarayanan2021 = {
    "narayanan-2021", "Megatron-LM and ZeRO-3 on A100: runs that fit", owns, map};

}  // namespace steelyard
