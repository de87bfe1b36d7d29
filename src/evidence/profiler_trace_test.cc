#include "evidence/profiler_trace.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "evidence/foreign_file.h"
#include "evidence/memory_timeline.h"
#include "evidence/trace_times.h"

namespace steelyard {
namespace {

std::string event(std::string_view category, std::string_view name, double start, double duration) {
  return R"({"ph": "X", "cat": ")" + std::string(category) + R"(", "name": ")" + std::string(name) +
         R"(", "pid": 0, "tid": 7, "ts": )" + std::to_string(start) + R"(, "dur": )" +
         std::to_string(duration) + R"(, "args": {"stream": 7, "grid": [1, 2, 3]}})";
}

std::string memory(int type, int device, std::int64_t bytes, std::int64_t allocated,
                   std::int64_t reserved) {
  return R"({"ph": "i", "s": "t", "name": "[memory]", "cat": "cpu_instant_event", "ts": 5, "args": {"Device Type": )" +
         std::to_string(type) + R"(, "Device Id": )" + std::to_string(device) + R"(, "Bytes": )" +
         std::to_string(bytes) + R"(, "Total Allocated": )" + std::to_string(allocated) +
         R"(, "Total Reserved": )" + std::to_string(reserved) + "}}";
}

std::string small_trace() {
  return R"({"schemaVersion": 1, "deviceProperties": [{"id": 0, "totalGlobalMem": 85899345920}], "distributedInfo": {"backend": "nccl",
 "rank": 3, "world_size": 8}, "traceEvents": [)" +
         event("user_annotation", "ProfilerStep#7", 0, 2000) + "," +
         event("kernel", "gemm", 1000, 100) + "," +
         // overlaps the first by 50, the communication by 100
         event("kernel", "gemm \\\\ \\\" quoted", 1050, 150) + "," +
         event("kernel",
               "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1100,
               300) +
         "," + event("gpu_memcpy", "Memcpy DtoH", 1500, 100) + "," +
         event("gpu_user_annotation", "ProfilerStep#7", 0, 9000) + "," +
         event("cuda_runtime", "cudaMalloc", 10, 5) + "," +
         event("cuda_runtime", "cudaStreamSynchronize", 20, 250) + "," +
         event("user_annotation", "enumerate(DataLoader)#_Single.__next__", 30, 400) + "," +
         memory(1, 0, 512, 1000, 4000) + "," + memory(1, 0, 512, 3000, 4000) + "," +
         memory(0, -1, 512, 9000, 9000) + "," + memory(6, 1, 512, 2000, 2500) +
         R"(], "traceName": "x"})";
}

TEST(ProfilerTrace, SharesOfTheSpan) {
  const std::string text = small_trace();
  EXPECT_GT(recognise_profiler_trace(text, "a.json"), 50);
  const auto evidence = read_profiler_trace(text, "rank0_trace.json");
  ASSERT_TRUE(evidence);
  EXPECT_TRUE(evidence->complete);
  EXPECT_EQ(evidence->rank, 3);
  EXPECT_EQ(evidence->clues.world_size, 8);
  const TraceTimes& times = *evidence->trace;
  EXPECT_NEAR(times.span_seconds, 600e-6, 1e-12);
  EXPECT_NEAR(times.busy_seconds, 500e-6, 1e-12);           // 1000-1400, 1500-1600
  EXPECT_NEAR(times.communication_seconds, 300e-6, 1e-12);  // 1100-1400
  EXPECT_NEAR(times.exposed_seconds, 200e-6, 1e-12);        // 1200-1400
  EXPECT_NEAR(times.idle_seconds, 100e-6, 1e-12);
  EXPECT_EQ(times.collectives.at("all_reduce").count, 1);
  EXPECT_EQ(times.driver_allocations, 1);
  EXPECT_NEAR(times.synchronize_seconds, 250e-6, 1e-12);
  EXPECT_NEAR(times.data_loader_seconds, 400e-6, 1e-12);
  ASSERT_EQ(times.steps.size(), 1U);
  EXPECT_EQ(times.steps[0].number, 7);
  EXPECT_NEAR(times.steps[0].seconds, 2e-3, 1e-9);
  EXPECT_EQ(times.device_total, Bytes(85899345920));
  ASSERT_EQ(times.memory.size(), 2U);
  EXPECT_EQ(times.memory[0].peak_allocated, Bytes(3000));
  EXPECT_EQ(times.memory[0].peak_reserved, Bytes(4000));
  EXPECT_EQ(times.memory[1].device, 1);
  EXPECT_EQ(times.memory[1].peak_allocated, Bytes(2000));
  ASSERT_EQ(evidence->readings.size(), 3U);
  EXPECT_EQ(evidence->readings[0].max_allocated, Bytes(3000));
  EXPECT_EQ(evidence->readings[2].step, 7);
}

