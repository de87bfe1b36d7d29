// Seconds that ranks take to exchange a payload.
//
//   ring over n ranks    all-gather, reduce-scatter   fixed + (n-1)/n · S / B
//                        all-reduce                   fixed + 2 (n-1)/n · S / B
//   B inside a machine   fraction of the link
//   B across machines    the interfaces of the group's ranks in one machine together, at most B inside
//   all-to-all           what stays in the machine at B inside, the rest at the rank's own interface
//
// S is the whole payload, of all ranks together where it is gathered or scattered (NVIDIA/nccl-tests doc/PERFORMANCE.md).
#pragma once

#include "cost/achieved_rates.h"
#include "machine/machine.h"
#include "operators/work.h"

namespace steelyard {

// The ranks of one group, and how many of them stand in one machine.
struct Group {
  Ranks ranks{1};
  Ranks in_machine{1};
};
// `stride`: how many ranks apart neighbours of the group are.
Group group_of(Ranks ranks, std::int64_t stride, Ranks devices_per_node);

class ExchangeClock {
 public:
  ExchangeClock(const Device& device, const Machine& machine, Outlook outlook);
  Seconds time(ExchangeKind kind, double bytes, const Group& group) const;
  // From one rank to another.
  Seconds send(double bytes, bool across_machines) const;
  double inside() const { return inside_; }  // bytes a second of large rings

 private:
  double across(Ranks in_machine) const;

  double inside_ = 0, interface_ = 0;
  const AchievedRates& rates_;
};

}  // namespace steelyard
