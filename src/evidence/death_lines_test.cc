// Deaths that are not the allocator's: launchers, hosts, schedulers, hardware, collectives, and libraries.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "evidence/log_reader.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

using DeathKind = MemoryFailure::Kind;

struct Death {
  std::string text;
  DeathKind kind;
  std::string backend;
  std::optional<std::int64_t> rank = {};
  std::optional<Bytes> tried = {}, allocated = {}, capacity = {};
};

TEST(DeathLines, EachSaysItsKind) {
  const std::vector<Death> deaths = {
      {"RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED at "
       "\"../c10/cuda/CUDACachingAllocator.cpp\":99, please report",
       DeathKind::kDeviceAllocator, "nvml"},
      {"RuntimeError: CUDA driver error: out of memory", DeathKind::kDeviceAllocator, "driver"},
      {"[rank2]: RuntimeError: CUDA error: out of memory", DeathKind::kDeviceOutside, "cuda", 2},
      {"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
       DeathKind::kDeviceOutside, "cublas"},
      {"RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", DeathKind::kDeviceOutside, "cudnn"},
      {"RuntimeError: GET was unable to find an engine to execute this computation",
       DeathKind::kDeviceOutside, "cudnn"},
      {"node7:71:99 [3] init.cc:1 NCCL WARN Cuda failure 'out of memory'",
       DeathKind::kDeviceOutside, "nccl"},
      {"node7:71:99 [3] alloc.h:1 NCCL WARN Failed to CUDA calloc async 2097152 bytes",
       DeathKind::kDeviceOutside,
       "nccl",
       {},
       Bytes(2097152)},
      {"node7:71:99 [3] alloc.h:1 NCCL WARN Failed to CUDA host alloc 4096 bytes",
       DeathKind::kHost,
       "nccl",
       {},
       Bytes(4096)},
      {"RuntimeError: [enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate "
       "memory: you tried to allocate "
       "8589934592 bytes. Error code 12 (Cannot allocate memory)",
       DeathKind::kHost,
       "cpu",
       {},
       Bytes(8589934592)},
      {"RuntimeError: DataLoader worker (pid 71) is killed by signal: Killed. ", DeathKind::kHost,
       "dataloader"},
      {"RuntimeError: DataLoader worker (pid 71) is killed by signal: Bus error. It is possible "
       "that",
       DeathKind::kHost, "shm"},
      {"RuntimeError: DataLoader worker (pid 71) is killed by signal: Segmentation fault. ",
       DeathKind::kOther, "dataloader"},
      {"Memory on the node (IP: 10.0.0.4, ID: 5b) where the task (task ID: 7) was running was "
       "118.50GB / 120.00GB (0.98), which "
       "exceeds the memory usage threshold of 0.95.",
       DeathKind::kHost,
       "ray",
       {},
       {},
       printed_bytes(118.5, kGibibyte),
       printed_bytes(120, kGibibyte)},
      {"slurmstepd: error: Detected 2 oom_kill events in StepId=71.0. Some of the step tasks have "
       "been OOM Killed.",
       DeathKind::kHost, "slurm"},
      {"slurmstepd: error: Detected 1 oom-kill event(s) in step 71.batch cgroup. Some of your "
       "processes may have been killed",
       DeathKind::kHost, "slurm"},
      {"srun: error: node7: task 3: Out Of Memory", DeathKind::kHost, "slurm", 3},
      {"srun: error: node7: tasks 4-7: Killed", DeathKind::kKilled, "slurm", 4},
      {"slurmstepd: error: StepId=71.0 exceeded memory limit (2000 > 1000), being killed",
       DeathKind::kHost,
       "slurm",
       {},
       {},
       Bytes(2000 * 1024),
       Bytes(1000 * 1024)},
      {"State: OUT_OF_MEMORY (exit code 0)\nMemory Utilized: 61.50 GB\nMemory Efficiency: 96.09% "
       "of 64.00 GB",
       DeathKind::kHost,
       "slurm",
       {},
       {},
       printed_bytes(61.5, kGibibyte),
       printed_bytes(64, kGibibyte)},
      {"JobID|State|ExitCode|MaxRSS|ReqMem\n71|OUT_OF_MEMORY|0:125||64Gn\n71.0|OUT_OF_MEMORY|0:125|"
       "63001248K|64Gn",
       DeathKind::kHost,
       "slurm",
       {},
       {},
       printed_bytes(63001248, kKibibyte),
       printed_bytes(64, kGibibyte)},
      {"JobID           State ExitCode     MaxRSS     ReqMem \n------------ ---------- -------- "
       "---------- ---------- \n71           "
       "OUT_OF_ME+    0:125                   64Gn \n71.0         OUT_OF_ME+    0:125  63001248K   "
       "    64Gn ",
       DeathKind::kHost,
       "slurm",
       {},
       {},
       printed_bytes(63001248, kKibibyte),
       printed_bytes(64, kGibibyte)},
      {"slurmstepd: error: *** JOB 71 ON node7 CANCELLED AT 2026-06-10T09:59:21 DUE TO TIME LIMIT "
       "***",
       DeathKind::kOther, "slurm"},
      {"[ 99.5] memory: usage 2000kB, limit 3000kB, failcnt 9\n[ 99.6] "
       "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=0-2,4,cpuset=/,"
       "oom_memcg=/a,task=python3,pid=7,uid=0\n[ 99.6] Memory cgroup out of memory: Killed process "
       "7 (python3) total-vm:9000kB, "
       "anon-rss:1500kB, file-rss:400kB, shmem-rss:100kB, UID:0 pgtables:1kB oom_score_adj:0",
       DeathKind::kHost,
       "kernel",
       {},
       {},
       Bytes(2000 * 1024),
       Bytes(3000 * 1024)},
      {"Feb 03 19:57:08 node7 kernel: Out of memory: Killed process 7 (ray::train) total-vm:9kB, "
       "anon-rss:8kB, file-rss:0kB, "
       "shmem-rss:0kB",
       DeathKind::kHost,
       "kernel",
       {},
       {},
       Bytes(8 * 1024)},
      {"    Reason:       OOMKilled", DeathKind::kHost, "kubernetes"},
      {"run.sh: line 11: 33333 Killed                  python train.py", DeathKind::kKilled,
       "shell"},
      {"[ERROR] [launch.py:1:sigkill_handler] ['python', 'train.py'] exits with return code = -9",
       DeathKind::kKilled, "deepspeed"},
      {"E0608 19:04:45.368000 71 a/api.py:869] failed (exitcode: -9) local_rank: 4 (pid: 71) of "
       "binary: /usr/bin/python3",
       DeathKind::kKilled, "elastic", 4},
      {"NVRM: Xid (PCI:0000:4e:00): 79, pid=7, GPU has fallen off the bus.", DeathKind::kHardware,
       "device"},
      {"RuntimeError: CUDA error: uncorrectable ECC error encountered", DeathKind::kHardware,
       "device"},
      {"RuntimeError: CUDA error: an illegal memory access was encountered", DeathKind::kOther,
       "device"},
      {"triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 9, "
       "Hardware limit: 8.",
       DeathKind::kOther, "device"},
      {"[rank3]:[E1003 18:37:01.832146912 a.cpp:1] [Rank 3] Watchdog caught collective operation "
       "timeout: WorkNCCL(SeqNum=91, "
       "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600042 milliseconds "
       "before timing out.",
       DeathKind::kCollectiveTimeout, "nccl", 3}};
  for (const Death& death : deaths) {
    SCOPED_TRACE(death.text);
    const Evidence evidence = read_log(death.text + "\n", "train.log");
    ASSERT_EQ(evidence.failures.size(), 1U);
    const MemoryFailure& failure = evidence.failures.front();
    EXPECT_EQ(failure.kind, death.kind);
    EXPECT_EQ(failure.backend, death.backend);
    EXPECT_EQ(failure.rank, death.rank);
    EXPECT_EQ(failure.tried, death.tried);
    EXPECT_EQ(failure.allocated, death.allocated);
    EXPECT_EQ(failure.capacity, death.capacity);
    EXPECT_TRUE(failure.fatal);
  }
}

