#include "evidence/oom_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "evidence/printed.h"

namespace steelyard {
namespace {

Bytes gib(double amount) { return *printed_bytes(amount, kGibibyte); }
Bytes mib(double amount) { return *printed_bytes(amount, kMebibyte); }

struct Era {
  std::string text, era, backend;
  std::optional<std::int64_t> device;
  std::optional<Bytes> tried, capacity, free, allocated, reserved, unallocated, own, others,
      allowed, pools;
};

const std::vector<Era>& eras() {
  static const std::vector<Era> kEras = {
      {"RuntimeError: CUDA out of memory. Tried to allocate 48.00 MiB (GPU 1; 11.17 GiB total "
       "capacity; 9.25 GiB already "
       "allocated; 31.50 MiB free; 1.50 GiB cached)",
       "0.4-1.3",
       "cuda",
       1,
       mib(48),
       gib(11.17),
       mib(31.5),
       gib(9.25),
       gib(1.5),
       {},
       {},
       {},
       {},
       {}},
      {"RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 3; 31.75 GiB total "
       "capacity; 27.25 GiB already "
       "allocated; 1.25 GiB free; 29.00 GiB reserved in total by PyTorch)",
       "1.4-1.9",
       "cuda",
       3,
       gib(1.5),
       gib(31.75),
       gib(1.25),
       gib(27.25),
       gib(29),
       gib(1.75),
       {},
       {},
       {},
       {}},
      {"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 GiB total "
       "capacity; 7.50 GiB already "
       "allocated; 60.00 GiB free; 8.00 GiB allowed; 7.75 GiB reserved in total by PyTorch) If "
       "reserved memory is >> "
       "allocated memory try setting max_split_size_mb to avoid fragmentation.",
       "1.10-2.0",
       "cuda",
       0,
       mib(20),
       gib(79.15),
       gib(60),
       gib(7.5),
       gib(7.75),
       gib(0.25),
       {},
       {},
       gib(8),
       {}},
      {"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 2 has a "
       "total capacty of 23.69 "
       "GiB of which 101.25 MiB is free. Process 4711 has 3.50 GiB memory in use. Including "
       "non-PyTorch memory, this "
       "process has 20.00 GiB memory in use. Of the allocated memory 17.50 GiB is allocated by "
       "PyTorch, and 1.25 GiB is "
       "reserved by PyTorch but unallocated.",
       "2.1",
       "cuda",
       2,
       mib(512),
       gib(23.69),
       mib(101.25),
       gib(17.5),
       gib(18.75),
       gib(1.25),
       gib(20),
       gib(3.5),
       {},
       {}},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total "
       "capacity of 79.10 GiB of "
       "which 1.75 GiB is free. Including non-PyTorch memory, this process has 77.25 GiB memory in "
       "use. Of the allocated "
       "memory 70.00 GiB is allocated by PyTorch, with 512.00 MiB allocated in private pools "
       "(e.g., CUDA Graphs), and 4.50 "
       "GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large "
       "try setting "
       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
       "2.2-2.8",
       "cuda",
       0,
       gib(2.5),
       gib(79.1),
       gib(1.75),
       gib(70),
       gib(74.5),
       gib(4.5),
       gib(77.25),
       {},
       {},
       mib(512)},
      {"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 900 bytes. GPU 0 has a total "
       "capacity of 79.10 GiB of "
       "which 30.00 GiB is free. Including non-PyTorch memory, this process has 17179869184.00 GiB "
       "memory in use. 40.00 "
       "GiB allowed; Of the allocated memory 38.00 GiB is allocated by PyTorch, and 1.00 GiB is "
       "reserved by PyTorch but "
       "unallocated. If reserved but unallocated memory is large try setting "
       "PYTORCH_ALLOC_CONF=expandable_segments:True",
       "2.9+",
       "cuda",
       0,
       Bytes(900),
       gib(79.1),
       gib(30),
       gib(38),
       gib(39),
       gib(1),
       {},
       {},
       gib(40),
       {}},
      {"torch.OutOfMemoryError: HIP out of memory. Tried to allocate 1.25 GiB. GPU 5 has a total "
       "capacity of 191.98 GiB of "
       "which 512.00 MiB is free. Of the allocated memory 180.00 GiB is allocated by PyTorch, and "
       "6.00 GiB is reserved by "
       "PyTorch but unallocated.",
       "2.2-2.8",
       "hip",
       5,
       gib(1.25),
       gib(191.98),
       mib(512),
       gib(180),
       gib(186),
       gib(6),
       {},
       {},
       {},
       {}},
      {"XPU out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 64.00 GiB. Of "
       "the allocated memory "
       "60.00 GiB is allocated by PyTorch, and 1.50 GiB is reserved by PyTorch but unallocated.",
       "2.2-2.8",
       "xpu",
       0,
       gib(3),
       gib(64),
       {},
       gib(60),
       gib(61.5),
       gib(1.5),
       {},
       {},
       {},
       {}},
      {"RuntimeError: NPU out of memory. Tried to allocate 256.00 MiB (NPU 3; 60.97 GiB total "
       "capacity; 57.00 GiB already "
       "allocated; 57.00 GiB current active; 100.50 MiB free; 58.00 GiB reserved in total by "
       "PyTorch)",
       "1.4-1.9",
       "npu",
       {},
       mib(256),
       gib(60.97),
       mib(100.5),
       gib(57),
       gib(58),
       gib(1),
       {},
       {},
       {},
       {}},
      {"RuntimeError: MPS backend out of memory (MPS allocated: 16.50 GB, other allocations: 1.25 "
       "GB, max allowed: 18.13 "
       "GB). Tried to allocate 1.00 GB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0",
       "1.13+",
       "mps",
       {},
       gib(1),
       {},
       {},
       gib(16.5),
       {},
       {},
       {},
       gib(1.25),
       gib(18.13),
       {}}};
  return kEras;
}

TEST(OomText, OfEveryEraHasEveryNumber) {
  for (const Era& era : eras()) {
    SCOPED_TRACE(era.text);
    const auto found = find_oom_text(era.text);
    ASSERT_TRUE(found);
    const MemoryFailure& failure = found->failure;
    EXPECT_TRUE(found->whole);
    EXPECT_EQ(failure.kind, MemoryFailure::Kind::kDeviceAllocator);
    EXPECT_EQ(failure.era, era.era);
    EXPECT_EQ(failure.backend, era.backend);
    EXPECT_EQ(failure.device, era.device);
    EXPECT_EQ(failure.tried, era.tried);
    EXPECT_EQ(failure.capacity, era.capacity);
    EXPECT_EQ(failure.free, era.free);
    EXPECT_EQ(failure.allocated, era.allocated);
    EXPECT_EQ(failure.reserved, era.reserved);
    EXPECT_EQ(failure.unallocated, era.unallocated);
    EXPECT_EQ(failure.own_process, era.own);
    EXPECT_EQ(failure.other_processes, era.others);
    EXPECT_EQ(failure.allowed, era.allowed);
    EXPECT_EQ(failure.private_pools, era.pools);
    EXPECT_TRUE(failure.message.find("If reserved") == std::string::npos) << failure.message;
  }
}

TEST(OomText, ABlankGpuNumberIsAbsent) {
  const auto found = find_oom_text(
      "CUDA out of memory. Tried to allocate 1.00 GiB. GPU  has a total capacity of 8.00 GiB of "
      "which 0 bytes is free. "
      "Process 9 has 0 bytes memory in use. Including non-PyTorch memory, this process has 0 bytes "
      "memory in use. Of the "
      "allocated memory 6.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but "
      "unallocated.");
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->failure.device);
  EXPECT_EQ(found->failure.free, Bytes(0));
  EXPECT_FALSE(found->failure.own_process);
  EXPECT_FALSE(found->failure.other_processes);
}

