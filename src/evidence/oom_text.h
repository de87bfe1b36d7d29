// The sentence of an allocator that failed, of every era and backend.
//
//   CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.02 GiB is free.
//   Including non-PyTorch memory, this process has 78.08 GiB memory in use. Of the allocated memory 70.43 GiB is allocated
//   by PyTorch, and 5.98 GiB is reserved by PyTorch but unallocated.
//
//   tried 1.96 GiB, capacity 79.11, free 1.02, own process 78.08, allocated 70.43, unallocated 5.98, reserved 76.41, "2.2-2.8"
//
// Numbers that mean "no data" (2^64 - 1 bytes, a process of 0 bytes) are absent. Sources: c10/cuda/CUDACachingAllocator.cpp,
// c10/cuda/CUDAMallocAsyncAllocator.cpp, c10/xpu/XPUCachingAllocator.cpp, aten/src/ATen/mps/MPSAllocator.mm of PyTorch 0.4 to
// 2.9; evidence.md 2.1-2.7 lists the forms.
#pragma once

#include <optional>
#include <string_view>

#include "evidence/evidence.h"

namespace steelyard {

struct OomText {
  MemoryFailure failure;
  std::size_t begin = 0;  // of the sentence in the text
  bool whole = false;  // nothing more can follow: a cut or wrapped one may go on in the next line
  int fields = 0;      // how many numbers it holds
};

// The first such sentence of `text` at or behind `from`.
std::optional<OomText> find_oom_text(std::string_view text, std::size_t from = 0);

}  // namespace steelyard
