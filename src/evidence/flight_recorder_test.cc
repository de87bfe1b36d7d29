#include "evidence/flight_recorder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "evidence/pickle_writer.h"

namespace steelyard {
namespace {

struct Entry {
  std::string group, operation;
  std::int64_t sequence;
  std::string state = "scheduled";
};

// A dump of one rank in a group of four, as a pickle.
std::string dump_of(const std::vector<Entry>& entries) {
  PickleWriter pickle;
  pickle.begin_dict();
  pickle.string("version");
  pickle.string("2.9");
  pickle.string("pg_config");
  pickle.begin_dict();
  for (const char* const name : {"5", "6"}) {
    pickle.string(name);
    pickle.begin_dict();
    pickle.string("name");
    pickle.string(name);
    pickle.string("desc");
    pickle.string(name == std::string("5") ? "TENSOR" : "EXPERT");
    pickle.string("ranks");
    pickle.string(name == std::string("5") ? "[0, 1]" : "[0, 1, 2, 3]");
    pickle.end_dict();
  }
  pickle.end_dict();
  pickle.string("entries");
  pickle.begin_list();
  for (const Entry& entry : entries) {
    pickle.begin_dict();
    pickle.string("process_group");
    pickle.begin_tuple();
    pickle.string(entry.group);
    pickle.string(entry.group == "5" ? "TENSOR" : "EXPERT");
    pickle.end_tuple();
    pickle.string("profiling_name");
    pickle.string("nccl:" + entry.operation);
    pickle.string("collective_seq_id");
    pickle.integer(entry.sequence);
    pickle.string("p2p_seq_id");
    pickle.integer(entry.sequence);
    pickle.string("input_sizes");
    pickle.begin_list();
    pickle.begin_list();
    pickle.integer(4096);
    pickle.integer(5120);
    pickle.end_list();
    pickle.end_list();
    pickle.string("input_dtypes");
    pickle.begin_list();
    pickle.string("BFloat16");
    pickle.end_list();
    pickle.string("state");
    pickle.string(entry.state);
    pickle.string("time_created_ns");
    pickle.integer(1'000'000'000);
    pickle.end_dict();
  }
  pickle.end_list();
  pickle.end_dict();
  return std::move(pickle).finish();
}

std::vector<CollectiveCulprit> culprits_of(const std::vector<std::vector<Entry>>& ranks) {
  std::vector<Evidence> dumps;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank].size() == 1 && ranks[rank][0].group == "no dump") continue;
    auto dump = read_flight_recorder(dump_of(ranks[rank]), "_dump_" + std::to_string(rank));
    EXPECT_TRUE(dump);
    if (dump) dumps.push_back(std::move(*dump));
  }
  std::vector<const Evidence*> pointers;
  for (const Evidence& dump : dumps) pointers.push_back(&dump);
  return find_collective_culprits(pointers);
}

