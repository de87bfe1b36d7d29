#include "validate/sources/literal_row.h"

namespace steelyard {
namespace {

// 128k is 128,000 words.
TEST(Yeung2024, ThousandsOfWords) {
  const LiteralRow row(R"row({"id": "vocabpp24-t5-8gpu-s2048-Baseline-v128k",
        "source": {"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table 5 (results), Table 1 (settings), section 6"},
        "model": {"name": "GPT-like ~4B", "layers": 32, "hidden": 3072, "heads": 24,
        "vocab": "128k", "params": "~4B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": 8}, "framework": {"name": "Megatron-LM based"},
        "train": {"seq_len": 2048, "micro_batch": 1, "global_batch": 128, "grad_accum": 128},
        "parallel": {"dp": 1, "tp": 1, "pp": 8, "schedule": "1F1B / Baseline"},
        "measured": {"peak_reported": 19.25, "oom": false, "mfu": 33.11}})row");
  EXPECT_EQ(row.source(), "yeung-2024");
  EXPECT_EQ(row.says("model.vocab_size"), "128000");
  EXPECT_EQ(row.says("model.tie_word_embeddings"), "false");
  EXPECT_EQ(row.says("training.gradient_accumulation"), "128");
  EXPECT_EQ(row.says("types.gradients"), R"("bf16")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{20'669'530'112})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// The head of 128,000 words costs as much as three layers.
TEST(Yeung2024, BalancedStages) {
  const LiteralRow row(R"row({"id": "vocabpp24-t5-8gpu-s2048-Redis-v128k",
        "source": {"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table 5 (results), Table 1 (settings), section 6"},
        "model": {"name": "GPT-like ~4B", "layers": 32, "hidden": 3072, "heads": 24,
        "vocab": "128k", "params": "~4B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": 8}, "framework": {"name": "Megatron-LM based"},
        "train": {"seq_len": 2048, "micro_batch": 1, "global_batch": 128, "grad_accum": 128},
        "parallel": {"dp": 1, "tp": 1, "pp": 8, "schedule": "1F1B / Redis"},
        "measured": {"peak_reported": 19.25, "oom": false, "mfu": 44.22}})row");
  EXPECT_EQ(row.source(), "yeung-2024");
  EXPECT_EQ(row.says("parallel.pipeline_layout"), "[4, 4, 4, 4, 5, 5, 5, 1]");
}

TEST(Yeung2024, TwoChunksOfAV) {
  const LiteralRow row(R"row({"id": "vocabpp24-t6-16gpu-s2048-Baseline-v256k",
        "source": {"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table 6 (results), Table 2 (settings), section 6"},
        "model": {"name": "GPT-like ~7B", "layers": 32, "hidden": 4096, "heads": 32,
        "vocab": "256k", "params": "~7B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": 16}, "framework": {"name": "Megatron-LM based"},
        "train": {"seq_len": 2048, "micro_batch": 1, "global_batch": 128, "grad_accum": 128},
        "parallel": {"dp": 1, "tp": 1, "pp": 16, "vpp": 2, "schedule": "V-Half / Baseline"},
        "measured": {"peak_reported": 46.77, "oom": false, "mfu": 19.99}})row");
  EXPECT_EQ(row.says("parallel.schedule"), R"("v-half")");
  EXPECT_EQ(row.says("parallel.virtual_pipeline"), "2");
  EXPECT_EQ(row.mapped().readings.size(), 1U);
}

}  // namespace
}  // namespace steelyard
