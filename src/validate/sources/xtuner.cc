// XTuner's documentation: Qwen3 235B on 256 H800 under Megatron-LM, by twelve layouts (megatron_moe_benchmark.md). Tokens are
// spread evenly by force. Its comparisons of fine-tunes print neither micro-batch nor what is computed again.
#include "validate/sources/published.h"
#include "validate/sources/sources.h"

namespace steelyard {
namespace {

constexpr std::int64_t kLayers = 94;

// "selective moe_act layernorm": the modules of --recompute-modules.
bool map_recompute(const MeasuredRow& row, MappedRun& mapped) {
  const std::string again = row.text("train.recompute");
  if (again.empty() || again == "full") {
    mapped.set("recompute.mode", again.empty() ? "none" : "full");
    return true;
  }
  const bool activation = again == "selective moe_act layernorm";
  if (!activation && again != "selective moe layernorm") return false;
  mapped.set("recompute.mode", "modules");
  mapped.set("recompute.modules",
             Value::array({Value::string(activation ? "expert_activation" : "experts"),
                           Value::string("norms")}));
  return true;
}

Mapped map(MeasuredRow& row) {
  if (!row.says("model.name", "Qwen3-235B"))
    return left_out("prints no train.micro_batch, no train.recompute");
  MappedRun mapped;
  mapped.set("model", "qwen3-235b-a22b");
  mapped.set("engine", "megatron");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("train.global_batch"));
  mapped.assume("training.precision", "bf16-mixed", "not printed; its TFLOP/s are held to bf16");
  mapped.assume("training.optimizer", "adamw", "not printed");
  if (!map_recompute(row, mapped)) row.miss("train.recompute that we know");
  mapped.set("parallel.zero_stage", 1);
  mapped.set("parallel.tensor", row.count("parallel.tp").value_or(1));
  mapped.set_switch("parallel.sequence_parallel", row.truth("parallel.sp").value_or(false));
  const std::int64_t stages = row.need("parallel.pp");
  const std::int64_t chunks = row.count("parallel.vpp").value_or(1);
  mapped.set("parallel.expert", row.need("parallel.ep"));
  mapped.assume("parallel.expert_tensor", 1, "not printed; Megatron's advice for experts");
  const bool deep = row.says("source.table", "deepep");
  mapped.set("experts.dispatcher", deep ? "flex" : "all-to-all");
  const bool overlaps = row.says("source.table", "overlap");
  mapped.set_switch("overlap.reduce", overlaps);
  mapped.set_switch("overlap.gather", overlaps);
  if (row.says("source.table", "tp overlap")) mapped.set_switch("overlap.tensor", true);
  if (!map_stages(kLayers, stages, chunks, mapped))
    return left_out("its layers of each stage are not printed");
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.origin() == "InternLM/xtuner"; }

}  // namespace

constinit const RowSource kXtuner = {
    "xtuner", "Qwen3 235B on H800 under Megatron-LM, twelve layouts: speeds", owns, map};

}  // namespace steelyard
