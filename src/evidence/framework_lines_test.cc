// Memory lines of frameworks, each in its own unit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "evidence/log_reader.h"
#include "evidence/printed.h"
#include "evidence/printed_line_for_tests.h"

namespace steelyard {
namespace {

constexpr double kGB = 1e9;

TEST(FrameworkLines, EachInItsOwnUnit) {
  const std::optional<Bytes> no;
  expect_each_read(
      {{"[Rank 3] (after 2 iterations) memory (MB) | allocated: 1000.5 | max allocated: 2000.25 | "
        "reserved: 3000.0 | max "
        "reserved: 3001.0 | total device memory used: 4000.0",
        "megatron",
        "after step",
        3,
        {},
        2,
        of(1000.5, kMebibyte),
        of(2000.25, kMebibyte),
        of(3000, kMebibyte),
        of(3001, kMebibyte),
        of(4000, kMebibyte),
        no,
        no},
       {"[Rank 0] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 12.305 | "
        "mem-reserved-gigabytes: 20.5 | "
        "mem-max-allocated-gigabytes: 18.25 | mem-max-reserved-gigabytes: 21.5 | "
        "mem-alloc-retires: "
        "4",
        "megatron-bridge",
        "after step",
        0,
        {},
        2,
        of(12.305, kGB),
        of(18.25, kGB),
        of(20.5, kGB),
        of(21.5, kGB),
        no,
        no,
        no,
        {},
        4},
       {" [2026-05-26 04:37:42.042] iteration       20/    1000 | consumed samples: 20480 | "
        "elapsed "
        "time per iteration (ms): "
        "1382.5 | lm loss: 2.6E+00 | number of skipped iterations: 0 |",
        "megatron",
        "step",
        {},
        {},
        20,
        no,
        no,
        no,
        no,
        no,
        no,
        no,
        1.3825},
       {" iteration        3/      10 | consumed samples: 96 | elapsed time per iteration (s): "
        "346.5 | lm loss: 2.6 |",
        "megatron",
        "step",
        {},
        {},
        3,
        no,
        no,
        no,
        no,
        no,
        no,
        no,
        346.5},
       {"Theoretical memory footprints: weight and optimizer=1024.00 MB, activation=512.00 MB, "
        "total=1536.00 MB",
        "megatron",
        "theoretical memory",
        {},
        {},
        {},
        of(1536, kMebibyte),
        no,
        no,
        no,
        no,
        no,
        no},
       {"[2026-05-25 22:30:04,194] [INFO] [utils.py:1:see_memory_usage] After initializing ZeRO "
        "optimizer\n[2026-05-25 "
        "22:30:04,194] [INFO] [utils.py:2:see_memory_usage] MA 10.5 GB         Max_MA 19.75 GB     "
        " "
        "   CA 23.25 GB         "
        "Max_CA 23 GB",
        "deepspeed",
        "After initializing ZeRO optimizer",
        {},
        {},
        {},
        of(10.5, kGibibyte),
        of(19.75, kGibibyte),
        of(23.25, kGibibyte),
        of(23, kGibibyte),
        no,
        no,
        no},
       {"before forward\nMA 1.5 GB         Max_MA 2.5 GB         CA 3.5 GB         Max_CA 4 GB "
        "\nCPU Virtual Memory:  used = "
        "42.5 GB, percent = 8.5%",
        "deepspeed",
        "before forward",
        {},
        {},
        {},
        of(1.5, kGibibyte),
        of(2.5, kGibibyte),
        of(3.5, kGibibyte),
        of(4, kGibibyte),
        no,
        no,
        of(42.5, kGibibyte)},
       {"epoch=0/micro_step=80/global_step=10, RunningAvgSamplesPerSec=171.8, "
        "CurrSamplesPerSec=171.1, MemAllocated=3.5GB, "
        "MaxMemAllocated=22.75GB",
        "deepspeed",
        "step",
        {},
        {},
        10,
        of(3.5, kGibibyte),
        of(22.75, kGibibyte),
        no,
        no,
        no,
        no,
        no},
       {"\x1b[31mstep: 10  \x1b[32mloss:  7.1\x1b[39m  grad_norm: 1.2  \x1b[34mmemory: "
        "39.25GiB(49.25%)  \x1b[36mtps: 6,234",
        "torchtitan",
        "step",
        {},
        {},
        10,
        no,
        no,
        no,
        of(39.25, kGibibyte),
        no,
        no,
        no},
       {"CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory",
        "torchtitan",
        "capacity",
        {},
        {},
        {},
        no,
        no,
        no,
        no,
        no,
        of(79.1, kGibibyte),
        no},
       {"3 CUDA memory allocation retries.",
        "torchtitan",
        "retries",
        {},
        {},
        {},
        no,
        no,
        no,
        no,
        no,
        no,
        no,
        {},
        3},
       {"{'loss': '0.7', 'memory/max_active (GiB)': '2.75', 'memory/max_allocated (GiB)': '2.5', "
        "'memory/device_reserved "
        "(GiB)': '4.125', 'epoch': '0.1'}",
        "axolotl",
        "step",
        {},
        {},
        {},
        no,
        of(2.5, kGibibyte),
        of(4.125, kGibibyte),
        no,
        no,
        no,
        no},
       {"{\"current_steps\": 5, \"total_steps\": 100, \"loss\": 1.1, \"vram_allocated\": 61.25, "
        "\"vram_reserved\": 70.5}",
        "llama-factory",
        "step",
        {},
        {},
        5,
        no,
        of(61.25, kGibibyte),
        of(70.5, kGibibyte),
        no,
        no,
        no,
        no},
       {"  train_mem_gpu_alloc_delta    =     1234MB\n  train_mem_gpu_peaked_delta   =      766MB",
        "transformers",
        "train",
        {},
        0,
        {},
        of(1234, kMebibyte),
        of(2000, kMebibyte),
        no,
        no,
        no,
        no,
        no},
       {"\tGPU peak memory allocation: 2.50 GiB\n\tGPU peak memory reserved: 2.75 GiB",
        "torchtune",
        "",
        {},
        {},
        {},
        no,
        of(2.5, kGibibyte),
        no,
        of(2.75, kGibibyte),
        no,
        no,
        no},
       {"GPU peak memory allocation: 2.50 GB",
        "torchtune",
        "",
        {},
        {},
        {},
        no,
        of(2.5, kGB),
        no,
        no,
        no,
        no,
        no},
       {" Memory usage: 100.50MiB. Peak allocated 200.25MiB. Peak reserved: 300.00MiB",
        "nanotron",
        "Memory usage: 100.50MiB.",
        {},
        {},
        {},
        of(100.5, kMebibyte),
        of(200.25, kMebibyte),
        no,
        of(300, kMebibyte),
        no,
        no,
        no},
       {"Memory used: 12.50 GB", "litgpt", "", {}, {}, {}, no, of(12.5, kGB), no, no, no, no, no},
       {"After init, memory allocated (GB): 1.25, memory reserved (GB): 2.5, device memory "
        "used/total (GB): 3.75/79.10",
        "verl",
        "After init",
        {},
        {},
        {},
        of(1.25, kGibibyte),
        no,
        of(2.5, kGibibyte),
        no,
        of(3.75, kGibibyte),
        of(79.1, kGibibyte),
        no},
       {"GPU Memory after optimizer offload: 1.25GB allocated, 2.50GB reserved",
        "nemo-rl",
        "",
        {},
        {},
        {},
        of(1.25, kGibibyte),
        no,
        of(2.5, kGibibyte),
        no,
        no,
        no,
        no},
       {"on_train_batch_end rank: 2 mem: 12.5 / 15.25",
        "nemo",
        "step",
        2,
        {},
        {},
        of(12.5, kGibibyte),
        no,
        no,
        of(15.25, kGibibyte),
        no,
        no,
        no}});
}

TEST(FrameworkLines, GluedRecordsAreEachRead) {
  const Evidence evidence = read_log(
      "[Rank 13] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | "
      "reserved: 3.0 | max reserved: "
      "4.0[Rank 12] (after 2 iterations) memory (MB) | allocated: 5.0 | max allocated: 6.0 | "
      "reserved: 7.0 | max reserved: "
      "8.0[Rank 14] (after 2 iterations) memory (MB) | allocated: 9.0 | max allocated: 10.0 | "
      "reserved: 11.0 | max reserved: 12.0\n",
      "a");
  ASSERT_EQ(evidence.readings.size(), 3U);
  EXPECT_EQ(evidence.readings[0].rank, 13);
  EXPECT_EQ(evidence.readings[0].max_reserved, of(4, kMebibyte));
  EXPECT_EQ(evidence.readings[1].rank, 12);
  EXPECT_EQ(evidence.readings[1].allocated, of(5, kMebibyte));
  EXPECT_EQ(evidence.readings[2].rank, 14);
  EXPECT_EQ(evidence.readings[2].max_allocated, of(10, kMebibyte));
}

TEST(FrameworkLines, ArgumentsSayWhichRunItWas) {
  const Evidence evidence = read_log(
      "using world size: 16, data-parallel-size: 2, tensor-model-parallel size: 4, "
      "pipeline-model-parallel size: 2 \n"
      "------------------------ arguments ------------------------\n"
      "  hidden_size ..................................... 6144\n"
      "  bias_dropout_fusion ............................. True\n"
      "-------------------- end of arguments ---------------------\n"
      "$ torchrun --nproc_per_node 8 train.py --config configs/big.yaml --deepspeed=ds.json\n",
      "a");
  EXPECT_EQ(evidence.clues.world_size, 16);
  EXPECT_EQ(evidence.clues.arguments.at("hidden_size"), "6144");
  EXPECT_EQ(evidence.clues.arguments.at("bias_dropout_fusion"), "True");
  ASSERT_EQ(evidence.clues.commands.size(), 1U);
  EXPECT_EQ(evidence.clues.launch_files, (std::vector<std::string>{"configs/big.yaml", "ds.json"}));
}

}  // namespace
}  // namespace steelyard
