#include "validate/sources/literal_row.h"

namespace steelyard {
namespace {

TEST(LigerKernels, AKernelIsNoRun) {
  const LiteralRow row(R"row({"id": "liger-kernel-L26", "source": {"repo": "linkedin/Liger-Kernel",
        "path": "benchmark/data/all_benchmark_data.csv", "table": "cross_entropy"},
        "hardware": {"gpu": "NVIDIA A100-SXM4-80GB", "gpus": 1},
        "framework": {"name": "Liger-Kernel"}, "train": {"mode": "kernel micro-benchmark full"},
        "measured": {"peak_allocated_gib": 0.25032, "oom": false}})row");
  EXPECT_EQ(row.source(), "liger-kernels");
  EXPECT_EQ(row.left_out(), "one kernel by itself: not a run");
}

}  // namespace
}  // namespace steelyard
