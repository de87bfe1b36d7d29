// How far something goes: the fewest devices, the cheapest number of them, the longest sequence, the largest micro-batch,
// model or batch without accumulation. Each value is asked of the whole space of its layouts.
//
//   fewest devices    2 no · 4 no · 8 fits · 6 fits · 5 no       -> 6
//
// What fits once fits with less of it; so a doubling finds the first that does not, and halving the interval the last that does
// (plan/furthest.h). That it fits means what it means to weigh: the high end of the band of one of its layouts.
#pragma once

#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "plan/plan.h"

namespace steelyard {

enum class Wanted : std::uint8_t {
  kFewestDevices,
  kLeastCost,
  kLongestSequence,
  kLargestMicroBatch,
  kMostParameters,
  kLargestBatch
};

struct ExtremePoint {
  std::int64_t value = 0;  // devices, tokens, sequences, or millions of parameters
  std::int64_t devices = 1;
  std::string device;
  bool fits = false;
  bool unfinished = false;      // the time was up
  std::optional<Layout> known;  // one that fits
  std::optional<PlanRow> row;   // its fastest, where it was asked for
  double device_hours = 0;      // of a step, with a row
};

struct ExtremeAnswer {
  Wanted wanted{};
  std::vector<ExtremePoint> tried;    // in the order of the value
  std::vector<ExtremePoint> answers;  // of each device: one, unless several were asked
  std::vector<Assumption> assumptions;
  std::int64_t layouts = 0;  // answered for, in all
  std::optional<std::int64_t>
      next;                 // the least value above the answer that was asked: it does not fit
  bool unfinished = false;  // the time was up: the answer is the best so far
};

// `devices`: the device types to ask, each alone; empty: the one of the document.
tl::expected<ExtremeAnswer, Diagnostics> extreme_of(Wanted wanted, const Value& document,
                                                    const std::vector<std::string>& devices,
                                                    const SearchHelp& help);

// Why a layout, or a class of them, is not the answer: its own fastest beside it, or what excludes all of it.
struct WhyAnswer {
  std::string asked;  // "tensor=4,pipeline=2"
  PlanQuestion question;
  Space space;
  SearchResult result;
  std::optional<PlanRow> fastest;           // of those that fit
  std::optional<PlanRow> nearest;           // when none fits: the one that misses by least, weighed
  std::optional<Layout> nearest_that_fits;  // of the whole space
};
tl::expected<WhyAnswer, Diagnostics> why(const Value& document, std::string asked,
                                         const PlanAnswer& whole, const SearchHelp& help);

}  // namespace steelyard
