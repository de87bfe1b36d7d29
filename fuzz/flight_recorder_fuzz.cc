// Any bytes as a flight recorder's dump, and as two ranks' dumps of one incident.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "evidence/flight_recorder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  steelyard::recognise_flight_recorder(bytes, "fuzz");
  auto dump = steelyard::read_flight_recorder(bytes, "_dump_0");
  if (!dump) {
    if (dump.error().empty() || dump.error().front().message.empty()) std::abort();
    return 0;
  }
  steelyard::Evidence other = *dump;
  other.rank = 1;
  for (steelyard::CollectiveState& state : other.collectives) state.rank = 1;
  const std::array<const steelyard::Evidence*, 2> dumps = {&*dump, &other};
  steelyard::find_collective_culprits(dumps);
  return 0;
}
