#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Vtrain, ARunWithATimeRan) {
  const LiteralRow row(R"row({"id": "vtrain-multi-26", "source": {"repo": "VIA-Research/vTrain",
        "path": "data/ground_truth_multi.csv"}, "model": {"name": "GPT (Megatron-DeepSpeed)",
        "params": "18.4B", "hidden": 6144, "heads": 48, "layers": 40, "ffn": 24576},
        "hardware": {"gpu": "A100 80GB", "gpus": 256},
        "framework": {"name": "Megatron-DeepSpeed"}, "train": {"seq_len": 2048,
        "micro_batch": 8, "global_batch": 1024, "recompute": "full"}, "parallel": {"tp": 8,
        "dp": 32, "pp": 1, "schedule": "1f1b"}, "measured": {"step_time_s": 9.6036}})row");
  EXPECT_EQ(row.source(), "vtrain");
  EXPECT_EQ(row.says("parallel.tensor"), "8");
  EXPECT_EQ(row.says("training.global_batch"), "1024");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  ASSERT_EQ(row.mapped().readings.size(), 0U);
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