TEST(DeathLines, WhatIsNoDeath) {
  for (const std::string_view text :
       {"[INFO] [launch.py:335:sigkill_handler] Killing subprocess 71",
        "W0608 api.py:897] Sending process 72 closing signal SIGTERM",
        "[INFO] [launch.py:1:main] Process 71 exits successfully.", "\"OOMKilled\": false",
        "Set PYTORCH_CUDA_ALLOC_CONF to avoid that CUDA runs out of memory.", "pin_memory=True",
        "exits with return code = 0"})
    EXPECT_TRUE(read_log(std::string(text) + "\n", "a").failures.empty()) << text;
}

TEST(DeathLines, TheFirstExplainsTheRest) {
  const Evidence evidence = read_log(
      "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 1 has "
      "a total capacity of 8.00 GiB of "
      "which 0 bytes is free. Of the allocated memory 7.00 GiB is allocated by PyTorch, and 0 "
      "bytes is reserved by PyTorch but "
      "unallocated.\n"
      "[rank0]:[E1003 18:37:01.8 a.cpp:1] [Rank 0] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=91, "
      "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600042 milliseconds "
      "before timing out.\n"
      "[ERROR] [launch.py:1:sigkill_handler] ['python'] exits with return code = -9\n",
      "a");
  ASSERT_EQ(evidence.failures.size(), 3U);
  EXPECT_FALSE(evidence.failures[0].consequence);
  EXPECT_TRUE(evidence.failures[1].consequence);
  EXPECT_TRUE(evidence.failures[2].consequence);
}

