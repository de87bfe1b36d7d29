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

TEST(Yeung2024, TwoExchanges) {
  const LiteralRow row(R"row({"id": "vocabpp24-t5-8gpu-s4096-Vocab-1-v256k",
        "source": {"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table 5 (results), Table 1 (settings), section 6"},
        "model": {"name": "GPT-like ~4B", "layers": 32, "hidden": 3072, "heads": 24,
        "vocab": "256k", "params": "~4B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": 8}, "framework": {"name": "Megatron-LM based"},
        "train": {"seq_len": 4096, "micro_batch": 1, "global_batch": 128, "grad_accum": 128},
        "parallel": {"dp": 1, "tp": 1, "pp": 8, "schedule": "1F1B / Vocab-1"},
        "measured": {"peak_reported": 27.34, "oom": false, "mfu": 50.66}})row");
  EXPECT_EQ(row.says("parallel.schedule"), R"("1f1b")");
  EXPECT_EQ(row.says("parallel.vocabulary"), R"("vocabulary-1")");
  EXPECT_EQ(row.mapped().readings.size(), 1U);
}

TEST(Yeung2024, OneExchange) {
  const LiteralRow row(R"row({"id": "vocabpp24-t5-16gpu-s2048-Vocab-2-v64k",
        "source": {"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table 5 (results), Table 1 (settings), section 6"},
        "model": {"name": "GPT-like ~10B", "layers": 48, "hidden": 4096, "heads": 32,
        "vocab": "64k", "params": "~10B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": 16}, "framework": {"name": "Megatron-LM based"},
        "train": {"seq_len": 2048, "micro_batch": 1, "global_batch": 128, "grad_accum": 128},
        "parallel": {"dp": 1, "tp": 1, "pp": 16, "schedule": "1F1B / Vocab-2"},
        "measured": {"peak_reported": 23.83, "oom": false, "mfu": 50.49}})row");
  EXPECT_EQ(row.says("parallel.vocabulary"), R"("vocabulary-2")");
}

TEST(Yeung2024, Interlaced) {
  const LiteralRow row(R"row({"id": "vocabpp24-t5-8gpu-s2048-Interlaced-v128k",
        "source": {"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table 5 (results), Table 1 (settings), section 6"},
        "model": {"name": "GPT-like ~4B", "layers": 32, "hidden": 3072, "heads": 24,
        "vocab": "128k", "params": "~4B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": 8}, "framework": {"name": "Megatron-LM based"},
        "train": {"seq_len": 2048, "micro_batch": 1, "global_batch": 128, "grad_accum": 128},
        "parallel": {"dp": 1, "tp": 1, "pp": 8, "schedule": "1F1B / Interlaced"},
        "measured": {"peak_reported": 18.43, "oom": false, "mfu": 50.97}})row");
  EXPECT_EQ(row.says("parallel.schedule"), R"("1f1b")");
  EXPECT_EQ(row.says("parallel.vocabulary"), R"("interlaced")");
}

TEST(Yeung2024, TwoExchangesOverAV) {
  const LiteralRow row(R"row({"id": "vocabpp24-t6-24gpu-s2048-Vocab-1-v32k",
        "source": {"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table 6 (results), Table 2 (settings), section 6"},
        "model": {"name": "GPT-like ~16B", "layers": 48, "hidden": 5120, "heads": 40,
        "vocab": "32k", "params": "~16B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": 24}, "framework": {"name": "Megatron-LM based"},
        "train": {"seq_len": 2048, "micro_batch": 1, "global_batch": 128, "grad_accum": 128},
        "parallel": {"dp": 1, "tp": 1, "pp": 24, "vpp": 2, "schedule": "V-Half / Vocab-1"},
        "measured": {"peak_reported": 21.08, "oom": false, "mfu": 56.7}})row");
  EXPECT_EQ(row.says("parallel.schedule"), R"("v-half")");
  EXPECT_EQ(row.says("parallel.vocabulary"), R"("vocabulary-1")");
  EXPECT_EQ(row.says("parallel.virtual_pipeline"), "2");
}

}  // namespace
}  // namespace steelyard