TEST(ProfilerTrace, OldNamesOfCategoriesAndNoTotals) {
  const std::string text =
      "[" + event("Kernel", "gemm", 0, 100) + "," + event("Memset", "m", 200, 100) + R"(,
 {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Device Type": 1, "Device Id": 0, "Bytes": 4096}},
 {"ph": "i", "name": "[memory]", "ts": 2, "args": {"Device Type": 1, "Device Id": 0, "Bytes": -4096}}])";
  EXPECT_GT(recognise_profiler_trace(text, "a.json"), 50);
  const auto evidence = read_profiler_trace(text, "a.json");
  ASSERT_TRUE(evidence);
  EXPECT_NEAR(evidence->trace->busy_seconds, 200e-6, 1e-12);
  ASSERT_EQ(evidence->trace->memory.size(), 1U);
  EXPECT_TRUE(evidence->trace->memory[0].from_start);
  EXPECT_EQ(evidence->trace->memory[0].peak_allocated, Bytes(4096));
  // Over an unknown base it is no allocated memory.
  EXPECT_FALSE(evidence->readings.at(0).max_allocated);
}

TEST(ProfilerTrace, WithoutADeviceItSaysSo) {
  const auto evidence = read_profiler_trace(
      R"({"traceEvents": [)" + event("cpu_op", "aten::mm", 0, 5) + "]}", "a.json");
  ASSERT_TRUE(evidence);
  EXPECT_FALSE(evidence->complete);
  EXPECT_NE(evidence->why_incomplete.find("no GPU activity recorded"), std::string::npos);
}

TEST(ProfilerTrace, AnOutOfMemoryEventIsAFailure) {
  const auto evidence = read_profiler_trace(
      R"({"distributedInfo": {"rank": 2}, "traceEvents": [{"ph": "i", "name": "[OutOfMemory]", "ts": 1, "args": {"Device Type": 1,
 "Device Id": 0, "Bytes": 4096, "Total Allocated": 9000, "Total Reserved": 9500}}]})",
      "a.json");
  ASSERT_TRUE(evidence);
  ASSERT_EQ(evidence->failures.size(), 1U);
  EXPECT_EQ(evidence->failures[0].tried, Bytes(4096));
  EXPECT_EQ(evidence->failures[0].reserved, Bytes(9500));
  EXPECT_EQ(evidence->failures[0].rank, 2);
}

TEST(ProfilerTrace, CutAnywhereItIsReadToTheBreak) {
  const std::string text = small_trace();
  for (std::size_t end = 1; end + 20 < text.size(); ++end) {
    const auto evidence = read_profiler_trace(std::string_view(text).substr(0, end), "a.json");
    ASSERT_TRUE(evidence);
    EXPECT_FALSE(evidence->complete) << end;
  }
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int change = 0; change < 3; ++change)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    read_profiler_trace(damaged, "a.json");
  }
}

TEST(MemoryTimeline, ChangesAndSizesGiveThePeak) {
  const std::string raw =
      "[[-1, 1, 1000, 0], [10, 2, 500, 4], [11, 3, -500, 4], [11, 3, 500, 5], [12, 2, 100, 7], "
      "[13, 4, -500, 5]]";
  EXPECT_GT(recognise_memory_timeline(raw, "a.raw.json"), 50);
  const auto evidence = read_memory_timeline(raw, "a.raw.json");
  ASSERT_TRUE(evidence);
  EXPECT_EQ(evidence->era, "raw");
  ASSERT_EQ(evidence->readings.size(), 4U);
  EXPECT_EQ(evidence->readings[0].max_allocated, Bytes(1600));
  EXPECT_EQ(evidence->readings[1].label, "parameters");
  EXPECT_EQ(evidence->readings[2].label, "gradient");
  EXPECT_EQ(evidence->readings[2].allocated, Bytes(500));
  const auto sizes = read_memory_timeline(
      "[[1, 2], [[0, 10, 0, 0, 0, 0, 0, 0, 1], [0, 10, 20, 0, 0, 5, 0, 0, 1]]]", "a.json");
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->era, "json");
  EXPECT_EQ(sizes->readings.at(0).max_allocated, Bytes(36));
  EXPECT_FALSE(read_memory_timeline("[[-1, 1, 1000, 0], [10, 2", "a")->complete);
  EXPECT_EQ(recognise_memory_timeline("[{\"a\": 1}]", "a"), 0);
  EXPECT_EQ(recognise_memory_timeline("[1, 2]", "timeline"), 0);
}

TEST(ForeignFile, IsNamedForWhatItIs) {
  const auto named = [](std::string_view head) {
    const auto file = foreign_file(head, "x");
    return file ? file->what : std::string("none");
  };
  EXPECT_NE(named("version https://git-lfs.github.com/spec/v1\noid sha256:0\n").find("Git LFS"),
            std::string::npos);
  EXPECT_NE(named("<!DOCTYPE html><html>").find("HTML"), std::string::npos);
  EXPECT_NE(named("").find("empty"), std::string::npos);
  EXPECT_NE(named(std::string_view("\x7f"
                                   "ELF\x02\x01",
                                   6))
                .find("core dump"),
            std::string::npos);
  EXPECT_NE(named(std::string_view("PK\x03\x04zz", 6)).find("zip"), std::string::npos);
  EXPECT_NE(named(std::string_view("\x10\0\0\0\0\0\0\0{\"a\"", 12)).find("safetensors"),
            std::string::npos);
  EXPECT_NE(named(std::string(257, 'x') + "ustar").find("tar"), std::string::npos);
  EXPECT_EQ(named("step 1 | loss 2\n"), "none");
  EXPECT_EQ(named("{\"traceEvents\": []}"), "none");
  EXPECT_EQ(named(std::string_view("\x80\x04\x95", 3)), "none");
}

}  // namespace
}  // namespace steelyard
