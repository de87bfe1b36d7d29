#include "sources/literal_row.h"

namespace steelyard {
namespace {

// A trial that died.
TEST(Hagemann2023, TrialsHaveOutcomesOnly) {
  const LiteralRow row(R"row({"id": "layouts23-13B-s2048-64gpu-trial132173",
        "source": {"title": "Hagemann et al. 2023, Efficient Parallelization Layouts for Large-Scale Distributed Model Training",
        "url_or_repo": "arXiv:2311.05610; github.com/Aleph-Alpha/NeurIPS-WANT-submission-efficient-parallelization-layouts (commit e13c2cb56123)",
        "where": "data/llama_13B_bfloat16_64_GPUs_all_runs.xlsx, trial 132173"},
        "model": {"name": "LLaMA-13B architecture", "params": "13B"},
        "hardware": {"gpu": "NVIDIA A100 80GB (not in the sheets; from the MFU/312 TFLOPs relation)",
        "gpu_memory_gib": 80, "gpus": 64},
        "framework": {"name": "Aleph Alpha training framework (not named in the sheets)"},
        "train": {"seq_len": 2048, "micro_batch": 8, "precision": "bfloat16",
        "attention": "flash_attention2 + RMS kernel", "recompute": "none"},
        "parallel": {"dp": 16, "tp": 2, "pp": 2}, "measured": {"oom": true},
        "derived_by_us": {"global_batch": 2048}})row");
  EXPECT_EQ(row.source(), "hagemann-2023");
  EXPECT_EQ(row.says("model.hidden_size"), "5120");
  EXPECT_EQ(row.says("training.global_batch"), "2048");
  EXPECT_EQ(row.says("training.attention"), R"("flash")");
  EXPECT_EQ(row.says("parallel.zero_stage"), "1");
  EXPECT_EQ(row.says("engine"), R"("scaling")");
  EXPECT_EQ(row.says("training.kernels"), R"("flash-attn")");
  EXPECT_NE(row.mapped().inferred, "");  // its vocabulary and its ZeRO stage
  EXPECT_EQ(row.says("recompute.mode"), R"("none")");
  ASSERT_EQ(row.mapped().readings.size(), 0U);
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(true));
}

}  // namespace
}  // namespace steelyard
