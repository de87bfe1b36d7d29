// What a rank keeps beside its device: in the memory of its host, page-locked or not, and on NVMe.
//
//   gradients of the step   pinned     4·P/N asked for, 8 GiB held: PyTorch's pinned blocks are powers of two
//   optimizer states        pageable   8·P/N
//
// Every holding has a rule, as every slot of the device has.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "quantity/quantity.h"

namespace steelyard {

enum class HostPlace : std::uint8_t { kPageable, kPinned, kNvme };
std::string_view name_of(HostPlace place);

struct HostHolding {
  const char* name = "";
  const char* rule = "";
  HostPlace place = HostPlace::kPageable;
  Bytes bytes{};
};

// A block of page-locked memory, as PyTorch's CachingHostAllocator takes it: the next power of two.
Bytes pinned_block(Bytes asked);

class HostMemory {
 public:
  void add(const char* name, const char* rule, HostPlace place, Bytes bytes) {
    if (bytes > Bytes{}) holdings_.push_back({name, rule, place, bytes});
  }
  // `times` tensors of `each` bytes: blocks of their own where they are pinned.
  void add_tensors(const char* name, const char* rule, bool pinned, Bytes each,
                   std::int64_t times = 1) {
    add(name, rule, pinned ? HostPlace::kPinned : HostPlace::kPageable,
        (pinned ? pinned_block(each) : each) * Checked(times));
  }
  const std::vector<HostHolding>& holdings() const { return holdings_; }
  Bytes in(HostPlace place) const;
  Bytes on_host() const { return in(HostPlace::kPageable) + in(HostPlace::kPinned); }

 private:
  std::vector<HostHolding> holdings_;
};

}  // namespace steelyard
