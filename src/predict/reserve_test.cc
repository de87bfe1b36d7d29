// The reserve of small runs: what is simulated, what is estimated, and what becomes of a device that is almost full.
#include "predict/reserve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"

namespace steelyard {
namespace {

Job reserved_job(const std::string& more = {}) {
  const std::string run =
      "model = \"llama-3.1-8b\"\nengine = \"fsdp2\"\n"
      "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = 8\n"
      "[training]\nsequence_length = 4096\n" +
      more;
  ReadJob job = read_job(*read_toml(run, "run"));
  if (!job) throw std::runtime_error(job.error().front().message);
  return std::move(*job);
}

const AllocatorRoom kAnyRoom{1_GiB * Checked(1'000), 1_GiB * Checked(1'000),
                             1_GiB * Checked(1'000)};

class Reserve : public testing::Test {
 protected:
  StageReserve simulated(const AllocatorRoom& room) {
    return simulated_reserve(stages_, built_, job_.allocator, room);
  }
  Bytes allocated() const { return Bytes(stages_.program().span(built_.root).highest()); }

  Job job_ = reserved_job();
  StagePrograms<Checked> stages_{job_, SlotDetail::kTensors};
  StageProgram built_ = stages_.build(0);
};

TEST_F(Reserve, StandsAboveWhatIsAllocated) {
  const StageReserve reserve = simulated(kAnyRoom);
  EXPECT_TRUE(reserve.simulated);
  EXPECT_GE(reserve.later, allocated());
  EXPECT_EQ(reserve.with_room, reserve.later);
  EXPECT_GE(reserve.most, reserve.later);
  EXPECT_LE(reserve.least, reserve.most);
  EXPECT_EQ(reserve.retries, 0);
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer})
    EXPECT_GE(reserve.first[static_cast<std::size_t>(phase)],
              reserve.first[static_cast<std::size_t>(phase) - 1]);
  EXPECT_LE(reserve.first[static_cast<std::size_t>(Phase::kOptimizer)], reserve.later);
}

// Between what is allocated and what the allocator would take, it gives cached segments back.
TEST_F(Reserve, GivesWayOnAFullDevice) {
  const StageReserve free = simulated(kAnyRoom);
  ASSERT_GT(free.later - free.least, 100_MiB);
  const Bytes room = free.later - 2_MiB;
  const StageReserve pressed = simulated({room, room, room});
  EXPECT_LE(pressed.later, room);
  EXPECT_GT(pressed.retries, 0);
  EXPECT_EQ(pressed.with_room, free.later);
}

TEST_F(Reserve, SaysHowMuchIsMissing) {
  const Bytes room = allocated() - 1_GiB;
  const StageReserve refused = simulated({room, room, room});
  EXPECT_GT(refused.least, room);
  EXPECT_EQ(refused.retries, 0);
}

// Wherever the device ends: a failure on a full device never asks for more than a device with room to spare takes.
TEST_F(Reserve, NeverLacksMoreThanItTakesWithRoomToSpare) {
  const StageReserve free = simulated(kAnyRoom);
  for (Bytes room = allocated() - 64_MiB; room <= free.later + 64_MiB; room += 256_MiB) {
    const StageReserve reserve = simulated({room, room, room});
    EXPECT_LE(reserve.least, reserve.later);
    EXPECT_LE(reserve.least, free.later);
    EXPECT_LE(reserve.later, std::max(reserve.most, room));
    EXPECT_EQ(reserve.most, free.most);
  }
}

TEST_F(Reserve, IsEstimatedForSearches) {
  const StageReserve estimate = estimated_reserve(stages_.program(), built_, CudaGraphs::kNone);
  EXPECT_FALSE(estimate.simulated);
  EXPECT_GE(estimate.later, estimate.least);
  EXPECT_GE(estimate.most, estimate.later);
  const Prediction predicted = predict(job_), estimated = steelyard::estimate(job_);
  EXPECT_EQ(predicted.peak.allocated, estimated.peak.allocated);
  EXPECT_NE(predicted.peak.reserved, estimated.peak.reserved);
}

// Pages instead of segments: little is left over.
TEST_F(Reserve, FollowsTheSettingsOfTheEnvironment) {
  const Job expandable =
      reserved_job("[environment]\nPYTORCH_CUDA_ALLOC_CONF = \"expandable_segments:True\"\n");
  EXPECT_TRUE(expandable.allocator.expandable_segments);
  EXPECT_LT(predict(expandable).peak.reserved, predict(job_).peak.reserved);
}

// nanotron's products over tensor ranks, under a torch that records what collectives use and under one that does not: more
// is reserved, and nothing else changes.
TEST_F(Reserve, GrowsWhereTheDeviceWithholdsWhatCollectivesUsed) {
  const auto with_environment = [](const std::string& environment) {
    ReadJob job = read_job(*read_toml(
        "model = \"llama-3.2-1b\"\nengine = \"nanotron\"\n"
        "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = 8\n"
        "[training]\nsequence_length = 4096\nmicro_batch = 2\ngradient_accumulation = 4\n"
        "[parallel]\ntensor = 4\nsequence_parallel = true\n[environment]\n" +
            environment,
        "run"));
    if (!job) throw std::runtime_error(job.error().front().message);
    return predict(*job);
  };
  const Prediction usual = with_environment(""), old = with_environment("torch = \"2.1.2+cu121\"");
  const Prediction between = with_environment("torch = \"2.5\"");
  const Prediction newest = with_environment("torch = \"2.8\"");
  const Prediction avoided = with_environment("TORCH_NCCL_AVOID_RECORD_STREAMS = \"1\"");
  EXPECT_EQ(usual.peak.reserved, newest.peak.reserved);
  EXPECT_GT(old.peak.reserved, between.peak.reserved);
  EXPECT_GE(between.peak.reserved, newest.peak.reserved);
  EXPECT_EQ(avoided.peak.reserved, newest.peak.reserved);
  EXPECT_EQ(old.peak.allocated, newest.peak.allocated);
  EXPECT_EQ(old.peak.low, newest.peak.low);
  EXPECT_EQ(old.verdict, newest.verdict);
  EXPECT_GE(old.peak.high, old.peak.device);
}

TEST_F(Reserve, RefusesSettingsThatPyTorchRefuses) {
  const ReadJob job =
      read_job(*read_toml("model = \"gpt2\"\n[cluster]\ndevice = \"h100-sxm-80gb\"\n"
                          "[environment]\nPYTORCH_CUDA_ALLOC_CONF = \"expandable_segment:True\"\n",
                          "run.toml"));
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().front().code, "E104");
  EXPECT_EQ(job.error().front().place.source, "run.toml");
  EXPECT_EQ(job.error().front().place.line, 5);
  EXPECT_EQ(job.error().front().place.column, 28);
}

}  // namespace
}  // namespace steelyard
