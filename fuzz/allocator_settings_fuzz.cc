// Any text as allocator settings: settings, or reasons why not. What is taken then serves a few requests, which the rest
// of the text chooses, and the judge serves the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/plain_allocator.h"
#include "quantity/checked.h"

namespace {

void serve(const steelyard::AllocatorSettings& settings, std::string_view choices) {
  const steelyard::DeviceMemory device{steelyard::Bytes(std::int64_t{300} << 20),
                                       steelyard::Bytes{}};
  steelyard::CachingAllocator fast(settings, device);
  steelyard::PlainAllocator judge(settings, device);
  std::vector<steelyard::BlockIndex> live;
  for (const char choice : choices.substr(0, 200)) {
    const auto value = static_cast<unsigned char>(choice);
    if (value % 3 == 0 && !live.empty()) {
      const std::size_t which = value % live.size();
      judge.free(fast.address_of(live[which]));
      fast.free(live[which]);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(which));
    } else {
      const std::int64_t size = (std::int64_t{1} << (value % 27)) + value;
      const auto block = fast.allocate(steelyard::Bytes(size), value % 2);
      const auto address = judge.allocate(size, value % 2);
      if (block.has_value() != address.has_value()) std::abort();
      if (block && fast.address_of(*block) != *address) std::abort();
      if (block) live.push_back(*block);
    }
    if (!(fast.statistics() == judge.statistics())) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = text.find('\n');
  const auto settings = steelyard::read_allocator_settings(text.substr(0, line), "fuzz");
  if (!settings) {
    if (settings.error().empty()) std::abort();
    for (const auto& problem : settings.error())
      if (problem.code.empty() || problem.message.empty() || problem.help.empty() ||
          problem.place.column < 1)
        std::abort();
    return 0;
  }
  if (line != std::string_view::npos) serve(*settings, text.substr(line + 1));
  return 0;
}
