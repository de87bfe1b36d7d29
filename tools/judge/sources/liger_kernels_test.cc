#include "kernels/kernels.h"
#include "sources/literal_row.h"
#include "validate/validate.h"

namespace steelyard {
namespace {

constexpr std::string_view kRow =
    R"row({"id": "liger-kernel-L26", "source": {"repo": "linkedin/Liger-Kernel",
        "path": "benchmark/data/all_benchmark_data.csv", "table": "cross_entropy"},
        "hardware": {"gpu": "NVIDIA A100-SXM4-80GB", "gpus": 1},
        "framework": {"name": "Liger-Kernel"}, "train": {"mode": "kernel micro-benchmark full",
        "kernel": "cross_entropy", "provider": "huggingface", "x_name": "V", "x_value": 4096.0,
        "shapes": "{\"B\": 8, \"T\": 2048}"},
        "measured": {"peak_allocated_gib": 1.25012, "oom": false}})row";

TEST(LigerKernels, AKernelIsNoRun) {
  const LiteralRow row(kRow);
  EXPECT_EQ(row.source(), "liger-kernels");
  ASSERT_TRUE(row.mapped().alone.has_value());
  const auto judged = judge(*read_json(kRow, "row"), "row", row_sources());
  ASSERT_TRUE(judged.has_value());
  ASSERT_EQ(judged->front().readings.size(), 1U);
  // Logits, their gradient of the round before, the log-softmax and both gradients; labels beside them.
  EXPECT_NEAR(
      static_cast<double>(judged->front().readings[0].predicted.value().value()) / (1 << 20),
      1280.126, 0.01);
}

TEST(LigerKernels, SomethingElseWasAlive) {
  const LiteralRow row(
      R"row({"id": "liger-kernel-L172", "source": {"repo": "linkedin/Liger-Kernel"},
        "train": {"kernel": "embedding", "provider": "liger"}})row");
  EXPECT_EQ(row.source(), "liger-kernels");
  EXPECT_NE(row.left_out().find("something else was alive"), std::string::npos);
}

// What a benchmark counts by hand, in MiB: {kernel, provider, passes, sizes} -> peak.
double mebibytes(KernelBenchmark benchmark) {
  benchmark.workspace = Bytes(Checked(8'320) * 1'024);
  benchmark.multiprocessors = 108;
  return static_cast<double>(peak_of(benchmark).value().value().value()) / (1 << 20);
}

TEST(LigerKernels, AGatedFeedForward) {
  const std::map<std::string, std::int64_t, std::less<>> sizes = {
      {"B", 4}, {"T", 1'024}, {"hidden_size", 4'096}, {"intermediate_size", 11'008}};
  // x 32, three weights 258, five tensors of 86 and the result; then their gradients; two workspaces.
  EXPECT_NEAR(mebibytes({"swiglu", "huggingface", Passes::kFull, sizes}), 1'294.25, 0.01);
  EXPECT_LT(mebibytes({"swiglu", "liger", Passes::kFull, sizes}), 1'101);
}

TEST(LigerKernels, WhatIsNotComposed) {
  EXPECT_EQ(peak_of({"group_norm", "liger", Passes::kFull, {}}), std::nullopt);
  EXPECT_EQ(peak_of({"layer_norm", "liger", Passes::kFull, {{"M", 8}}}), std::nullopt);
}

}  // namespace
}  // namespace steelyard
