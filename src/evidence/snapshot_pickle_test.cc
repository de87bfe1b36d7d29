// Snapshots are read without running anything of them, whatever wrote them; hostile ones are refused.
#include "evidence/snapshot_pickle.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "evidence/replay.h"
#include "evidence/snapshot_reader.h"

namespace steelyard {
namespace {

std::string refusal_of(std::string_view bytes) {
  const auto history = read_snapshot_pickle(bytes, "s.pickle");
  return history ? "" : history.error().front().message;
}

std::string recorded(const char* name) {
  std::ifstream file(std::filesystem::path("truth/snapshots") / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SnapshotPickle, RefusesWhatWouldRun) {
  using namespace std::string_view_literals;
  EXPECT_NE(refusal_of("\x80\x04"
                       "cposix\nsystem\nN."sv)
                .find("import posix.system"),
            std::string::npos);
  EXPECT_NE(refusal_of("\x80\x04\x8c\x05posix\x8c\x06system\x93N."sv).find("import posix.system"),
            std::string::npos);
  EXPECT_FALSE(refusal_of("\x80\x04NNR."sv).empty());
}

TEST(SnapshotPickle, RefusesBombs) {
  EXPECT_FALSE(refusal_of("\x80\x04" + std::string(1'000'000, '(')).empty());
  EXPECT_FALSE(refusal_of("\x80\x04" + std::string(1'000'000, ']') + ".").empty());
  EXPECT_FALSE(refusal_of(std::string("\x80\x04r\xff\xff\xff\x7f.", 8)).empty());
  EXPECT_FALSE(
      refusal_of(std::string("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", 12)).empty());
}

TEST(SnapshotPickle, EveryCutIsRefused) {
  const std::string whole = recorded("llama.pickle");
  ASSERT_FALSE(whole.empty());
  EXPECT_TRUE(read_snapshot_pickle(whole, "s"));
  for (std::size_t size = 0; size < whole.size(); size += 977)
    EXPECT_FALSE(read_snapshot_pickle(std::string_view(whole).substr(0, size), "s")) << size;
}

TEST(SnapshotPickle, FindsThePeakOfARecordedRun) {
  const auto history = read_snapshot_pickle(recorded("llama.pickle"), "llama.pickle");
  ASSERT_TRUE(history);
  const auto moments = replay_to_moment(*history);
  ASSERT_EQ(moments.size(), 1U);
  EXPECT_TRUE(moments[0].consistent);
  EXPECT_EQ(moments[0].kind, DeviceMoment::Kind::kPeak);
  EXPECT_EQ(moments[0].base, 0);
  EXPECT_EQ(moments[0].live, moments[0].peak);
  EXPECT_GE(moments[0].reserved, moments[0].live);
}

// A bare list, and a dict without traces: a state only.
TEST(SnapshotPickle, AStateHasNoHistory) {
  const std::string json =
      R"([{"device": 1, "address": 1024, "total_size": 2097152, "blocks": [{"size": 2097152, "state": "active_allocated"}]}])";
  const auto evidence = read_snapshot(json, "state.json");
  ASSERT_TRUE(evidence) << evidence.error().front().message;
  EXPECT_FALSE(evidence->complete);
  ASSERT_EQ(evidence->moments->size(), 1U);
  EXPECT_EQ(evidence->moments->front().kind, DeviceMoment::Kind::kState);
  EXPECT_EQ(evidence->moments->front().live, 2097152);
  EXPECT_EQ(evidence->moments->front().device, 1);
}

TEST(SnapshotPickle, RanksOfNames) {
  EXPECT_EQ(rank_of_name("snapshot_oom_rank-3.pickle"), 3);
  EXPECT_EQ(rank_of_name("rank12_memory_snapshot.pickle"), 12);
  EXPECT_EQ(rank_of_name("000007_step_20.pickle"), 7);
  EXPECT_EQ(rank_of_name("snapshot_5.pickle"), 5);
  EXPECT_EQ(rank_of_name("dump_snapshot.pickle"), std::nullopt);
}

// A checkpoint's index has a "total_size" too, and names of weights hold any word.
TEST(SnapshotRecognition, IndexOfACheckpointIsNoSnapshot) {
  EXPECT_EQ(
      recognise_snapshot(
          R"({"metadata": {"total_size": 28}, "weight_map": {"blocks.0.segments": "a.safetensors"}})",
          "model.safetensors.index.json"),
      0);
  EXPECT_EQ(recognise_snapshot(
                R"([{"device": 1, "address": 1024, "total_size": 2097152, "blocks": []}])", "s"),
            90);
  EXPECT_EQ(recognise_snapshot(R"({"segments": [{"address": 1024, "total_size": 2097152)", "s"),
            90);
  EXPECT_EQ(recognise_snapshot(R"({"device_traces": [[]])", "s"), 90);
}

}  // namespace
}  // namespace steelyard
