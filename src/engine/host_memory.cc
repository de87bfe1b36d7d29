#include "engine/host_memory.h"

#include <bit>

namespace steelyard {

std::string_view name_of(HostPlace place) {
  switch (place) {
    case HostPlace::kPageable:
      return "pageable";
    case HostPlace::kPinned:
      return "pinned";
    case HostPlace::kNvme:
      return "nvme";
  }
  return "";
}

Bytes pinned_block(Bytes asked) {
  const std::int64_t bytes = asked.value().value();
  if (bytes <= 0) return Bytes{};
  return Bytes(static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(bytes))));
}

Bytes HostMemory::in(HostPlace place) const {
  Bytes sum{};
  for (const HostHolding& holding : holdings_)
    if (holding.place == place) sum += holding.bytes;
  return sum;
}

}  // namespace steelyard
