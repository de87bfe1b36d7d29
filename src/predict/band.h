// How far a prediction may be off: the observed errors of its terms, put together.
//
//   term      GiB    observed, 2.5 to 97.5 % from
//   states    40.0   -1 % to +2 %             -0.4 ... +0.8
//   working   30.0   -5 % to +10 %            -1.5 ... +3.0       activations, temporaries, communication
//   slack      2.0   -1 % to +1.5 % of both   -0.7 ... +1.0       what the allocator reserves beyond them
//   runtime    0.8   low and high             -0.2 ... +0.6       context, communicators: data/runtime.json
//   all       72.8                            70.0 ... 78.2       the ends add up
//
// They add up, and not as squares do: what a run file leaves open, or we misread, tends to move all terms of a run one way.
//
// The errors are those of recorded and published runs of the same engine and model code, else of all (data/bands.json,
// written by truth/bands.py). Where a reading holds what collectives withheld (reserved and nothing else is printed), layouts
// are told apart, too: without tensor ranks nothing is, with them it depends on how far the host is ahead, and with stages on
// messages that stop it. Where a run file says all and PyTorch's own code was recorded they are nought.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "job/job.h"
#include "ledger/pile.h"
#include "machine/runtime.h"
#include "quantity/quantity.h"

namespace steelyard {

// As data/bands.json lists it: measured less predicted, in parts of the term; of slack, in parts of what is allocated.
struct ObservedError {
  std::string engine, implementation;  // "any": where nothing nearer was observed
  std::string layout;  // "one rank", "tensor", "tensor, stages": who shares a layer; "any"
  std::string term;
  double low = 0, high = 0;
  std::string source;  // "records (118), torchtune (1)"
};
const std::vector<ObservedError>& observed_errors();
// Of that engine, code and layout, of that engine and code, or of any.
const ObservedError& observed_error(std::string_view engine, std::string_view implementation,
                                    std::string_view term, std::string_view layout = "any");

struct Band {
  Bytes low, high;
  bool contains(Bytes bytes) const { return low <= bytes && bytes <= high; }
};

// What a number is made of, and what its meter sees beside tensors.
struct BandTerms {
  Piles piles;
  bool slack = false;
  const RuntimeBytes* runtime = nullptr;
};

// The errors that apply to a job, looked up once.
class ErrorBand {
 public:
  explicit ErrorBand(const Job& job);
  ErrorBand(const Job& job, std::string_view layout);
  Band around(Bytes predicted, const BandTerms& terms) const {
    return widened({predicted, predicted}, terms);
  }
  // Where the prediction itself has a low and a high end.
  Band widened(const Band& predicted, const BandTerms& terms) const;
  // What a run needs of its device. The least holds no slack that could be less. Pages of expandable segments that nobody
  // uses go back before an error (CUDACachingAllocator.cpp, release_blocks): more of them than were foreseen end no run.
  Band needed(const Band& predicted, const Piles& piles) const {
    return {widened(predicted, {piles, false}).low,
            widened(predicted, {piles, !slack_comes_back_}).high};
  }
  // By how much of what is allocated the high end of that is higher, whatever it is made of.
  double least_above() const {
    return (slack_comes_back_ ? 0 : slack_.high) + std::min(states_.high, working_.high);
  }
  // The same whether the job has stages or not: a bound of layouts that differ in that.
  static double least_above(const Job& job);

 private:
  ObservedError states_, working_, slack_;
  bool slack_comes_back_;
};

}  // namespace steelyard
