// Zhao et al. 2023, PyTorch FSDP (arXiv:2304.11277), section 5.4: minGPT-175B on 128 to 512 A100 fitted with one sequence a device.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// Fitted on 128 to 512 devices, and printed as one row: which of them a batch stands for.
enum class Fewest : std::uint8_t { kByBatch, kAlways };

Mapped map_as(MeasuredRow& row, Fewest fewest) {
  if (!row.says("model.name", "minGPT"))
    return left_out("a model that no preset of ours is: " + row.text("model.name"));
  if (row.text("hardware.gpus") != "128-512") row.miss("hardware.gpus");
  MappedRun mapped;
  // GPT-3's sizes with the vocabulary that the paper prints.
  mapped.set("model", gpt_model({96, 12'288, 96, 0, 49'152, row.need("model.vocab"),
                                 row.need("train.seq_len"), false, false}));
  mapped.set("engine", "fsdp1");
  mapped.set("cluster.device", "a100-sxm-80gb");
  const std::int64_t batch = row.need("train.micro_batch");
  const std::int64_t devices = batch == 1 || fewest == Fewest::kAlways ? 128 : 512;
  mapped.set("cluster.devices", devices);
  mapped.infer(devices == 128 ? "cluster.devices 128" : "cluster.devices 512",
               batch == 1 ? "the smallest of 128 to 512, all of which ran"
                          : "one of 128 to 512: with 128 the allocator used up the device");
  mapped.set("cluster.devices_per_node", 8);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", batch);
  mapped.set("training.gradient_accumulation", 1);
  mapped.set("training.precision", "bf16-mixed");
  mapped.set("training.optimizer", "adam");
  mapped.assume("training.attention", "eager", "minGPT's own attention");
  mapped.set("training.dropout", Value::number(0.1));
  mapped.set("recompute.mode", "full");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  return mapped;
}

Mapped map(MeasuredRow& row) { return map_as(row, Fewest::kByBatch); }
Mapped map_fewest(MeasuredRow& row) { return map_as(row, Fewest::kAlways); }

bool owns(const MeasuredRow& row) { return row.id().substr(0, 7) == "fsdp23-"; }

}  // namespace

constinit const RowSource kZhao2023 = {"zhao-2023", "minGPT-175B under FSDP on A100: runs that fit",
                                       owns, map};
constinit const RowSource kZhao2023Fewest = {
    "zhao-2023-128", "the rows of zhao-2023, all on 128 devices", owns, map_fewest};

}  // namespace steelyard
