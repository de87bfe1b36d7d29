// The complete search: every layout of a space is answered for, by its memory and time or by the bound or rule that
// excludes it.
//
//   41,216 layouts = 29,004 not allowed + 8,211 certainly too large + 2,407 that cannot be faster
//                    + 1,594 weighed (212 fit, 98 tight, 1,284 too large)
//
// Layouts are weighed in the order of their least time, so the search may stop when no other can be among the wanted.
// The order, the batches and so the answer are the same for any number of workers.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/read.h"
#include "plan/bounds.h"
#include "plan/space.h"
#include "predict/prediction.h"

namespace steelyard {

enum class Fate : std::uint8_t {
  kOpen,  // not weighed: it cannot be faster than what was found, or the search was interrupted
  kNotAllowed,  // refused by a rule of the readers
  kTooLarge,
  kTight,  // the expected need is within the device, the band crosses the line
  kFits
};

struct WeighedLayout {
  std::uint32_t layout = 0;  // of the space
  Fate fate = Fate::kOpen;
  Pile binds = Pile::kActivations;   // the largest at the peak
  std::uint16_t refusal = 0;         // of the search's refusals, when not allowed
  std::int64_t pipeline = 0;         // the stage of the peak
  std::int64_t bytes = 0, high = 0;  // on the device, expected and at most
  std::int32_t recomputed = 0;       // of a range of amounts, the one that was chosen
  double seconds = 0;
  double least_bytes = 0, least_high = 0, least_seconds = 0;  // what the bounds said
  bool certain = false;        // too large by a bound, which is `bytes`: not weighed
  std::int64_t over_host = 0;  // bytes too many for the host alone, where the device has room
};

struct Refusal {
  std::string code, words;
  std::int64_t layouts = 0;
};

// A group of layouts that do not fit, by what binds.
struct TooLarge {
  bool certain = false;             // weights, states and what layers keep alone
  bool host = false;                // the device has room, the host of its machine does not
  Pile binds = Pile::kActivations;  // the largest at the peak
  std::int64_t layouts = 0;
  std::int64_t least_excess = 0;  // bytes by which the nearest of them misses
  std::uint32_t nearest = 0;      // that one
};

struct SearchCounts {
  std::int64_t layouts = 0, not_allowed = 0, certainly_too_large = 0, cannot_be_faster = 0;
  std::int64_t not_asked = 0;  // when the search was stopped
  std::int64_t asked() const { return layouts - not_asked; }
  std::int64_t fits = 0, tight = 0, too_large = 0;
  std::int64_t bases = 0, groups = 0, groups_timed = 0;
  std::int64_t weighed() const { return fits + tight + too_large; }
};

struct SearchProgress {
  std::int64_t done = 0, all = 0;
  double best_seconds = 0;  // 0: none yet
};

// What a face lends to the core: readers of files, workers, somebody who watches.
struct SearchHelp {
  std::function<ReadJob(const Value& run)> read;
  // Calls `work` with 0 ... count-1, in any order, on any threads; returns when all are done.
  std::function<void(std::size_t count, const std::function<void(std::size_t)>& work)> share;
  std::function<bool(const SearchProgress&)> go_on;  // false: stop with what there is
  // Whether the time is up: asked by any worker, before each piece of work. Once true it stays true. What has been answered
  // by then is as it would have been with more time.
  std::function<bool()> expired;
  bool is_out_of_time() const { return expired && expired(); }
  // What is used here, of job/stack.h; empty: what the run says, else the usual ones.
  std::vector<UsedStack> stacks;
  bool must_launch = false;  // also where the run names its engine
  // Why a run cannot be written as these files, or nothing; absent: nobody knows.
  std::function<std::optional<std::string>(const Value& run, const std::string& target)>
      cannot_launch;
};
// One worker, no files beside the run, nobody who watches.
SearchHelp serial_help();

struct SearchWish {
  std::size_t best = 5;   // unlike layouts
  std::size_t tight = 1;  // unlike layouts that nearly fit and are faster than all that do
  double within = 0.05;   // of the best's time: all of these are weighed, for the simplest of them
  bool front = false;     // the whole front of time and memory
  bool everything = false;  // the judge: no bound is used
  // Least memory first; is there any? What the search's estimate says fits, or nearly does, is asked of predict(), so that
  // the answer is what weigh says of the layout.
  bool first_that_fits = false;
};

struct SearchResult {
  std::vector<WeighedLayout> weighed;  // those that were; fits first by time
  std::vector<Refusal> refusals;       // most layouts first
  std::vector<TooLarge> too_large;     // most layouts first
  SearchCounts counts;
  bool interrupted = false;

  const WeighedLayout* best() const;  // the fastest that fits; null: none
};

// With the amount of recomputation that was chosen.
Layout layout_of(const Space& space, const WeighedLayout& weighed);

// The run file of a layout: `run` with the layout's keys laid over.
Value run_of(const Value& run, const Layout& layout, const Space& space, std::int64_t layers);

SearchResult search(const Value& run, const PlanTarget& target, const Space& space,
                    const SearchWish& wish, const SearchHelp& help);

// Fits that no other beats in both time and memory, fastest first.
std::vector<WeighedLayout> front_of(const SearchResult& result);
// The first `count` by time that a person would not call the same; of those that fit, or nearly do.
std::vector<WeighedLayout> best_unlike(const SearchResult& result, const Space& space,
                                       std::size_t count, Fate fate = Fate::kFits);
// The least complex within `share` of the best's time, the fastest of those.
const WeighedLayout* simplest_within(const SearchResult& result, const Space& space, double share);
// The fit that differs least from a layout, the fastest of those; null: nothing fits.
const WeighedLayout* nearest_fit(const SearchResult& result, const Space& space,
                                 const Layout& layout);

}  // namespace steelyard