TEST(DeathLines, TheElasticBlockIsOneDeath) {
  const Evidence evidence = read_log(
      "E0608 19:04:45.368000 71 a/api.py:869] failed (exitcode: -9) local_rank: 2 (pid: 71) of "
      "binary: /usr/bin/python3\n"
      "============================================================\ntrain.py FAILED\n"
      "Failures:\n  <NO_OTHER_FAILURES>\nRoot Cause (first observed failure):\n[0]:\n  time      : "
      "2026-06-08_19:04:45\n"
      "  host      : node7\n  rank      : 10 (local_rank: 2)\n  exitcode  : -9 (pid: 71)\n  "
      "error_file: <N/A>\n"
      "  traceback : Signal 9 (SIGKILL) received by PID 71\n",
      "a");
  ASSERT_EQ(evidence.failures.size(), 1U);
  EXPECT_EQ(evidence.failures[0].rank, 10);
  EXPECT_EQ(evidence.failures[0].kind, DeathKind::kKilled);
}

TEST(DeathLines, AnotherExceptionIsNotAboutMemory) {
  const Evidence evidence = read_log(
      "Traceback (most recent call last):\n  File \"/a/train.py\", line 3, in main\n    "
      "f()\nKeyError: 'input_ids'\n",
      "a");
  ASSERT_EQ(evidence.failures.size(), 1U);
  EXPECT_EQ(evidence.failures[0].kind, DeathKind::kOther);
  EXPECT_EQ(evidence.failures[0].message, "KeyError: 'input_ids'");
  EXPECT_EQ(evidence.failures[0].frames, std::vector<std::string>{"a/train.py:3 main: f()"});
}

TEST(DeathLines, TheWatchdogSaysHowFarEachRankCame) {
  const Evidence evidence = read_log(
      "[rank3]:[E1003 18:37:01.8 a.cpp:1] [PG ID 2 PG GUID 5(tensor) Rank 3] Timeout at NCCL work: "
      "91, last enqueued NCCL work: 93, "
      "last completed NCCL work: 90.\n",
      "a");
  ASSERT_EQ(evidence.collectives.size(), 2U);
  EXPECT_EQ(evidence.collectives[0].state, "last enqueued");
  EXPECT_EQ(evidence.collectives[0].sequence, 93);
  EXPECT_EQ(evidence.collectives[0].rank, 3);
  EXPECT_EQ(evidence.collectives[1].sequence, 90);
}

}  // namespace
}  // namespace steelyard
