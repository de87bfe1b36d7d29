#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(MegatronBridge, NotesOnMemory) {
  const LiteralRow row(
      R"row({"id": "mbridge-llama3-70b-sft-rc-1", "source": {"repo": "NVIDIA-NeMo/Megatron-Bridge",
        "path": "skills/nemo-mbridge-perf-activation-recompute/SKILL.md",
        "table": "Historical measurement PR 3107"}, "model": {"name": "Llama 3 70B"},
        "hardware": {"gpu": "H100 80GB", "gpu_memory_gib": 80, "gpus": 32},
        "framework": {"name": "Megatron-Bridge / Megatron-Core"}, "train": {"mode": "SFT",
        "seq_len": 4096, "micro_batch": 1, "global_batch": 32,
        "precision": "FP8 current scaling", "recompute": "selective mlp"}, "parallel": {"dp": 2,
        "tp": 4, "pp": 4, "vpp": 5}, "measured": {"peak_allocated_gib": 51.782,
        "peak_reported_gib": 51.782, "oom": false, "tflops_per_gpu": 593.6}})row");
  EXPECT_EQ(row.source(), "megatron-bridge");
  EXPECT_EQ(row.says("model"), R"("llama-3-70b")");
  EXPECT_EQ(row.says("parallel.virtual_pipeline"), "5");
  EXPECT_EQ(row.says("recompute.modules"), R"(["mlp"])");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{55'600'499'130})));
  EXPECT_EQ(row.mapped().stage, std::optional<std::int64_t>(3));
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
