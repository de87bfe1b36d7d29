#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Korthikanti2022, RunsFitted) {
  const LiteralRow row(R"row({"id": "korthikanti22-t5-22B-full_recompute",
        "source": {"title": "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models",
        "url_or_repo": "arXiv:2205.05198",
        "where": "Table 3 (configs), Table 5 (iteration time), section 6"},
        "model": {"name": "GPT 22B", "layers": 48, "hidden": 6144, "heads": 64, "vocab": 51200,
        "params": "22B"}, "hardware": {"gpu": "NVIDIA A100 80GB (Selene, DGX A100)",
        "gpu_memory_gib": 80, "gpus": 8}, "framework": {"name": "Megatron-LM (NVIDIA)"},
        "train": {"seq_len": 2048, "micro_batch": 4, "global_batch": 4,
        "precision": "mixed precision (16-bit)",
        "attention": "unfused QK^T/softmax/dropout/V (no flash attention; paper predates)",
        "recompute": "full (every transformer layer)"}, "parallel": {"dp": 1, "tp": 8,
        "sp": false, "pp": 1}, "measured": {"oom": false, "step_time_s": 1.42}})row");
  EXPECT_EQ(row.source(), "korthikanti-2022");
  EXPECT_EQ(row.says("training.global_batch"), "4");
  EXPECT_EQ(row.says("parallel.tensor"), "8");
  EXPECT_EQ(row.says("parallel.sequence_parallel"), "false");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  EXPECT_EQ(row.says("training.dropout"), "0.1");
  ASSERT_EQ(row.mapped().readings.size(), 0U);
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

TEST(Korthikanti2022, OneLayerIsNoRun) {
  const LiteralRow row(R"row({"id": "korthikanti22-t4-22B-layer-baseline-no-recompute",
        "source": {"title": "Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models",
        "url_or_repo": "arXiv:2205.05198",
        "where": "Table 4 (one transformer layer of the 22B model)"},
        "model": {"name": "GPT 22B (one layer)", "layers": 1, "hidden": 6144, "heads": 64,
        "vocab": 51200}, "hardware": {"gpu": "NVIDIA A100 80GB (Selene, DGX A100)",
        "gpu_memory_gib": 80, "gpus": 8}, "framework": {"name": "Megatron-LM (NVIDIA)"},
        "train": {"seq_len": 2048, "micro_batch": 4, "precision": "mixed precision (16-bit)",
        "recompute": "none"}, "parallel": {"dp": 1, "tp": 8, "sp": false, "pp": 1},
        "measured": {}})row");
  EXPECT_EQ(row.source(), "korthikanti-2022");
  EXPECT_EQ(row.left_out(), "times of one layer: not a run");
}

}  // namespace
}  // namespace steelyard
