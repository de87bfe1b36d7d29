// Jobs by the thousand, for the judge: the same seed gives the same job on every machine.
//
//   random_job(7)      a run file, as JSON, that read_job accepts: every engine, recipe and layout that is weighed
//   mutated_line(7)    the line of a job with one thing wrong: cut off, misspelt, negative, too large, impossible ...
//
// Models are the presets' own configs with few layers (a replay walks every event) and, often, other widths: sizes
// that no checkpoint has are where rounding shows.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace steelyard {

// SplitMix64 (Steele, Lea, Flood 2014): unlike the standard distributions it is the same everywhere.
class Dice {
 public:
  // The seed is mixed first: the generator steps by a constant, so that neighbouring seeds would share their numbers.
  explicit Dice(std::uint64_t seed) : state_(mixed(seed)) {}

  std::uint64_t next() { return mixed(state_ += 0x9E3779B97F4A7C15U); }
  std::int64_t from(std::int64_t least, std::int64_t most);  // both included
  bool chance(int percent) { return from(1, 100) <= percent; }
  template <class T>
  T one_of(const std::vector<T>& choices) {
    return choices[static_cast<std::size_t>(
        from(0, static_cast<std::int64_t>(choices.size()) - 1))];
  }

 private:
  static std::uint64_t mixed(std::uint64_t bits);

  std::uint64_t state_;
};

using RunFile = nlohmann::ordered_json;

// A config.json of few layers.
RunFile random_model(Dice& dice);
RunFile random_job(std::uint64_t seed);
std::string mutated_line(std::uint64_t seed);

}  // namespace steelyard
