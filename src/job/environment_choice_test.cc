#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "job/read.h"
#include "job/run_text.h"

namespace steelyard {
namespace {

Job job_with(const std::string& environment, const std::string& device = "h100-sxm-80gb") {
  const auto job = job_of("model = \"llama-3.2-1b\"\n[cluster]\ndevice = \"" + device +
                          "\"\ndevices = 1\n[training]\nsequence_length = 1024\nmicro_batch = 1\n"
                          "kernels = \"liger\"\nloss = \"fused-linear\"\n[environment]\n" +
                          environment);
  EXPECT_TRUE(job) << environment << ": " << (job ? "" : job.error().front().message);
  return job ? *job : Job();
}

// Which gradients of weights are made apart: of 16 bits, of 32, of 32 that are cast; and what stays of the chunk before.
std::string said_of(const Job& job) {
  const LigerChunks& chunks = job.liger_chunks;
  std::string text;
  for (const auto& [yes, word] :
       {std::pair{chunks.apart_narrow, "16 "}, std::pair{chunks.apart_wide, "32 "},
        std::pair{chunks.apart_cast, "cast "}, std::pair{chunks.keeps_logits, "logits "},
        std::pair{chunks.keeps_input, "input "}})
    if (yes) text += word;
  return text;
}

// linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py of each: `grad_weight += torch.mm(...).float()`, or addmm.
TEST(Environment, LigerAddsTheGradientOfAWeightInTheProductOrWidensIt) {
  const auto version = [](const std::string& number) {
    return said_of(job_with("liger-kernel = \"" + number + "\"\n"));
  };
  EXPECT_EQ(version("0.5.10"), "logits ");
  EXPECT_EQ(version("0.6.1"), "logits ");
  EXPECT_EQ(version("0.6.2"), "16 32 cast logits ");
  EXPECT_EQ(version("0.8"), "16 32 cast logits ");
  EXPECT_EQ(version("0.8.1"), "16 32 logits input ");
  EXPECT_EQ(version("0.8.2"), "16 32 logits input ");
  EXPECT_EQ(version("0.8.3"), "32 ");
  EXPECT_EQ(version("0.10.0"), "32 ");
  EXPECT_EQ(said_of(job_with("torch = \"2.11\"\n")), "32 ");
}

// addmm takes a result in fp32 since torch 2.8, and Liger asks it to on Ampere and later.
TEST(Environment, LigerAsksTorchAndTheDevice) {
  EXPECT_EQ(said_of(job_with("torch = \"2.7.1\"\n")), "32 cast ");
  EXPECT_EQ(said_of(job_with("torch = \"2.8\"\n")), "32 ");
  EXPECT_EQ(said_of(job_with("torch = \"2.8\"\n", "v100-sxm-32gb")), "16 32 cast ");
  EXPECT_EQ(said_of(job_with("liger-kernel = \"0.8.1\"\n", "v100-sxm-32gb")),
            "16 32 logits input ");
  EXPECT_EQ(said_of(job_with("liger-kernel = \"0.6.1\"\n", "v100-sxm-32gb")), "logits ");
}

TEST(Environment, AVersionOfLigerHasTwoNumbers) {
  const auto job = job_of(
      "model = \"llama-3.2-1b\"\n[cluster]\ndevice = \"h100-sxm-80gb\"\n"
      "[environment]\nliger-kernel = \"newest\"\n");
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().front().message,
            "environment.liger-kernel is \"newest\", not a version of liger-kernel");
}

}  // namespace
}  // namespace steelyard
