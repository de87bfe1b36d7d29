#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Qi2024, TheEndsHaveALayerLess) {
  const LiteralRow row(R"row({"id": "zb24-t8-1.5B-m24-b12-1F1B",
        "source": {"title": "Qi et al., Zero Bubble (Almost) Pipeline Parallelism",
        "url_or_repo": "arXiv:2401.10241 (ICLR 2024 and arXiv versions)", "where": "Table 8"},
        "model": {"name": "GPT-3-like 1.5B", "layers": 22, "hidden": 2304, "heads": 24,
        "params": "1.5B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB", "gpu_memory_gib": 80,
        "gpus": 8}, "framework": {"name": "Megatron-LM (zero-bubble fork)"},
        "train": {"seq_len": 1024, "micro_batch": 12, "global_batch": 288, "grad_accum": 24},
        "parallel": {"dp": 1, "tp": 1, "pp": 8, "schedule": "1F1B"},
        "measured": {"peak_reported": 57, "oom": false}, "derived_by_us": {}})row");
  EXPECT_EQ(row.source(), "qi-2024");
  EXPECT_EQ(row.says("parallel.pipeline_layout"), "[2, 3, 3, 3, 3, 3, 3, 2]");
  EXPECT_EQ(row.says("training.attention"), R"("eager")");
  EXPECT_EQ(row.says("training.micro_batch"), "12");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{57'000'000'000})));
  EXPECT_EQ(row.mapped().readings[0].rounding, Bytes(500'000'000));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

TEST(Qi2024, AutomaticOrdersAreThoseOfTheirLimit) {
  const LiteralRow row(R"row({"id": "zb24-t4-1.5B-m24-ZB-2p",
        "source": {"title": "Qi et al., Zero Bubble (Almost) Pipeline Parallelism",
        "url_or_repo": "arXiv:2401.10241 (ICLR 2024 and arXiv versions)",
        "where": "Table 3, Table 4, Table 5, Table 6 (profiled times)"},
        "model": {"name": "GPT-3-like 1.5B", "layers": 22, "hidden": 2304, "heads": 24,
        "params": "1.5B"}, "hardware": {"gpu": "NVIDIA A100 SXM 80GB", "gpu_memory_gib": 80,
        "gpus": 8}, "framework": {"name": "Megatron-LM (zero-bubble fork)"},
        "train": {"seq_len": 1024, "micro_batch": 6, "global_batch": 144, "grad_accum": 24},
        "parallel": {"dp": 1, "tp": 1, "pp": 8, "schedule": "ZB-2p"},
        "measured": {"peak_reported": 59, "oom": false}, "derived_by_us": {}})row");
  EXPECT_EQ(row.source(), "qi-2024");
  EXPECT_EQ(row.says("parallel.schedule"), R"("zb-h2")");
  EXPECT_EQ(row.says("parallel.pipeline_layout"), "[2, 3, 3, 3, 3, 3, 3, 2]");
}

// One layer in each chunk: the embedding and the head have a chunk of their own.
TEST(Qi2024, EveryLayerIsAChunk) {
  const LiteralRow row(R"row({"id": "zb24-t4-1.5B-m24-1F1B-I",
        "source": {"title": "Qi et al., Zero Bubble (Almost) Pipeline Parallelism",
        "url_or_repo": "arXiv:2401.10241 (ICLR 2024 and arXiv versions)", "where": "Table 4"},
        "model": {"name": "a tenth of 1.5B", "layers": 6, "hidden": 2304, "heads": 24},
        "hardware": {"gpu": "NVIDIA A100 SXM 80GB", "gpu_memory_gib": 80, "gpus": 4},
        "framework": {"name": "Megatron-LM (zero-bubble fork)"},
        "train": {"seq_len": 1024, "micro_batch": 6, "global_batch": 144, "grad_accum": 24},
        "parallel": {"dp": 1, "tp": 1, "pp": 4, "schedule": "1F1B-I"},
        "measured": {"peak_reported": 40, "oom": false}, "derived_by_us": {}})row");
  EXPECT_EQ(row.says("parallel.schedule"), R"("interleaved")");
  EXPECT_EQ(row.says("parallel.virtual_pipeline"), "2");
  EXPECT_EQ(row.says("parallel.pipeline_layout"), "[0, 1, 1, 1, 1, 1, 1, 0]");
}

}  // namespace
}  // namespace steelyard
