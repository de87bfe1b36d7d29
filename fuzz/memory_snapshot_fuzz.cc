// Any bytes as a memory snapshot: a snapshot that can be written, read again and played, or reasons why not.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "allocator/replay_history.h"
#include "evidence/pickle.h"
#include "formats/memory_snapshot.h"
#include "quantity/checked.h"

namespace {

void look_at(const steelyard::Diagnostics& problems) {
  if (problems.empty()) std::abort();
  for (const steelyard::Diagnostic& problem : problems)
    if (problem.code.empty() || problem.message.empty() || problem.place.source.empty())
      std::abort();
}

// Every value, each way to it; the file is short, and a value cannot contain itself.
std::int64_t walked(const steelyard::PickleValue& value, int depth, std::int64_t most) {
  if (depth > 64 || most <= 0) return 0;
  value.as_string();
  value.as_number();
  std::int64_t count = 1;
  for (std::size_t i = 0; i < value.size() && count < most; ++i) {
    if (value.is_dict()) {
      count += walked(value.key(i), depth + 1, most - count);
      count += walked(value.value(i), depth + 1, most - count);
    } else {
      count += walked(value.item(i), depth + 1, most - count);
    }
  }
  return count;
}

void look_at(const steelyard::MemorySnapshot& snapshot) {
  const std::string again = steelyard::memory_snapshot_pickle(snapshot);
  if (!steelyard::read_memory_snapshot(again, "again")) std::abort();
  for (const steelyard::DeviceSnapshot& device : snapshot.devices) {
    if (device.events.size() != device.notes.size()) std::abort();
    try {
      steelyard::replay_history(device.events, snapshot.settings);
    } catch (const steelyard::OverflowError&) {
      // Sizes and addresses that fit 64 bits alone need not fit them together.
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto pickle = steelyard::read_pickle(bytes, "fuzz"))
    walked(pickle->root(), 0, 100'000);
  else
    look_at(pickle.error());
  if (const auto snapshot = steelyard::read_memory_snapshot(bytes, "fuzz"))
    look_at(*snapshot);
  else
    look_at(snapshot.error());
  return 0;
}
