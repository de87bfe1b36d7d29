// Lv et al. 2023, LOMO (arXiv:2306.09782): LLaMA under DeepSpeed ZeRO-3 on RTX 3090. Table 2 prints the peak that was allocated on
// a GPU, section 4.2 what ran out of memory; table 1 adds up components of one replica and is no run.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

Mapped map_as(MeasuredRow& row, const char* recompute) {
  if (row.text("source.where") == "Table 1") return left_out("a sum of components: not a run");
  MappedRun mapped;
  const std::string size = row.text("model.params");
  if (size == "7B" || size == "13B" || size == "65B") {
    mapped.set("model", "llama-" + std::string(size == "7B"    ? "7b"
                                               : size == "13B" ? "13b"
                                                               : "65b"));
  } else if (size == "30B") {
    mapped.set("model", "llama-33b");
  } else {
    row.miss("model.params");
  }
  map_cluster(row, mapped);
  const auto stage = row.count("parallel.zero_stage");
  mapped.set("engine", stage ? "deepspeed" : "ddp");
  if (stage) mapped.set("parallel.zero_stage", *stage);
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", 1);
  mapped.set("training.precision",
             row.says("train.optimizer", "LOMO") ? "bf16-pure" : "fp16-mixed");
  mapped.set("training.optimizer", row.says("train.optimizer", "LOMO")  ? "lomo"
                                   : row.says("train.optimizer", "SGD") ? "sgd"
                                                                        : "adamw");
  mapped.set("recompute.mode", recompute);
  mapped.infer(std::string("recompute.mode ") + recompute,
               "not printed; table 1 needs 11 GB for these activations, and the rows leave 1 GB "
               "beside the weights");
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_reported")) {
    mapped.readings.push_back({Meter::kAllocated, *bytes});
    mapped.read_as("GB as GiB", "table 1's weights are 2 bytes a parameter in GiB");
  }
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

Mapped map(MeasuredRow& row) { return map_as(row, "full"); }
Mapped map_kept(MeasuredRow& row) { return map_as(row, "none"); }

bool owns(const MeasuredRow& row) { return row.id().substr(0, 7) == "lomo23-"; }

}  // namespace

constinit const RowSource kLomo = {
    "lomo-2023", "LLaMA under ZeRO-3 on RTX 3090: allocated, out of memory", owns, map};
constinit const RowSource kLomoKept = {
    "lomo-2023-kept", "the rows of lomo-2023, without recomputation", owns, map_kept};

}  // namespace steelyard
