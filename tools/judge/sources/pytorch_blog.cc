// PyTorch's blog on FSDP throughput, and the README of the code that it ran, fms-fsdp: Llama 2 on A100 and H100, the one
// eager, the other compiled. Speeds: each row ran.
#include <array>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

struct Name {
  std::string_view size, preset;
};
constexpr std::array kPresets = {Name{"7B", "llama-2-7b"}, Name{"13B", "llama-2-13b"},
                                 Name{"34B", "codellama-34b"}, Name{"70B", "llama-2-70b"},
                                 Name{"Llama2 7b", "llama-2-7b"}};
constexpr std::int64_t kMachine = 8;

Mapped map(MeasuredRow& row) {
  const std::string recompute = row.text("train.recompute");
  if (recompute != "none" && recompute != "every block")
    return left_out("recomputes every n-th block, and n is not printed");
  MappedRun mapped;
  for (const Name& name : kPresets)
    if (row.text("model.params") == name.size || row.text("model.name") == name.size)
      mapped.set("model", name.preset);
  if (mapped.run.find("model") == nullptr) row.miss("model.params");
  map_cluster(row, mapped);
  mapped.set("engine", "fsdp1");
  if (row.says("parallel.fsdp_zero_stage", "HSDP"))  // shards within a machine
    mapped.set("parallel.replicate", row.need("hardware.gpus") / kMachine);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", 1);
  mapped.set("training.precision", "bf16-mixed");
  mapped.set("training.optimizer", "adamw");
  mapped.set("training.attention", "flash");
  if (row.truth("train.compile").value_or(false)) mapped.set_switch("training.compile", true);
  mapped.set("recompute.mode", recompute == "none" ? "none" : "full");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) {
  return row.says("source.url_or_repo", "pytorch.org/blog/maximizing-training");
}
bool owns_readme(const MeasuredRow& row) {
  return row.origin() == "foundation-model-stack/fms-fsdp";
}

}  // namespace

constinit const RowSource kPytorchBlog = {
    "pytorch-blog", "Llama 2 under FSDP on A100 and H100: runs that fit", owns, map};
constinit const RowSource kFmsFsdp = {"fms-fsdp", "the same code, compiled: speeds", owns_readme,
                                      map};

}  // namespace steelyard