TEST(FlightRecorder, EntriesAreRead) {
  const std::string bytes = dump_of({{"6", "all_to_all", 91}});
  EXPECT_GT(recognise_flight_recorder(bytes, "_dump_7"), 50);
  const auto dump = read_flight_recorder(bytes, "nccl_trace_rank_7");
  ASSERT_TRUE(dump);
  EXPECT_EQ(dump->kind, "flight recorder");
  EXPECT_EQ(dump->era, "2.9");
  EXPECT_EQ(dump->rank, 7);
  EXPECT_EQ(dump->clues.world_size, 4);
  ASSERT_EQ(dump->collectives.size(), 1U);
  const CollectiveState& state = dump->collectives[0];
  EXPECT_EQ(state.group, "EXPERT (6)");
  EXPECT_EQ(state.ranks, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(state.operation, "all_to_all");
  EXPECT_EQ(state.sequence, 91);
  EXPECT_EQ(state.state, "scheduled");
  EXPECT_EQ(state.dtype, "BFloat16");
  EXPECT_EQ(state.elements_in, 4096 * 5120);
  EXPECT_EQ(state.seconds, 1.0);
  EXPECT_EQ(state.place.at, "entries[0]");
}

TEST(FlightRecorder, JsonSaysTheSame) {
  const std::string text =
      R"({"version": "2.10", "pg_config": {"6": {"name": "6", "desc": "EXPERT", "ranks": "[0, 1]"}}, "pg_status": {"0":
 {"last_enqueued_collective": "12", "last_completed_collective": "11"}}, "entries": [{"process_group": ["6", "EXPERT"],
 "profiling_name": "xccl:send 0->1", "collective_seq_id": 3, "p2p_seq_id": 9, "input_sizes": [[2, 3], [4]], "state": "started"}]})";
  EXPECT_GT(recognise_flight_recorder(text, "x"), 50);
  const auto dump = read_flight_recorder(text, "comm_rank3.json");
  ASSERT_TRUE(dump);
  ASSERT_EQ(dump->collectives.size(), 3U);
  EXPECT_EQ(dump->collectives[0].operation, "send 0->1");
  EXPECT_EQ(dump->collectives[0].sequence, 9);
  EXPECT_EQ(dump->collectives[0].elements_in, 10);
  EXPECT_EQ(dump->collectives[1].state, "last enqueued");
  EXPECT_EQ(dump->collectives[1].sequence, 12);
  EXPECT_EQ(dump->collectives[2].sequence, 11);
}

TEST(FlightRecorder, ARankThatBegunNothingIsTheCulprit) {
  const auto culprits = culprits_of({{{"6", "all_to_all", 91}, {"5", "all_reduce", 7}},
                                     {{"6", "all_to_all", 91}},
                                     {{"6", "all_to_all", 91}},
                                     {}});
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].rank, 3);
  EXPECT_EQ(culprits[0].how, CollectiveCulprit::How::kNothingBegun);
  EXPECT_EQ(culprits[0].operation, "all_to_all");
  EXPECT_EQ(culprits[0].sequence, 91);
  EXPECT_EQ(culprits[0].waiting, (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(FlightRecorder, ARankWhoseDeviceIsStuckIsBehind) {
  const auto culprits = culprits_of({{{"6", "all_to_all", 97}},
                                     {{"6", "all_to_all", 90}, {"6", "all_to_all", 97}},
                                     {{"6", "all_to_all", 97}},
                                     {{"6", "all_to_all", 97}}});
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].rank, 1);
  EXPECT_EQ(culprits[0].how, CollectiveCulprit::How::kBehind);
  EXPECT_EQ(culprits[0].sequence, 90);
}

TEST(FlightRecorder, ARankWithoutADumpWasGoneBefore) {
  const auto culprits = culprits_of({{{"6", "all_reduce", 5}},
                                     {{"6", "all_reduce", 5}},
                                     {{"no dump", "", 0}},
                                     {{"6", "all_reduce", 5}}});
  ASSERT_EQ(culprits.size(), 1U);
  EXPECT_EQ(culprits[0].rank, 2);
  EXPECT_EQ(culprits[0].how, CollectiveCulprit::How::kNoDump);
}

TEST(FlightRecorder, NobodyIsBlamedWhereAllHaveCome) {
  EXPECT_TRUE(culprits_of({{{"6", "all_reduce", 5}},
                           {{"6", "all_reduce", 5}},
                           {{"6", "all_reduce", 5}},
                           {{"6", "all_reduce", 5}}})
                  .empty());
  EXPECT_TRUE(culprits_of({{}, {}, {}, {}}).empty());
  EXPECT_TRUE(culprits_of({{{"6", "all_reduce", 5, "completed"}}, {}, {}, {}}).empty());
}

TEST(FlightRecorder, CutDumpsAreRefused) {
  const std::string bytes = dump_of({{"6", "all_to_all", 91}});
  for (std::size_t end = 0; end < bytes.size(); end += 3)
    EXPECT_FALSE(read_flight_recorder(std::string_view(bytes).substr(0, end), "_dump_1"));
  EXPECT_FALSE(read_flight_recorder("{\"a\": 1}", "_dump_1"));
}

}  // namespace
}  // namespace steelyard
