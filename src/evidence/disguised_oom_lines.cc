// Out of memory said by others than the allocator: the driver, NCCL, libraries and what reports the error itself.
//
//   CUDA error: out of memory                                    outside the allocator, pinned host memory, or a broken device
//   NVML_SUCCESS == r INTERNAL ASSERT FAILED at "...Allocator"    the allocator failed, and so did its report
//   CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling ...      no room for the library's handle
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

struct Disguise {
  std::string_view words;
  MemoryFailure::Kind kind;
  std::string_view backend;
};
using DeathKind = MemoryFailure::Kind;

constexpr std::array<Disguise, 22> kDisguises = {
    {{"NVML_SUCCESS == ", DeathKind::kDeviceAllocator, "nvml"},
     {"CUDA driver error: out of memory", DeathKind::kDeviceAllocator, "driver"},
     {"CUDA error: out of memory", DeathKind::kDeviceOutside, "cuda"},
     {"HIP error: out of memory", DeathKind::kDeviceOutside, "hip"},
     {"hipErrorOutOfMemory", DeathKind::kDeviceOutside, "hip"},
     {"cudaErrorMemoryAllocation", DeathKind::kDeviceOutside, "cuda"},
     {"CUDA_ERROR_OUT_OF_MEMORY", DeathKind::kDeviceOutside, "cuda"},
     {"CUBLAS_STATUS_ALLOC_FAILED", DeathKind::kDeviceOutside, "cublas"},
     {"CUBLAS_STATUS_NOT_INITIALIZED", DeathKind::kDeviceOutside, "cublas"},
     {"CUDNN_STATUS_ALLOC_FAILED", DeathKind::kDeviceOutside, "cudnn"},
     {"CUDNN_STATUS_NOT_INITIALIZED", DeathKind::kDeviceOutside, "cudnn"},
     {"CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", DeathKind::kDeviceOutside, "cudnn"},
     {"CUSPARSE_STATUS_ALLOC_FAILED", DeathKind::kDeviceOutside, "cusparse"},
     {"Unable to find a valid cuDNN algorithm", DeathKind::kDeviceOutside, "cudnn"},
     {"unable to find an engine to execute this computation", DeathKind::kDeviceOutside, "cudnn"},
     {"Cuda failure 'out of memory'", DeathKind::kDeviceOutside, "nccl"},
     {"Cuda failure 2 'out of memory'", DeathKind::kDeviceOutside, "nccl"},
     {"Failed to CUDA malloc ", DeathKind::kDeviceOutside, "nccl"},
     {"Failed to CUDA calloc ", DeathKind::kDeviceOutside, "nccl"},
     {"Failed to CUDA host alloc ", DeathKind::kHost, "nccl"},
     {"PT_DEVMEM Allocation failed", DeathKind::kDeviceAllocator, "hpu"},
     {"Out of memory allocating ", DeathKind::kDeviceAllocator, "cupy"}}};

constexpr std::array<std::string_view, 22> kDisguiseWords = [] {
  std::array<std::string_view, 22> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = kDisguises[i].words;
  return words;
}();

bool read_disguise(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  for (const Disguise& disguise : kDisguises) {
    const std::size_t at = text.find(disguise.words);
    if (at == std::string_view::npos) continue;
    // Of the asserts on NVML only those of the allocator report a failed allocation.
    if (disguise.backend == "nvml" && text.find("INTERNAL ASSERT FAILED") == std::string_view::npos)
      continue;
    MemoryFailure failure;
    failure.kind = disguise.kind;
    failure.backend = std::string(disguise.backend);
    const std::string_view rest = text.substr(at);
    if (disguise.words.ends_with(' ') && disguise.backend != "nvml") {
      std::string_view number = rest.substr(disguise.words.size());
      if (number.starts_with("async ")) number.remove_prefix(6);
      if (const auto bytes = take_printed_number(number))
        failure.tried = printed_bytes(*bytes, 1.0);
    }
    if (disguise.backend == "cupy") failure.allocated = size_behind(rest, "allocated so far: ");
    // pinned host memory is said with the device's words
    if (disguise.kind == DeathKind::kDeviceOutside &&
        text.find("pin_memory") != std::string_view::npos)
      failure.kind = DeathKind::kHost;
    failure.message = std::string(rest.substr(0, 300));
    state.add(failure, line, at);
    // A place in Python that pins memory says the same.
    if (!state.evidence.failures.empty()) {
      MemoryFailure& added = state.evidence.failures.back();
      if (added.kind == DeathKind::kDeviceOutside && added.message == failure.message &&
          !added.frames.empty() && added.frames.front().find("pin_memory") != std::string::npos)
        added.kind = DeathKind::kHost;
    }
    return false;
  }
  return false;
}

}  // namespace

const LogLineReader kDisguisedOomLines{"disguised oom", kDisguiseWords, read_disguise};

}  // namespace steelyard
