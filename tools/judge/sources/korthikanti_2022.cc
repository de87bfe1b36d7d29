// Korthikanti et al. 2022, Reducing Activation Recomputation (arXiv:2205.05198): Megatron GPT of 22 billion to a trillion parameters
// on A100, with full and with selective recomputation. Tables 3 and 5 are whole runs, which fitted; table 4 times one layer.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

Mapped map(MeasuredRow& row) {
  if (row.says("source.where", "Table 4")) return left_out("times of one layer: not a run");
  MappedRun mapped;
  Shape shape = printed_shape(row);
  shape.tied = true;
  mapped.set("model", gpt_model(shape));
  mapped.set("engine", "megatron");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("train.global_batch"));
  mapped.assume("training.precision", "fp16-mixed", "printed as 16-bit mixed precision");
  mapped.set("training.optimizer", "adam");
  mapped.set("training.attention", "eager");
  mapped.set("training.dropout", Value::number(0.1));
  mapped.set("recompute.mode", row.says("train.recompute", "full")        ? "full"
                               : row.says("train.recompute", "selective") ? "selective"
                                                                          : "none");
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.set("parallel.tensor", row.need("parallel.tp"));
  mapped.set_switch("parallel.sequence_parallel", row.truth("parallel.sp").value_or(false));
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  const std::int64_t chunks = row.count("parallel.vpp").value_or(1);
  mapped.set("parallel.virtual_pipeline", chunks);
  mapped.set("parallel.schedule", chunks > 1 ? "interleaved" : "1f1b");
  scatter_transfers(mapped);
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  if (!mapped.out_of_memory) return left_out("prints neither memory nor that it ran");
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 14) == "korthikanti22-"; }

}  // namespace

constinit const RowSource kKorthikanti2022 = {
    "korthikanti-2022", "Megatron GPT of 22B to 1T on A100: runs that fit", owns, map};

}  // namespace steelyard
