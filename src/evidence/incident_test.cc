#include "evidence/incident.h"

#include <gtest/gtest.h>

#include "evidence/log_reader.h"

namespace steelyard {
namespace {

using DeathKind = MemoryFailure::Kind;

constexpr const char* kOutOf =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
    "capacity of 8.00 GiB of which 0 "
    "bytes is free. Of the allocated memory 7.00 GiB is allocated by PyTorch, and 0 bytes is "
    "reserved by PyTorch but unallocated.\n";

TEST(Incident, RanksOfPaths) {
  EXPECT_EQ(rank_of_path("logs/rank_3/stderr.log"), 3);
  EXPECT_EQ(rank_of_path("logs/run/attempt_0/5/stderr.log"), 5);
  EXPECT_EQ(rank_of_path("oom/snapshot_oom_rank-7.pickle"), 7);
  EXPECT_EQ(rank_of_path("out/step_000000000020_exit/000003_step_20.pickle"), 3);
  EXPECT_FALSE(rank_of_path("logs/train.log"));
}

TEST(Incident, TheFirstInTimeWinsWhateverTheOrderOfFiles) {
  std::vector<Evidence> evidence;
  evidence.push_back(read_log(
      "2026-06-16 23:55:00 [rank0]: RuntimeError: NCCL error in: a.cpp:1, unhandled cuda error\n",
      "a.log"));
  evidence.push_back(read_log(std::string("2026-06-16 23:42:09 ") + kOutOf, "rank_1.log"));
  evidence.push_back(read_log(std::string("2026-06-16 23:42:02 ") + kOutOf, "rank_3.log"));
  evidence.push_back(read_log(
      "[2026-06-16 23:43:00,1] [ERROR] [launch.py:1:x] ['p'] exits with return code = -9\n",
      "z.log"));
  const Incident incident = join_incident(evidence);
  ASSERT_TRUE(incident.first);
  EXPECT_EQ(incident.first->evidence, 2U);
  EXPECT_EQ(evidence[2].failures[0].rank, 3);
  ASSERT_EQ(incident.order.size(), 4U);
  EXPECT_TRUE(evidence[3].failures[0].consequence);
  EXPECT_FALSE(evidence[1].failures[0].consequence);
}

TEST(Incident, TheKernelExplainsAKill) {
  std::vector<Evidence> evidence;
  evidence.push_back(
      read_log("E0608 19:04:45.3 71 a/api.py:869] failed (exitcode: -9) local_rank: 4 (pid: 71) of "
               "binary: p\n",
               "train.log"));
  evidence.push_back(
      read_log("[ 99.6] Memory cgroup out of memory: Killed process 71 (python3) total-vm:9kB, "
               "anon-rss:8kB, file-rss:0kB, "
               "shmem-rss:0kB\n",
               "dmesg.txt"));
  const Incident incident = join_incident(evidence);
  ASSERT_TRUE(incident.first);
  EXPECT_EQ(incident.first->evidence, 1U);
  EXPECT_TRUE(evidence[0].failures[0].consequence);
  EXPECT_EQ(evidence[1].kind, "kernel");
}

TEST(Incident, SilentRanksAreTold) {
  std::vector<Evidence> evidence;
  for (const int rank : {0, 1, 3}) {
    evidence.push_back(read_log("dist_world_size=4\n", "rank" + std::to_string(rank) + ".log"));
  }
  const Incident incident = join_incident(evidence);
  EXPECT_EQ(incident.ranks, (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_EQ(incident.silent_ranks, std::vector<std::int64_t>{2});
  EXPECT_FALSE(incident.first);
}

TEST(Incident, AHangSaysWhoHoldsTheOthersUp) {
  std::vector<Evidence> evidence;
  for (const int rank : {0, 1}) {
    const std::string entries =
        rank == 0 ? R"({"process_group": ["6", "EXPERT"], "profiling_name": "nccl:all_to_all",
        "collective_seq_id": 91, "state": "scheduled"})"
                  : "";
    auto dump = read_flight_recorder(
        R"({"version": "2.9", "pg_config": {"6": {"desc": "EXPERT", "ranks": "[0, 1]"}}, "entries": [)" +
            entries + "]}",
        "_dump_" + std::to_string(rank));
    ASSERT_TRUE(dump);
    evidence.push_back(std::move(*dump));
  }
  const Incident incident = join_incident(evidence);
  ASSERT_TRUE(incident.first);
  const MemoryFailure& failure =
      evidence[incident.first->evidence].failures[incident.first->failure];
  EXPECT_EQ(failure.kind, DeathKind::kCollectiveTimeout);
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(
      failure.message,
      "rank 1 has no outstanding collective while ranks 0 wait in all_to_all 91 of EXPERT (6)");
}

TEST(Incident, NothingIsNoIncident) {
  std::vector<Evidence> none;
  EXPECT_FALSE(join_incident(none).first);
}

}  // namespace
}  // namespace steelyard
