// BigScience's logs and notebooks on the way to BLOOM: Megatron-LM with and without DeepSpeed on V100 and A100.
//
//   logs (.out)      every argument is in the log; allocated and reserved of a stage, after some iterations
//   tables (.md)     whole GB of the device, as nvidia-smi shows it, of the first or last nodes
#include <fmt/format.h>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// Of the tr11 tables: "250k dict"; the final model's, which is padded further by Megatron.
constexpr std::int64_t kBloomVocabulary = 250'680;

bool is_log(const MeasuredRow& row) { return row.id().substr(0, 15) == "bigscience-log-"; }
bool is_bloom_search(const MeasuredRow& row) {
  return row.says("source.path", "tr11-176B-ml/chronicles-prequel");
}

// "bigscience-log-...-stage12"
std::optional<std::int64_t> stage_of(const std::string& id) {
  const std::size_t at = id.rfind("-stage");
  if (at == std::string::npos || id.size() - at > 12) return std::nullopt;
  std::int64_t stage = 0;
  for (const char digit : id.substr(at + 6)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    stage = stage * 10 + (digit - '0');
  }
  return stage;
}

void map_model(MeasuredRow& row, MappedRun& mapped) {
  Shape shape;
  if (is_bloom_search(row) || row.says("source.path", "tr3m-1B3")) {
    shape.layers = row.need("model.layers");
    shape.hidden = row.need("model.hidden");
    shape.heads = row.need("model.heads");
    shape.feed_forward = row.need("model.ffn");
    shape.positions = row.need("train.seq_len");
    shape.vocabulary = is_bloom_search(row) ? kBloomVocabulary : 50'257;
    mapped.read_as(fmt::format("model.vocab_size {}", shape.vocabulary),
                   is_bloom_search(row)
                       ? "the notebook says 250k; this is the tokenizer of the final model"
                       : "GPT-2's tokenizer, by the run's script");
  } else {
    shape = printed_shape(row);
  }
  shape.tied = true;
  mapped.set("model", gpt_model(shape));
}

void map_recipe(MeasuredRow& row, MappedRun& mapped) {
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("train.global_batch"));
  mapped.set("training.precision", row.says("train.precision", "fp32 gradient accumulation")
                                       ? "bf16-mixed-fp32-gradients"
                                   : row.says("train.precision", "bf16") ? "bf16-mixed"
                                                                         : "fp16-mixed");
  mapped.set("training.optimizer", row.says("train.optimizer", "8-bit") ? "adamw-8bit" : "adam");
  mapped.assume("training.attention", "eager", "Megatron-LM of 2021 and 2022 has no other");
  assume_megatron_dropout(mapped);
  mapped.set("recompute.mode", row.says("train.recompute", "full") ? "full" : "none");
  if (row.says("train.offload", "full CPU offload")) {
    mapped.set("offload.optimizer", "cpu");
    mapped.set("offload.parameters", "cpu");
  } else if (row.says("train.offload", "optimizer=Y")) {
    mapped.set("offload.optimizer", "cpu");
  }
}

void map_readings(MeasuredRow& row, MappedRun& mapped) {
  const auto read = [&](Meter meter, const char* path, Step step = Step::kLater) {
    if (const auto bytes = row.gib(path)) mapped.readings.push_back({meter, *bytes, step, {}});
  };
  if (is_log(row)) {
    mapped.stage = stage_of(row.id());
    if (!mapped.stage) row.miss("stage in its id");
    read(Meter::kAllocated, "measured.peak_allocated_gib");
    if (!mapped.readings.empty() && row.says("framework.name", "DeepSpeed") &&
        row.says("train.precision", "fp16")) {
      mapped.readings.back().phase = Phase::kBackward;
      mapped.read_as(
          "allocated, later backward",
          "read after one iteration, whose step overflows at DeepSpeed's first loss scale of 2^32 "
          "and is "
          "skipped; the log counts no skipped steps under DeepSpeed (training.py, train_step)");
    }
    read(Meter::kReserved, "measured.peak_reserved_gib");
    read(Meter::kResident, "measured.allocated_after_step_gib");
    read(Meter::kReserved, "measured.first_iteration_reserved_gib", Step::kFirst);
  } else if (row.gib("measured.peak_reported_gib")) {
    read(Meter::kDevice, "measured.peak_reported_gib");
    mapped.read_as("device", "whole GB as nvidia-smi shows them, taken as GiB");
  }
}

Mapped map(MeasuredRow& row) {
  if (row.says("source.path", "tr8-104B"))
    return left_out("the file says that its feed-forward width was wrong, not which it was");
  if (row.says("framework.name", "HF Trainer"))
    return left_out("HF Trainer with Megatron's shape: its model code is not named");
  MappedRun mapped;
  map_model(row, mapped);
  const bool deepspeed = row.says("framework.name", "DeepSpeed");
  mapped.set("engine", deepspeed ? "deepspeed" : "megatron");
  if (deepspeed) {
    mapped.set("implementation", "megatron");
  } else {
    mapped.set_switch("buckets.contiguous_gradients", false);
    mapped.set("environment.megatron-core", "0.0");
    mapped.read_as("gradients without contiguous buffers",
                   "the default of Megatron-LM until late in 2021");
    scatter_transfers(mapped);
  }
  map_cluster(row, mapped, is_bloom_search(row) ? 8 : 4);
  mapped.assume(
      "cluster.network", "400 Gb/s",
      is_bloom_search(row)
          ? "four Omni-Path links a node (train/tr11-176B-ml/README.md), of 100 Gb/s each"
          : "four Omni-Path links of 100 Gb/s a node with V100 (idris.fr, Jean Zay: hardware)");
  map_recipe(row, mapped);
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.set("parallel.zero_stage", row.count("parallel.fsdp_zero_stage").value_or(0));
  mapped.set("parallel.tensor", row.need("parallel.tp"));
  mapped.set_switch("parallel.sequence_parallel", false);
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  mapped.set("parallel.schedule", "1f1b");
  map_readings(row, mapped);
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.origin() == "bigscience-workshop/bigscience"; }

}  // namespace

constinit const RowSource kBigscience = {
    "bigscience",
    "Megatron-LM and Megatron-DeepSpeed on V100 and A100: allocated, reserved, device", owns, map};

}  // namespace steelyard
