// XTuner's documentation. Qwen3 235B on 256 H800 under Megatron-LM, by twelve layouts (megatron_moe_benchmark.md): tokens are
// spread evenly by force. And whole fine-tunes under ZeRO-3 on A100, by length, its own beside LLaMA-Factory's (benchmark.md;
// configs/llama/llama3_8b/README.md): what the tables leave out stands in its configs.
#include "sources/published.h"
#include "sources/sources.h"

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

std::optional<Shape> shape_of(const MeasuredRow& row) {
  const std::string name = row.text("model.name");
  if (name == "Llama2-7B") return Shape{32, 4096, 32, 32, 11'008, 32'000, 4096};
  if (name == "Llama2-70B") return Shape{80, 8192, 64, 8, 28'672, 32'000, 4096};
  if (name == "Llama3 8B") return Shape{32, 4096, 32, 8, 14'336, 128'256, 8192};
  if (name == "Yi-34B-200K") return Shape{60, 7168, 56, 8, 20'480, 64'000, 200'000};
  return std::nullopt;
}

Mapped map_fine_tune(MeasuredRow& row) {
  const auto shape = shape_of(row);
  if (!shape) return left_out("a model that is none of its comparisons");
  const bool own = row.says("framework.name", "XTuner");
  MappedRun mapped;
  mapped.set("model", llama_model(*shape));
  mapped.set("engine", "deepspeed");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.assume("training.micro_batch", 1, "not printed; batch_size of its configs");
  const std::int64_t parts = row.count("parallel.sp").value_or(1);
  mapped.assume("training.gradient_accumulation", parts,
                "not printed; its configs' accumulative_counts are the parts of a sequence");
  mapped.assume("training.precision", "bf16-mixed", "not printed; 16 bits either way");
  mapped.assume("training.optimizer", "adamw", "optim_type of its configs");
  mapped.assume("training.attention", "flash",
                "not printed; written out, scores of 32k tokens would be larger than the device");
  mapped.assume("environment.transformers", "4.38", "of March 2024, when the table was made");
  mapped.assume("recompute.mode", "full",
                own ? "use_activation_checkpointing of SupervisedFinetune is on unless said"
                    : "not printed; LLaMA-Factory's default");
  mapped.assume("parallel.zero_stage", 3, "printed for Llama 3 alone");
  mapped.set("parallel.data", row.need("hardware.gpus") / parts);
  if (parts > 1) {
    mapped.set("parallel.context", parts);
    mapped.assume("parallel.context_method", "ulysses", "xtuner/parallel/sequence");
  }
  if (own) {
    mapped.assume_switch("overlap.reduce", true, "its own deepspeed_zero3.json");
    mapped.set("buckets.reduce", 300'000'000);
  }
  if (!row.complete()) return left_out(row.missing());
  map_outcome(row, mapped);
  if (own && row.says("train.packing", "packed"))
    mapped.read_as("no step time", "attends within documents, whose lengths are not printed");
  else
    map_time(row, mapped);
  return mapped;
}

Mapped map(MeasuredRow& row) {
  if (!row.says("model.name", "Qwen3-235B")) return map_fine_tune(row);
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
    "xtuner", "Qwen3 235B on H800 under Megatron-LM, fine-tunes by length on A100: speeds", owns,
    map};

}  // namespace steelyard
