// vTrain's measured multi-node times (VIA-Research/vTrain): Megatron-DeepSpeed on 256 and 512 A100. Times only: each row ran.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

Mapped map(MeasuredRow& row) {
  MappedRun mapped;
  const std::int64_t hidden = row.need("model.hidden");
  mapped.set("model",
             gpt_model({row.need("model.layers"), hidden, row.need("model.heads"), 0,
                        row.need("model.ffn"), 51'200, row.need("train.seq_len"), true, false}));
  mapped.read_as("model.vocab_size 51200",
                 "not printed; the vocabulary of Megatron's papers, whose models these are");
  mapped.assume("engine", "megatron", "Megatron-DeepSpeed; its ZeRO stage is not printed");
  map_cluster(row, mapped);
  mapped.assume("cluster.network", "800 Gb/s",
                "not in the table; inter_node_bandwidth of its configurations");
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("train.global_batch"));
  mapped.assume("training.precision", "fp16-mixed", "not printed");
  mapped.assume("training.optimizer", "adam", "not printed");
  mapped.assume("training.attention", "eager", "not printed; Megatron-LM's own core attention");
  assume_megatron_dropout(mapped);
  mapped.set("recompute.mode", row.says("train.recompute", "full") ? "full" : "none");
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.set("parallel.tensor", row.need("parallel.tp"));
  mapped.assume_switch("parallel.sequence_parallel", false,
                       "not printed; Megatron-DeepSpeed's default");
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  mapped.set("parallel.schedule", "1f1b");
  mapped.set_switch("parallel.scattered_transfers", true);
  mapped.read_as(
      "transfers between stages scattered",
      "both of its engines send a part from each tensor rank (Megatron-LM's "
      "scatter_gather_tensors_in_pipeline, DeepSpeed's pipe_partitioned), on by default");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.origin() == "VIA-Research/vTrain"; }

}  // namespace

constinit const RowSource kVtrain = {
    "vtrain", "Megatron-DeepSpeed on 256 and 512 A100: runs that fit", owns, map, true};

}  // namespace steelyard
