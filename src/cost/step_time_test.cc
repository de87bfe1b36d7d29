#include "cost/step_time.h"

#include <gtest/gtest.h>

#include "document/read.h"
#include "job/read.h"

namespace steelyard {
namespace {

Job job_written(const char* text) {
  const auto document = read_toml(text, "run.toml");
  EXPECT_TRUE(document) << text;
  auto job = read_job(*document);
  EXPECT_TRUE(job) << (job ? "" : job.error().front().message);
  return *job;
}

StepTime time_of(const Job& job) { return step_time(job, *usual_machine(*job.cluster.device)); }

constexpr const char* kLayout = R"(
model = "llama-3.1-8b"
engine = "megatron"
[cluster]
device = "h100-sxm-80gb"
devices = 32
[training]
sequence_length = 8192
micro_batch = 1
global_batch = 64
[parallel]
tensor = 4
pipeline = 4
data = 2
zero_stage = 1
)";

// Two machines whose eight ranks divide the experts: the two ranks of an expert have one interface each, dense parameters eight.
TEST(StepTime, ExpertsAreReducedByTheRanksThatHoldThem) {
  const Job job = job_written(R"(
model = "mixtral-8x7b"
engine = "megatron"
[cluster]
device = "h100-sxm-80gb"
devices = 16
[training]
sequence_length = 4096
micro_batch = 1
[parallel]
expert = 8
zero_stage = 1
)");
  const Device& device = *job.cluster.device;
  const StepEnd end = StepClock(job).end(device, *usual_machine(device));
  const auto after = [&](const ParameterCount& held) { return end.after({held, held}, 0, 0); };
  const StepEnd::Terms dense = after({1e9, 0}), experts = after({0, 1e9});
  EXPECT_NEAR(experts.data / dense.data, (1.0 / 2) / (15.0 / 16) * 8, 0.15);
  EXPECT_NEAR(experts.optimizer / dense.optimizer, 8, 1e-9);  // 2 ranks divide their states, not 16
}

// Adapters of 20 million parameters beside a frozen base of 7 billion: exchanges and the optimizer see the 20 million.
TEST(StepTime, WhatIsFrozenIsNeitherReducedNorStepped) {
  const std::string whole = R"(
model = "llama-2-7b"
engine = "ddp"
[cluster]
device = "a100-sxm-80gb"
devices = 8
[training]
sequence_length = 2048
micro_batch = 1
)";
  const StepTime all = time_of(job_written(whole.c_str()));
  const StepTime adapted =
      time_of(job_written((whole + "[adapter]\nmethod = \"lora\"\nrank = 8\n").c_str()));
  const double part = 19'988'480.0 / 6'738'415'616.0;
  EXPECT_LT(adapted.terms[TimeTerm::kOptimizer], 2 * part * all.terms[TimeTerm::kOptimizer]);
  EXPECT_LT(adapted.terms[TimeTerm::kData] + adapted.hidden[TimeTerm::kData],
            0.05 * (all.terms[TimeTerm::kData] + all.hidden[TimeTerm::kData]));
}

TEST(StepTime, TermsSumToTheStepWithinItsBand) {
  const StepTime time = time_of(job_written(kLayout));
  EXPECT_DOUBLE_EQ(time.terms.total(), time.step.value());
  EXPECT_LT(time.low, time.step);
  EXPECT_LT(time.step, time.high);
  EXPECT_GT(time.model_flops_utilization, 0.2);
  EXPECT_LT(time.model_flops_utilization, 0.7);
  EXPECT_GT(time.terms[TimeTerm::kBubble], 0);
  EXPECT_GT(time.terms[TimeTerm::kTensor], 0);
}

TEST(StepTime, ModelFlopsFollowTheMatrices) {
  // 6 x (parameters of products) x tokens, and 6·s·h a layer and token for a causal square at half
  const Job job = job_written(kLayout);
  const double tokens = 64 * 8192;
  const double in_products = 8030261248.0 - 128256.0 * 4096;  // the embedding is looked up
  const double expected = tokens * (6 * in_products + 6.0 * 32 * 8192 * 4096);
  EXPECT_NEAR(time_of(job).model_flops / expected, 1, 0.001);
}

TEST(StepTime, FullRecomputationRunsForwardOnceMore) {
  const Job plain = job_written(kLayout);
  Job again = plain;
  again.recompute.mode = RecomputeMode::kFull;
  const StepTime before = time_of(plain), after = time_of(again);
  EXPECT_EQ(before.terms[TimeTerm::kRecompute], 0);
  EXPECT_NEAR(after.terms[TimeTerm::kCompute] / before.terms[TimeTerm::kCompute], 1, 1e-9);
  EXPECT_GT(after.terms[TimeTerm::kRecompute], 0.25 * before.terms[TimeTerm::kCompute]);
  EXPECT_LT(after.terms[TimeTerm::kRecompute], 0.40 * before.terms[TimeTerm::kCompute]);
  EXPECT_NEAR(before.model_flops / after.model_flops, 1, 1e-12);
}

TEST(StepTime, TheBubbleIsOnePassageThroughTheOthers) {
  const Job job = job_written(kLayout);
  Job longer = job;
  longer.training.gradient_accumulation *= 4;
  longer.training.global_batch *= 4;
  EXPECT_NEAR(time_of(longer).terms[TimeTerm::kBubble], time_of(job).terms[TimeTerm::kBubble],
              1e-9);
}

TEST(StepTime, ASmallModelWaitsForTheHost) {
  const StepTime time = time_of(job_written(R"(
model = "gpt2"
[cluster]
device = "h100-sxm-80gb"
devices = 1
[training]
sequence_length = 1024
micro_batch = 1
precision = "bf16-autocast"
)"));
  for (std::size_t i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    if (term == TimeTerm::kHost || term == TimeTerm::kCompute) continue;
    EXPECT_LT(time.terms[term], time.terms[TimeTerm::kHost]);
  }
}

TEST(StepTime, PairedExpertExchangesRunBehindTheOtherMicroBatch) {
  const Job job = job_written(R"(
model = "qwen3-30b-a3b"
engine = "megatron"
[cluster]
device = "gb200"
devices = 32
devices_per_node = 32
[training]
sequence_length = 4096
micro_batch = 1
global_batch = 512
[parallel]
expert = 32
expert_tensor = 1
[experts]
dispatcher = "all-to-all"
)");
  Job paired = job;
  paired.overlap_expert = true;
  const StepTime waiting = time_of(job), beside = time_of(paired);
  const double waits = waiting.terms[TimeTerm::kExpert];
  EXPECT_GT(waits, 0);
  // Fifteen of sixteen forwards have a backward beside them; what is hidden slows computing by the usual share.
  const double hidden = beside.hidden[TimeTerm::kExpert];
  EXPECT_NEAR(hidden / waits, 15.0 / 16, 1e-6);
  EXPECT_NEAR(beside.terms[TimeTerm::kExpert], waits / 16 + 0.19 * hidden, 1e-6 * waits);
  EXPECT_DOUBLE_EQ(waiting.terms[TimeTerm::kCompute], beside.terms[TimeTerm::kCompute]);
}

TEST(StepTime, BetterLinksNeverSlowAStep) {
  const Job job = job_written(kLayout);
  const Machine& machine = *usual_machine(*job.cluster.device);
  Machine wider = machine;
  wider.interface_bandwidth = BytesPerSecond(machine.interface_bandwidth.value() * 2);
  EXPECT_LE(step_time(job, wider).step, step_time(job, machine).step);
}

}  // namespace
}  // namespace steelyard