TEST(OomText, ForeignProcessesAreSummed) {
  const auto found = find_oom_text(
      "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 80.00 GiB of "
      "which 0.50 GiB is free. "
      "Process 1 has 20.00 GiB memory in use. Process 2 has 30.00 GiB memory in use. Of the "
      "allocated memory 20.00 GiB is "
      "allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->failure.other_processes, gib(50));
}

TEST(OomText, InAContainerTheOwnProcessHasAForeignNumber) {
  const auto text = [](const char* process) {
    return "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 16.00 "
           "GiB of which 0.50 GiB is free. "
           "Process 12 has " +
           std::string(process) +
           " GiB memory in use. Of the allocated memory 14.00 GiB is allocated by PyTorch, and "
           "0.50 GiB is reserved by PyTorch but "
           "unallocated.";
  };
  const auto own = find_oom_text(text("15.00"));
  ASSERT_TRUE(own);
  EXPECT_EQ(own->failure.own_process, gib(15));
  EXPECT_FALSE(own->failure.other_processes);
  const auto other = find_oom_text(text("1.25"));
  ASSERT_TRUE(other);
  EXPECT_EQ(other->failure.other_processes, gib(1.25));
  EXPECT_FALSE(other->failure.own_process);
}

TEST(OomText, ProseIsNone) {
  EXPECT_FALSE(find_oom_text("When CUDA runs out of memory, use a smaller batch."));
  EXPECT_FALSE(find_oom_text("CUDA error: out of memory"));
  EXPECT_FALSE(find_oom_text("we saw a CUDA out of memory error yesterday"));
  EXPECT_FALSE(find_oom_text(""));
}

TEST(OomText, CutAnywhereIsReadOrNot) {
  for (const Era& era : eras())
    for (std::size_t end = 0; end <= era.text.size(); ++end) {
      const auto found = find_oom_text(std::string_view(era.text).substr(0, end));
      // A number that is cut in its unit is absent, never another number.
      if (!found) continue;
      EXPECT_EQ(found->failure.tried.value_or(*era.tried), *era.tried) << end;
      if (era.capacity) {
        EXPECT_EQ(found->failure.capacity.value_or(*era.capacity), *era.capacity) << end;
      }
    }
}

}  // namespace
}  // namespace steelyard
