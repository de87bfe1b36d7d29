// Seconds that ranks take to exchange a payload.
//
//   ring over n ranks    all-gather, reduce-scatter   start + steps + (n-1)/n · S / B
//                        all-reduce                   twice that, or a tree
//   steps                n - 1, of which the machines - 1 that leave one take longer
//   tree                 start + 2 (ranks of a machine - 1 inside it + log2(machines) across) steps + 2 (n-1)/n · S / B, where
//                        that is less (NVIDIA/nccl src/graph/tuning.cc, for all steps)
//   B inside a machine   fraction of the link; a bridge joins two neighbours, and other groups talk through the host's link
//   B across machines    the interfaces of the group's ranks in one machine together, at most B inside
//   all-to-all           what stays in the machine at B inside, the rest at the rank's own interface
//
// Where exchanges between machines have been measured (MeasuredExchanges of machine/machine.h) B is what so many machines
// reached; whole machines that reduce in their switches pass even B inside. Each of a ring's steps takes what one does that
// leaves a machine, and hides behind the bytes of the next as far as these take longer: the hypotenuse of steps and bytes.
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
  bool is_pair = false;  // two neighbours, which a bridge would join
};
// `stride`: how many ranks apart neighbours of the group are.
Group group_of(Ranks ranks, std::int64_t stride, Ranks devices_per_node);

class ExchangeClock {
 public:
  // What is given outlives the clock.
  ExchangeClock(const Device& device, const Machine& machine, Outlook outlook);
  Seconds time(ExchangeKind kind, double bytes, const Group& group) const;
  // From one rank to another.
  Seconds send(double bytes, bool across_machines) const;

 private:
  // Bytes a second of a large ring.
  double inside(const Group& group) const { return group.is_pair ? of_pair_ : inside_; }
  double across(ExchangeKind kind, const Group& group) const;
  double step(bool across_machines) const;
  double ring(ExchangeKind kind, double bytes, const Group& group) const;
  double tree(double bytes, const Group& group) const;

  double inside_ = 0, of_pair_ = 0, interface_ = 0;
  const AchievedRates& rates_;
  MeasuredExchanges
      measured_;               // its own: a clock may outlive the job whose machine it was made for
  double measured_times_ = 1;  // of what has been measured, by outlook
  double devices_ = 1;         // of a machine
};

}  // namespace steelyard
