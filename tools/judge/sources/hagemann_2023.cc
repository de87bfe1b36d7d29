// Hagemann et al. 2023, Efficient Parallelization Layouts (arXiv:2311.05610), with the trials that ran out of memory: LLaMA 13B,
// 30B and 65B on 64 to 256 A100, tensor x pipeline x micro-batch x recomputation x attention kernel. Aleph Alpha's own
// framework. Outcomes and speeds, no bytes.
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// The sheets print no vocabulary: their MFU fits 128k words (model FLOPs of the trials).
constexpr std::int64_t kVocabulary = 128'000;

// LLaMA's own sizes (arXiv:2302.13971, table 2; facebookresearch/llama params.json).
std::optional<Shape> shape_of(const std::string& size) {
  if (size == "13B") return Shape{40, 5120, 40, 40, 13'824, kVocabulary};
  if (size == "30B") return Shape{60, 6656, 52, 52, 17'920, kVocabulary};
  if (size == "65B") return Shape{80, 8192, 64, 64, 22'016, kVocabulary};
  return std::nullopt;
}

Mapped map(MeasuredRow& row) {
  std::optional<Shape> shape = shape_of(row.text("model.params"));
  if (!shape) return left_out("a model that is none of LLaMA's sizes");
  MappedRun mapped;
  shape->positions = row.need("train.seq_len");
  mapped.set("model", llama_model(*shape));
  mapped.infer("model.vocab_size 128000", "not printed; the trials' MFU fits a vocabulary of 128k");
  mapped.assume("engine", "scaling",
                "their own framework, published a year later: Aleph-Alpha/scaling");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.global_batch", row.need("derived_by_us.global_batch"));
  mapped.set("training.precision", "bf16-mixed");
  mapped.assume("training.optimizer", "adamw", "not printed");
  mapped.set("training.attention", row.says("train.attention", "flash") ? "flash" : "eager");
  if (row.says("train.attention", "flash_attentionv1.0.8"))
    mapped.set("environment.flash-attn", "1.0.8");
  if (row.says("train.attention", "RMS kernel")) mapped.set("training.kernels", "flash-attn");
  if (row.says("train.attention", "fused")) mapped.set("training.kernels", "megatron");
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.set("parallel.zero_stage", 1);
  mapped.infer("parallel.zero_stage 1",
               "not printed; trials of 240 GB a device at 16 bytes a parameter ran");
  mapped.set("parallel.tensor", row.need("parallel.tp"));
  const std::optional<bool> sequence = row.truth("parallel.sp");
  if (sequence) {
    mapped.set_switch("parallel.sequence_parallel", *sequence);
  } else {
    mapped.assume_switch("parallel.sequence_parallel", false, "these sheets have no column for it");
  }
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  mapped.set("parallel.schedule", "1f1b");
  mapped.set("recompute.mode", row.says("train.recompute", "every") ? "full" : "none");
  if (!row.complete()) return left_out(row.missing());
  mapped.out_of_memory = row.truth("measured.oom");
  map_time(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 10) == "layouts23-"; }

}  // namespace

constinit const RowSource kHagemann2023 = {
    "hagemann-2023", "LLaMA layouts on A100: fit or out of memory", owns, map, true};

}  // namespace steelyard
