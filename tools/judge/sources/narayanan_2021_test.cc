#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Narayanan2021, ZeroThreeBesideMegatron) {
  const LiteralRow row(R"row({"id": "ptdp21-t2-zero3-174.6B-1536gpu",
        "source": {"title": "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (PTD-P)",
        "url_or_repo": "arXiv:2104.04473", "where": "Table 2"}, "model": {"name": "GPT-3 175B",
        "layers": 96, "hidden": 12288, "heads": 96, "vocab": 51200, "params": "174.6B"},
        "hardware": {"gpu": "NVIDIA A100 80GB (Selene, DGX A100)", "gpu_memory_gib": 80,
        "gpus": 1536}, "framework": {"name": "Megatron-LM + DeepSpeed ZeRO-3"},
        "train": {"seq_len": 2048, "micro_batch": 1, "global_batch": 1536,
        "precision": "mixed precision (16-bit)"}, "parallel": {"dp": 1536, "zero_stage": 3,
        "tp": 1, "pp": 1}, "measured": {"oom": false, "tflops_per_gpu": 44}})row");
  EXPECT_EQ(row.source(), "narayanan-2021");
  EXPECT_EQ(row.says("engine"), R"("deepspeed")");
  EXPECT_EQ(row.says("parallel.zero_stage"), "3");
  EXPECT_EQ(row.says("training.micro_batch"), "1");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  ASSERT_EQ(row.mapped().readings.size(), 0U);
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

TEST(Narayanan2021, TableOnePrintsNoMicroBatch) {
  const LiteralRow row(R"row({"id": "ptdp21-t1-1.7B",
        "source": {"title": "Narayanan et al. 2021, Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM (PTD-P)",
        "url_or_repo": "arXiv:2104.04473", "where": "Table 1; equations (2),(3)"},
        "model": {"name": "GPT 1.7B", "layers": 24, "hidden": 2304, "heads": 24, "vocab": 51200,
        "params": "1.7B"}, "hardware": {"gpu": "NVIDIA A100 80GB (Selene, DGX A100)",
        "gpu_memory_gib": 80, "gpus": 32}, "framework": {"name": "Megatron-LM"},
        "train": {"seq_len": 2048, "global_batch": 512, "precision": "mixed precision (16-bit)",
        "recompute": "full (FLOP formula assumes the extra forward pass)"},
        "parallel": {"dp": 32, "tp": 1, "pp": 1}, "measured": {"tflops_per_gpu": 137},
        "derived_by_us": {}})row");
  EXPECT_EQ(row.source(), "narayanan-2021");
  EXPECT_EQ(row.left_out(), "prints no train.micro_batch");
}

}  // namespace
}  // namespace steelyard
