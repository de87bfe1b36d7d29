// One key of the run file and the values it is to take.
//
//   training.sequence_length=2048..131072      2048, 4096, 8192, ... 131072: doubling
//   cluster.devices=8..64:8                    8, 16, 24, ... 64
//   recompute.mode=none,selective,full         as listed
//
// "8k" is 8192, as everywhere a length or a count of devices is written.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"

namespace steelyard {

struct SweepAxis {
  std::string key;
  std::vector<Value> values;
};

// More values than this are a slip of the keyboard, not a question.
constexpr std::size_t kMostValues = 4096;

// `place` is where the words stand: the flag --over.
tl::expected<SweepAxis, Diagnostic> read_axis(std::string_view words, const Place& place);

}  // namespace steelyard
