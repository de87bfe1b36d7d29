#include "evidence/known_stacks.h"

#include <algorithm>
#include <cstring>

#include "evidence/pickle_opcode.h"

namespace steelyard {
namespace {

constexpr std::size_t kKnownStackSlots = std::size_t{1} << 14;
constexpr std::size_t kMostStackBytes = std::size_t{1} << 12;

// Of fetches up to an APPENDS, with it; 0 where anything else stands among them.
std::size_t size_of_fetches(std::string_view bytes, std::size_t at) {
  const std::size_t end = std::min(bytes.size(), at + kMostStackBytes);
  for (std::size_t next = at; next < end;) {
    const auto opcode = static_cast<unsigned char>(bytes[next]);
    if (opcode == kLongBinGet)
      next += 5;
    else if (opcode == kBinGet)
      next += 2;
    else
      return opcode == kAppends && next > at ? next + 1 - at : 0;
  }
  return 0;
}

std::uint64_t hash_of_fetches(std::string_view bytes) {
  std::uint64_t hash = bytes.size();
  const auto mix = [&](std::size_t at, std::size_t size) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data() + at, size);
    hash = ((hash ^ eight) * 0x9E3779B97F4A7C15U) ^ (hash >> 29U);
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) mix(at, 8);
  mix(at, bytes.size() - at);
  return hash ^ (hash >> 32U);
}

}  // namespace

const KnownStacks::Known* KnownStacks::look(std::string_view bytes, std::size_t at) {
  const std::size_t size = size_of_fetches(bytes, at);
  asked_ = {};
  if (size == 0) return nullptr;
  if (slots_.empty()) slots_.resize(kKnownStackSlots);
  place_ = hash_of_fetches(bytes.substr(at, size)) % kKnownStackSlots;
  const Known& known = slots_[place_];
  if (known.size == size && std::memcmp(bytes.data() + known.begin, bytes.data() + at, size) == 0)
    return &known;
  asked_.begin = at;
  asked_.size = static_cast<std::uint32_t>(size);
  return nullptr;
}

void KnownStacks::learn(std::size_t end, std::int64_t stack, std::size_t frames) {
  if (asked_.size == 0 || asked_.begin + asked_.size != end) return;
  slots_[place_] = {asked_.begin, asked_.size, static_cast<std::uint32_t>(frames), stack};
  asked_ = {};
}

void KnownStacks::forget() {
  slots_.clear();
  asked_ = {};
}

}  // namespace steelyard
