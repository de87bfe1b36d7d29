#include "sources/literal_row.h"

namespace steelyard {
namespace {

// The ladder of optimization flags, second rung.
TEST(Torchtune, TheLadderOfFlags) {
  const LiteralRow row(R"row({"id": "torchtune-3b-opt-1", "source": {"repo": "pytorch/torchtune",
        "path": "README.md", "table": "Optimization flags: + Packed Dataset"},
        "model": {"name": "Llama 3.2 3B"}, "hardware": {"gpu": "A100", "gpus": 1},
        "framework": {"name": "torchtune"}, "train": {"mode": "full finetune", "seq_len": 4096,
        "micro_batch": 2, "grad_accum": 1, "precision": "bf16", "optimizer": "AdamW",
        "compile": false, "recompute": "none", "packing": "packed"}, "parallel": {"dp": 1},
        "measured": {"peak_reported_gib": 60.0, "oom": false, "tokens_per_s_per_gpu": 7075,
        "peak_active_gib": 60.0}})row");
  EXPECT_EQ(row.source(), "torchtune");
  EXPECT_EQ(row.says("model"), R"("llama-3.2-3b")");
  EXPECT_EQ(row.says("implementation"), R"("torchtune")");
  EXPECT_EQ(row.says("training.sequence_length"), "4096");
  EXPECT_EQ(row.says("training.optimizer"), R"("adamw")");
  EXPECT_EQ(row.says("recompute.mode"), R"("none")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{64'424'509'440})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// Not packed: how long its samples are, nobody printed.
TEST(Torchtune, UnpackedRowsAreLeftOut) {
  const LiteralRow row(R"row({"id": "torchtune-3b-opt-0", "source": {"repo": "pytorch/torchtune",
        "path": "README.md", "table": "Optimization flags: Baseline"},
        "model": {"name": "Llama 3.2 3B"}, "hardware": {"gpu": "A100", "gpus": 1},
        "framework": {"name": "torchtune"}, "train": {"mode": "full finetune", "seq_len": 4096,
        "micro_batch": 2, "grad_accum": 1, "precision": "bf16", "optimizer": "AdamW",
        "compile": false, "recompute": "none", "packing": "none"}, "parallel": {"dp": 1},
        "measured": {"peak_reported_gib": 25.5, "oom": false, "tokens_per_s_per_gpu": 2091,
        "peak_active_gib": 25.5}})row");
  EXPECT_EQ(row.source(), "torchtune");
  EXPECT_EQ(row.left_out(), "not packed, and the lengths of its samples are not printed");
}

}  // namespace
}  // namespace steelyard
