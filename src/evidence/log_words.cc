#include "evidence/log_words.h"

namespace steelyard {

LogWords::LogWords(const std::vector<std::span<const std::string_view>>& sets) {
  stretches_.emplace_back();
  for (std::size_t set = 0; set < sets.size(); ++set) {
    for (const std::string_view text : sets[set]) {
      std::uint8_t& slot = slots_[slot_of(text.data())];
      if (slot == 0) {
        // With more than 255 beginnings the last slots share a stretch: slower, never wrong.
        if (stretches_.size() < 255) stretches_.emplace_back();
        slot = static_cast<std::uint8_t>(stretches_.size() - 1);
      }
      stretches_[slot].push_back({text, std::uint64_t{1} << set});
    }
  }
}

std::uint64_t LogWords::found_in(std::string_view line) const {
  std::uint64_t found = 0;
  if (line.size() < 3) return found;
  const char* const last = line.data() + line.size() - 3;
  for (const char* at = line.data(); at <= last; ++at) {
    const std::uint8_t slot = slots_[slot_of(at)];
    if (slot == 0) continue;
    const std::string_view rest(at, static_cast<std::size_t>(last + 3 - at));
    for (const Word& word : stretches_[slot])
      if ((found & word.bit) == 0 && rest.starts_with(word.text)) found |= word.bit;
  }
  return found;
}

}  // namespace steelyard
