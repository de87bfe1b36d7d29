// Snapshots are read without running anything of them, whatever wrote them; hostile ones are refused.
#include "evidence/snapshot_pickle.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

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

// The pieces of a pickle that say a frame, an event with frames, and a history of such events.
std::string text_of(std::string_view said) {
  const std::string length{static_cast<char>(said.size()), 0, 0, 0};
  return "X" + length + std::string(said);
}
std::string frame_of(std::string_view file) {
  return "}(" + text_of("filename") + text_of(file) + text_of("line") + "K\x07" + text_of("name") +
         text_of("forward") + "u";
}
std::string put(char place) { return {'q', place}; }
std::string get(char place) { return {'h', place}; }
std::string event_of(const std::string& frames) {
  return "}(" + text_of("action") + text_of("alloc") + text_of("addr") + "K\x40" + text_of("size") +
         "K\x08" + text_of("frames") + frames + "u";
}
// `before`: values that are only remembered.
std::string history_of(const std::string& before, const std::string& events) {
  return "\x80\x02}(" + text_of("before") + "](" + before + "e" + text_of("segments") + "]" +
         text_of("device_traces") + "](](" + events + "eeu.";
}
std::vector<std::string> files_of_stack(const MemoryHistory& history, std::int32_t stack) {
  std::vector<std::string> files;
  for (const std::int32_t frame : history.stack(stack))
    files.push_back(history.frames[static_cast<std::size_t>(frame)].file);
  return files;
}

// Equal stacks are told by the bytes that write them (known_stacks.h), which say nothing of a place of the memo that has
// another value by now.
TEST(SnapshotPickle, AStackReadAgainIsTheSameStack) {
  using Files = std::vector<std::string>;
  const std::string list = "](" + get(1) + get(2) + "e";
  const std::string other = "](" + get(2) + get(1) + "e";
  const auto history = read_snapshot_pickle(
      history_of(frame_of("a.py") + put(1) + frame_of("b.py") + put(2),
                 event_of(list) + event_of(list) + event_of(other) + event_of(list) +
                     event_of("](" + frame_of("c.py") + put(1) + "e") + event_of(list)),
      "s");
  ASSERT_TRUE(history) << history.error().front().message;
  const auto& events = history->devices.at(0).events;
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(files_of_stack(*history, events[0].stack), (Files{"a.py", "b.py"}));
  EXPECT_EQ(events[1].stack, events[0].stack);
  EXPECT_EQ(files_of_stack(*history, events[2].stack), (Files{"b.py", "a.py"}));
  EXPECT_EQ(events[3].stack, events[0].stack);
  EXPECT_EQ(files_of_stack(*history, events[4].stack), (Files{"c.py"}));
  EXPECT_EQ(files_of_stack(*history, events[5].stack), (Files{"c.py", "b.py"}));
}

// A list below an open mark is not filled, whether its bytes are known or not.
TEST(SnapshotPickle, AKnownStackFillsOnlyTheListBeforeItsMark) {
  const std::string fetches = get(1) + get(1) + "e";
  const std::string frame = frame_of("a.py") + put(1);
  for (const std::string& first : {std::string(), event_of("](" + fetches)})
    EXPECT_EQ(refusal_of(history_of(frame, first + event_of("]((" + fetches + "e"))),
              "an opcode fills a container that is not there");
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
