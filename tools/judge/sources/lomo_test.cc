#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Lomo, TableTwoIsMeasured) {
  const LiteralRow row(R"row({"id": "lomo23-t2-7B-AdamW-8gpu",
        "source": {"title": "Lv et al. 2023, Full Parameter Fine-tuning for Large Language Models with Limited Resources (LOMO)",
        "url_or_repo": "arXiv:2306.09782", "where": "Table 2, section 4.2"},
        "model": {"name": "LLaMA-7B", "params": "7B"}, "hardware": {"gpu": "NVIDIA RTX 3090",
        "gpu_memory_gib": 24, "gpus": 8}, "framework": {"name": "PyTorch + DeepSpeed ZeRO-3"},
        "train": {"seq_len": 1024, "micro_batch": 1, "precision": "16-bit mixed precision",
        "optimizer": "AdamW"}, "parallel": {"dp": 8, "zero_stage": 3},
        "measured": {"peak_reported": 15.76, "oom": false, "tokens_per_s_per_gpu": 67.37}})row");
  EXPECT_EQ(row.source(), "lomo-2023");
  EXPECT_EQ(row.says("model"), R"("llama-7b")");
  EXPECT_EQ(row.says("parallel.zero_stage"), "3");
  EXPECT_EQ(row.says("parallel.data"), "8");
  EXPECT_EQ(row.says("training.optimizer"), R"("adamw")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{16'922'171'146})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

TEST(Lomo, TableOneAddsUp) {
  const LiteralRow row(R"row({"id": "lomo23-t1-LOMO-ac1",
        "source": {"title": "Lv et al. 2023, Full Parameter Fine-tuning for Large Language Models with Limited Resources (LOMO)",
        "url_or_repo": "arXiv:2306.09782", "where": "Table 1"}, "model": {"name": "LLaMA-7B",
        "params": "7B"}, "framework": {"name": "PyTorch"}, "train": {"seq_len": 512,
        "micro_batch": 8,
        "precision": "16-bit mixed precision, fp32 master weights/moments in optimizer states (AdamW); LOMO keeps no optimizer state",
        "optimizer": "LOMO", "recompute": "full activation checkpointing"},
        "parallel": {"dp": 1}, "measured": {"peak_reported": 14.58, "oom": false}})row");
  EXPECT_EQ(row.source(), "lomo-2023");
  EXPECT_EQ(row.left_out(), "a sum of components: not a run");
}

}  // namespace
}  // namespace steelyard
