// Memory lines of PyTorch itself and of the monitors of a device, each in its own unit.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "evidence/log_reader.h"
#include "evidence/printed.h"
#include "evidence/printed_line_for_tests.h"

namespace steelyard {
namespace {

TEST(ToolLines, EachInItsOwnUnit) {
  const std::optional<Bytes> no;
  expect_each_read(
      {{"OrderedDict([('active.all.allocated', 5), ('allocated_bytes.all.current', 1000), "
        "('allocated_bytes.all.peak', 2000), "
        "('num_alloc_retries', 1), ('num_ooms', 2), ('reserved_bytes.all.current', 3000), "
        "('reserved_bytes.all.peak', 4000)])",
        "memory_stats",
        "memory_stats",
        {},
        {},
        {},
        Bytes(1000),
        Bytes(2000),
        Bytes(3000),
        Bytes(4000),
        no,
        no,
        no,
        {},
        1,
        2},
       {"\"allocated_bytes.all.current\": 1000,\n\"allocated_bytes.all.peak\": "
        "2000,\n\"num_ooms\": "
        "0,",
        "memory_stats",
        "memory_stats",
        {},
        {},
        {},
        Bytes(1000),
        Bytes(2000),
        no,
        no,
        no,
        no,
        no,
        {},
        {},
        0},
       {"|                  PyTorch CUDA memory summary, device ID 1                 |\n|          "
        " "
        " CUDA OOMs: 1            |   "
        "     cudaMalloc retries: 2         |\n| Allocated memory      |  14324 MiB |  15000 MiB | "
        " "
        "90000 MiB |  75676 MiB |\n| GPU "
        "reserved memory   |  16000 MiB |  17 GiB |  16000 MiB |      0 B   |",
        "memory_summary",
        "memory_summary",
        {},
        1,
        {},
        of(14324, kMebibyte),
        of(15000, kMebibyte),
        of(16000, kMebibyte),
        of(17, kGibibyte),
        no,
        no,
        no,
        {},
        2,
        1},
       {"| Allocated memory      |  146836 KB |    4261 MB |     847 GB |     847 GB |",
        "memory_summary",
        "memory_summary",
        {},
        {},
        {},
        of(146836, kKibibyte),
        of(4261, kMebibyte),
        no,
        no,
        no,
        no,
        no},
       {"|   2  NVIDIA H100 80GB HBM3          On  | 00000000:19:00.0 Off |                    0 "
        "|\n| N/A   45C    P0   300W / 700W "
        "|  70123MiB / 81559MiB |    100%      Default |",
        "nvidia-smi",
        "device",
        {},
        2,
        {},
        no,
        no,
        no,
        no,
        of(70123, kMebibyte),
        of(81559, kMebibyte),
        no},
       {"|    3   N/A  N/A      4711      C   python3                        70110MiB |",
        "nvidia-smi",
        "process 4711",
        {},
        3,
        {},
        no,
        no,
        no,
        no,
        of(70110, kMebibyte),
        no,
        no},
       {"timestamp, index, memory.used [MiB], memory.total [MiB]\n2026/01/02 03:04:05.678, 4, "
        "70123, 81559",
        "nvidia-smi",
        "device",
        {},
        4,
        {},
        no,
        no,
        no,
        no,
        of(70123, kMebibyte),
        of(81559, kMebibyte),
        no},
       {"pid, used_memory\n4711, 70123 MiB",
        "nvidia-smi",
        "process 4711",
        {},
        {},
        {},
        no,
        no,
        no,
        no,
        of(70123, kMebibyte),
        no,
        no},
       {"# gpu     sm    mem     fb   bar1\n# Idx      %      %     MB     MB\n    1     98     41 "
        " "
        "70123      5",
        "nvidia-smi",
        "monitor",
        {},
        1,
        {},
        no,
        no,
        no,
        no,
        of(70123, kMebibyte),
        no,
        no},
       {"DCGM_FI_DEV_FB_USED{gpu=\"5\",UUID=\"GPU-1\",pod=\"t\"} "
        "70000\nDCGM_FI_DEV_FB_FREE{gpu=\"5\",UUID=\"GPU-1\"} 1000",
        "dcgm",
        "device",
        {},
        5,
        {},
        no,
        no,
        no,
        no,
        of(70000, kMebibyte),
        of(71000, kMebibyte),
        no}});
}

TEST(ToolLines, NoDataIsNoNumber) {
  EXPECT_TRUE(
      read_log("DCGM_FI_DEV_FB_USED{gpu=\"0\"} 9223372036854775794\n", "a").readings.empty());
  EXPECT_TRUE(read_log("index, memory.used [MiB]\n0, [N/A]\n", "a").readings.empty());
  EXPECT_TRUE(read_log("# gpu     sm    mem\n    1     98     41\n", "a").readings.empty());
}

TEST(ToolLines, FilesOfOneKindAreCalledByIt) {
  EXPECT_EQ(read_log("index, memory.used [MiB]\n0, 5\n0, 6\n", "a").kind, "nvidia-smi");
  EXPECT_EQ(read_log("('allocated_bytes.all.current', 1000)\n", "a").kind, "memory_stats");
  EXPECT_EQ(read_log("hello\n", "a").kind, "log");
}

}  // namespace
}  // namespace steelyard
