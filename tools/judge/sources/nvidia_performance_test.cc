#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(NvidiaPerformance, Experts) {
  const LiteralRow row(
      R"row({"id": "nemo-26.02_Pre_Training_Qwen3_235B_a22B_DGX_H100_FP8_256gpu_gbs8192_s4096",
        "source": {"title": "NVIDIA Megatron-Bridge performance summary (docs page and archive)"},
        "model": {"name": "Qwen3_235B_a22B"}, "hardware": {"gpu": "DGX-H100", "gpus": 256},
        "framework": {"name": "Megatron-Bridge / Megatron Core", "version": "26.02 NeMo Container"},
        "train": {"seq_len": 4096, "micro_batch": 1, "global_batch": 8192, "precision": "FP8"},
        "parallel": {"fsdp": "0", "tp": 2, "cp": 1, "pp": 8, "vpp": 4, "ep": 32},
        "measured": {"tokens_per_s_per_gpu": 1712.0, "tflops_per_gpu": 253.0}})row");
  EXPECT_EQ(row.source(), "nvidia-performance");
  EXPECT_EQ(row.says("model"), R"("qwen3-235b-a22b")");
  EXPECT_EQ(row.says("training.precision"), R"("fp8-tensorwise")");
  EXPECT_EQ(row.says("parallel.expert_tensor"), "1");
  // 94 layers and two more for embedding and loss: three for each of 32 chunks.
  EXPECT_EQ(row.says("parallel.pipeline_layout").substr(0, 8), "[2, 3, 3");
  EXPECT_EQ(row.mapped().tokens_per_second, std::optional(1712.0));
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// A division by what a row prints.
TEST(NvidiaPerformance, NoStagesAtAll) {
  for (const char* pipeline : {R"("pp": 0, "vpp": 1)", R"("pp": 2, "vpp": 0)"}) {
    const std::string text = std::string(R"row({"id": "nemo-x",
        "source": {"title": "NVIDIA Megatron-Bridge"}, "model": {"name": "Qwen3_235B_a22B"},
        "hardware": {"gpu": "DGX-H100", "gpus": 256}, "framework": {"version": "26.02 NeMo Container"},
        "train": {"seq_len": 4096, "micro_batch": 1, "global_batch": 8192, "precision": "FP8"},
        "parallel": {"tp": 2, "cp": 1, "ep": 32, )row") +
                             pipeline + R"row(}, "measured": {"tokens_per_s_per_gpu": 1712.0}})row";
    EXPECT_EQ(LiteralRow(text).left_out(), "its layers of each stage are not printed");
  }
}

// What a recipe sets and the table does not print: by model, device, precision and release.
TEST(NvidiaPerformance, AsTheRecipesSay) {
  const auto of_gpt_oss = [](const char* device, const char* precision, const char* release) {
    return std::string(R"row({"id": "nemo-x", "source": {"title": "NVIDIA Megatron-Bridge"},
        "model": {"name": "GPT OSS 120B"}, "hardware": {"gpu": ")row") +
           device + R"row(", "gpus": 64}, "framework": {"version": ")row" + release +
           R"row( NeMo Container"}, "train": {"seq_len": 4096, "micro_batch": 4, "global_batch": 1280,
        "precision": ")row" +
           precision + R"row("}, "parallel": {"tp": 1, "cp": 1, "pp": 1, "ep": 64},
        "measured": {"tokens_per_s_per_gpu": 16000.0}})row";
  };
  const std::string graphs = of_gpt_oss("DGX-GB300", "BF16", "26.02"),
                    again = of_gpt_oss("DGX-GB200", "BF16", "26.02"),
                    paired = of_gpt_oss("DGX-GB200", "MXFP8", "26.06"),
                    faulty = of_gpt_oss("DGX-GB200", "MXFP8", "26.06.01");
  EXPECT_EQ(LiteralRow(graphs).says("recompute.mode"), R"("none")");
  EXPECT_EQ(LiteralRow(graphs).says("cluster.device"), R"("gb300")");
  EXPECT_EQ(LiteralRow(graphs).says("types.gradients"), R"("bf16")");
  EXPECT_EQ(LiteralRow(again).says("recompute.modules"), R"(["norms", "expert_activation"])");
  EXPECT_EQ(LiteralRow(paired).says("overlap.expert"), "true");
  EXPECT_NE(LiteralRow(faulty).left_out().find("known fault of cuDNN"), std::string::npos);
}

TEST(NvidiaPerformance, OfAnUnnamedHopper) {
  const LiteralRow row(
      R"row({"id": "nemo2412-pretrain-LLAMA2-70B-64gpu",
        "source": {"title": "NeMo Framework User Guide 24.12: Performance Benchmarks"},
        "model": {"name": "LLAMA2-70B"}, "hardware": {"gpus": 64}, "framework": {"name": "NeMo 24.12"},
        "train": {"seq_len": 4096, "micro_batch": 1, "global_batch": 128, "precision": "FP8"},
        "parallel": {"dp": 4, "tp": 4, "cp": 1, "pp": 4, "vpp": 20},
        "measured": {"tokens_per_s_per_gpu": 1728, "tflops_per_gpu": 768}})row");
  EXPECT_EQ(row.says("cluster.device"), R"("h100-sxm-80gb")");
  EXPECT_EQ(row.says("training.precision"), R"("fp8-delayed")");
  EXPECT_EQ(row.says("parallel.virtual_pipeline"), "20");
}

}  // namespace
}  // namespace steelyard
