#include "machine/runtime.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

const Device& device(const char* name) { return *find_device(name).device; }

TEST(Communicator, OneRankHoldsNothing) {
  for (auto use : {CommunicatorUse::kGatherScatter, CommunicatorUse::kAllReduce,
                   CommunicatorUse::kNeighbours, CommunicatorUse::kAllToAll}) {
    const RuntimeBytes bytes = communicator_bytes(device("h100"), 1, 8, 1, use);
    EXPECT_EQ(bytes.expected, 0_B);
    EXPECT_EQ(bytes.high, 0_B);
    EXPECT_FALSE(bytes.derivation.empty());
  }
}

TEST(Communicator, RingsOfOneNode) {
  const RuntimeBytes bytes =
      communicator_bytes(device("h100"), 8, 8, 1, CommunicatorUse::kGatherScatter);
  EXPECT_EQ(bytes.expected, 288_MiB);
  EXPECT_EQ(bytes.low, 192_MiB);
  EXPECT_EQ(bytes.high, 768_MiB);
  EXPECT_EQ(bytes.derivation, "ring: 24 channels x 12 MiB");
  EXPECT_FALSE(bytes.source.empty());
}

TEST(Communicator, TheSwitchAddsUpOnHopperAndLater) {
  const auto reduce = [](const char* name, std::int64_t ranks, std::int64_t nodes) {
    return communicator_bytes(device(name), ranks, 8, nodes, CommunicatorUse::kAllReduce).expected -
           communicator_bytes(device(name), ranks, 8, nodes, CommunicatorUse::kGatherScatter)
               .expected;
  };
  EXPECT_EQ(reduce("h100", 8, 1), 256_MiB);
  EXPECT_EQ(reduce("h100", 4, 1), 0_B);  // rings are faster there
  EXPECT_EQ(reduce("b200", 8, 1), 384_MiB);
  EXPECT_EQ(reduce("b200", 16, 2), 512_MiB);
  EXPECT_EQ(reduce("a100", 8, 1), 0_B);
  EXPECT_EQ(reduce("h100-pcie", 8, 1), 0_B);
}

// Published: 8 x H100, the first all_to_all took 3.28 GB more, in buffers of 10 and 2 MiB.
TEST(Communicator, AllToAllOfAnH100Node) {
  const RuntimeBytes bytes =
      communicator_bytes(device("h100"), 8, 8, 1, CommunicatorUse::kAllToAll);
  EXPECT_EQ(bytes.expected, 2688_MiB);
}

// Published: 544 MB for each group of two A100, 688 MB for each of four (rings and trees at once).
TEST(Communicator, TheBandHoldsTheMeasuredGroups) {
  const RuntimeBytes two = communicator_bytes(device("a100"), 2, 4, 1, CommunicatorUse::kAllReduce);
  const RuntimeBytes four =
      communicator_bytes(device("a100"), 4, 4, 1, CommunicatorUse::kAllReduce);
  EXPECT_LE(two.low, Bytes(544'000'000));
  EXPECT_GE(two.high, Bytes(544'000'000));
  EXPECT_LE(four.low, Bytes(688'000'000));
  EXPECT_GE(four.high, Bytes(688'000'000));
}

TEST(Communicator, AcrossNodesSomeChannelsTakeTheNetwork) {
  // 24 channels, three of them leave each of eight ranks: 21 x 12 + 3 x 20.
  EXPECT_EQ(communicator_bytes(device("h100"), 16, 8, 2, CommunicatorUse::kGatherScatter).expected,
            312_MiB);
  // One rank a node: every channel leaves it.
  EXPECT_EQ(communicator_bytes(device("h100"), 2, 8, 2, CommunicatorUse::kGatherScatter).expected,
            480_MiB);
}

TEST(Communicator, PipelineNeighbours) {
  const auto expected = [](std::int64_t ranks, std::int64_t nodes) {
    return communicator_bytes(device("h100"), ranks, 8, nodes, CommunicatorUse::kNeighbours)
        .expected;
  };
  EXPECT_EQ(expected(2, 1), 384_MiB);  // 32 channels to one peer
  EXPECT_EQ(expected(4, 1), 768_MiB);
  EXPECT_EQ(expected(4, 4), 128_MiB);  // the pools of the network, each way
}

TEST(Communicator, ChannelsToOnePeerShrinkAsTheGroupGrows) {
  // 64 ranks: 32 channels become 4, for seven peers of the node, and the network's pools.
  EXPECT_EQ(communicator_bytes(device("h100"), 64, 8, 8, CommunicatorUse::kAllToAll).expected,
            12_MiB * 28 + 128_MiB);
}

TEST(Communicator, BoxesWithoutSwitchHoldLittle) {
  EXPECT_EQ(communicator_bytes(device("4090"), 8, 8, 1, CommunicatorUse::kAllReduce).expected,
            24_MiB);
}

TEST(Communicator, BandsAreInOrderEverywhere) {
  for (const Device& one : devices())
    for (auto use : {CommunicatorUse::kGatherScatter, CommunicatorUse::kAllReduce,
                     CommunicatorUse::kNeighbours, CommunicatorUse::kAllToAll})
      for (std::int64_t ranks : {2, 3, 8, 64, 16384})
        for (std::int64_t nodes : {std::int64_t{1}, (ranks + 7) / 8, ranks}) {
          const RuntimeBytes bytes = communicator_bytes(one, ranks, 8, nodes, use);
          EXPECT_LE(bytes.low, bytes.expected) << one.name << ' ' << ranks << ' ' << nodes;
          EXPECT_LE(bytes.expected, bytes.high) << one.name << ' ' << ranks << ' ' << nodes;
          EXPECT_GT(bytes.high, 0_B) << one.name;
          EXPECT_FALSE(bytes.source.empty());
        }
}

TEST(Context, IsTheDevices) {
  const RuntimeBytes bytes = context_bytes(device("h100"));
  EXPECT_EQ(bytes.low, 450_MiB);
  EXPECT_EQ(bytes.expected, 767_MiB);
  EXPECT_FALSE(bytes.source.empty());
  EXPECT_EQ(context_bytes(device("a100")).low, 287'047'680_B);
}

}  // namespace
}  // namespace steelyard
