#include "cost/collective_time.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

ExchangeClock clock_of(const char* device, const char* machine) {
  return {*find_device(device).device, *find_machine(machine), Outlook::kExpected};
}

TEST(CollectiveTime, RingsInsideAMachineReachWhatIsMeasured) {
  // VIA-Research/vTrain trace/a100: all-reduce of 1 GiB over 8 A100, 8196 us; over 4, 7276 us
  const ExchangeClock a100 = clock_of("a100-sxm-80gb", "hgx-a100");
  const double gib = 1024.0 * 1024 * 1024;
  EXPECT_NEAR(a100.time(ExchangeKind::kAllReduce, gib, {Ranks(8), Ranks(8)}).value(), 8196e-6,
              2e-4);
  EXPECT_NEAR(a100.time(ExchangeKind::kAllReduce, gib, {Ranks(4), Ranks(4)}).value(), 7276e-6,
              6e-4);
  // stas00/ml-engineering: all-gather of 16 GiB over 8 H200 at 361 GB/s of bus bandwidth
  const ExchangeClock h200 = clock_of("h200-sxm", "hgx-h200");
  EXPECT_NEAR(h200.time(ExchangeKind::kAllGather, 16 * gib, {Ranks(8), Ranks(8)}).value(),
              16 * gib * 7 / 8 / 361.4e9, 1e-3);
}

TEST(CollectiveTime, AcrossMachinesTheInterfacesOfAllItsRanksCount) {
  const ExchangeClock clock = clock_of("h100-sxm-80gb", "hgx-h100");
  const double bytes = 4e9;
  const double eight = clock.time(ExchangeKind::kAllReduce, bytes, {Ranks(32), Ranks(8)}).value();
  const double one = clock.time(ExchangeKind::kAllReduce, bytes, {Ranks(32), Ranks(1)}).value();
  EXPECT_GT(one, 7 * eight);
  // NVIDIA/nccl-tests issue 309: 365.8 GB/s of bus bandwidth on 4 machines of 8 H100
  EXPECT_NEAR(bytes * 2 * 31 / 32 / eight, 365.8e9, 20e9);
}

TEST(CollectiveTime, ARingTakesAStepForEachRank) {
  // VIA-Research/vTrain trace/a100: all-reduce of 1 MiB over 8 A100, 92 us
  const double mib = 1024.0 * 1024;
  const ExchangeClock a100 = clock_of("a100-sxm-80gb", "hgx-a100");
  EXPECT_NEAR(a100.time(ExchangeKind::kAllReduce, mib, {Ranks(8), Ranks(8)}).value(), 92e-6, 10e-6);
  // NVIDIA/nccl src/graph/tuning.cc: from 16 to 64 machines of 8, 48 steps more across and 336 inside
  const ExchangeClock h100 = clock_of("h100-sxm-80gb", "hgx-h100");
  const auto gather = [&](std::int64_t ranks) {
    return h100.time(ExchangeKind::kAllGather, 1, {Ranks(ranks), Ranks(8)}).value();
  };
  EXPECT_NEAR(gather(512) - gather(128), 48 * 14e-6 + 336 * 3.4e-6, 1e-9);
}

// crazyguitar/aws-gpu-communication-benchmark, data/nccl_all_gather.csv and nccl_all_reduce.csv: P5, 2025.
TEST(CollectiveTime, WhatWasMeasuredOfAMachineStandsForIt) {
  const ExchangeClock p5 = clock_of("h100-sxm-80gb", "aws-p5");
  constexpr double kMib = 1024.0 * 1024;
  const struct {
    ExchangeKind kind;
    std::int64_t ranks;
    double mib, microseconds, within;
  } cases[] = {
      // Small gathers take as long as their ring has steps; of large ones the bytes hide the steps.
      {ExchangeKind::kAllGather, 128, 32, 1337, 0.10},
      {ExchangeKind::kAllGather, 256, 32, 2699, 0.10},
      {ExchangeKind::kAllGather, 256, 512, 3653, 0.10},
      {ExchangeKind::kAllGather, 128, 1024, 4068, 0.10},
      {ExchangeKind::kAllGather, 16, 1024, 3126, 0.10},
      // All-reduces go up and down a tree.
      {ExchangeKind::kAllReduce, 16, 1024, 4627, 0.05},
      {ExchangeKind::kAllReduce, 64, 1024, 7702, 0.10},
      {ExchangeKind::kAllReduce, 128, 128, 2061, 0.15},
      {ExchangeKind::kAllReduce, 256, 64, 1599, 0.10},
      {ExchangeKind::kAllReduce, 256, 1024, 9720, 0.15},
  };
  for (const auto& one : cases)
    EXPECT_NEAR(p5.time(one.kind, one.mib * kMib, {Ranks(one.ranks), Ranks(8)}).value(),
                one.microseconds * 1e-6, one.within * one.microseconds * 1e-6)
        << one.ranks << " ranks, " << one.mib << " MiB";
  // Ranks of one machine do not care.
  const ExchangeClock usual = clock_of("h100-sxm-80gb", "hgx-h100");
  EXPECT_EQ(p5.time(ExchangeKind::kAllGather, 1e9, {Ranks(8), Ranks(8)}).value(),
            usual.time(ExchangeKind::kAllGather, 1e9, {Ranks(8), Ranks(8)}).value());
}

TEST(CollectiveTime, AnAllReduceTakesTheTreeWhereARingHasMoreSteps) {
  const ExchangeClock h100 = clock_of("h100-sxm-80gb", "hgx-h100");
  const auto reduce = [&](std::int64_t ranks) {
    return h100.time(ExchangeKind::kAllReduce, 1, {Ranks(ranks), Ranks(8)}).value();
  };
  EXPECT_NEAR(reduce(512) - reduce(128), 2 * 2 * 14e-6, 1e-9);  // two levels more, up and down
}

TEST(CollectiveTime, GroupsFillMachinesByTheirStride) {
  EXPECT_EQ(group_of(Ranks(8), 1, Ranks(8)).in_machine, Ranks(8));
  EXPECT_EQ(group_of(Ranks(16), 8, Ranks(8)).in_machine, Ranks(1));
  EXPECT_EQ(group_of(Ranks(16), 2, Ranks(8)).in_machine, Ranks(4));
  EXPECT_EQ(group_of(Ranks(16), 1, Ranks(8)).in_machine, Ranks(8));
}

TEST(CollectiveTime, ABridgeJoinsTwoNeighboursAndNoMore) {
  const ExchangeClock clock = clock_of("rtx-a6000", "pcie-server");
  const auto gather = [&](std::int64_t ranks, std::int64_t stride) {
    return clock.time(ExchangeKind::kAllGather, 1e10, group_of(Ranks(ranks), stride, Ranks(8)))
        .value();
  };
  // 56.25 GB/s between the two, half of PCIe 4's 31.5 with others: twice as many neighbours take 1.5 x 3.6 times as long
  EXPECT_NEAR(gather(4, 1) / gather(2, 1), 1.5 * 56.25 / 15.75, 0.05);
  EXPECT_NEAR(gather(2, 4) / gather(2, 1), 56.25 / 15.75, 0.05);
}

TEST(CollectiveTime, NothingCostsNothing) {
  const ExchangeClock clock = clock_of("h100-sxm-80gb", "hgx-h100");
  EXPECT_EQ(clock.time(ExchangeKind::kAllReduce, 1e9, {Ranks(1), Ranks(1)}).value(), 0);
  EXPECT_EQ(clock.time(ExchangeKind::kAllToAll, 0, {Ranks(8), Ranks(8)}).value(), 0);
}

}  // namespace
}  // namespace steelyard
