// What a step takes behind its micro-batches: what data ranks exchange once, and the optimizer.
//
//   StepEnd end(job, data_exchange_of(job), group, device, machine, outlook)
//   end.after(heaviest, forward, backward)      data 0.4 s, of which 0.1 behind compute · optimizer 0.02 s
//
// Experts are shared by fewer ranks than what is dense, and these stand further apart: one in each machine, where a machine's
// ranks divide the experts, has one interface where dense parameters have all of them.
#pragma once

#include <algorithm>

#include "cost/collective_time.h"
#include "cost/data_exchange.h"
#include "job/job.h"

namespace steelyard {

// Of a part or a rank: how many that all data ranks share, and how many of routed experts.
struct HeldParameters {
  double dense = 0, experts = 0;
  double all() const { return dense + experts; }
  HeldParameters& operator+=(const HeldParameters& other) {
    dense += other.dense;
    experts += other.experts;
    return *this;
  }
  friend HeldParameters operator*(HeldParameters held, double times) {
    return {held.dense * times, held.experts * times};
  }
  // The most of each.
  void raise_to(const HeldParameters& other) {
    dense = std::max(dense, other.dense);
    experts = std::max(experts, other.experts);
  }
};

class StepEnd {
 public:
  // `data`, `experts`: the ranks that share dense parameters, and the same experts.
  StepEnd(const Job& job, const DataExchange& exchange, const Group& data, const Group& experts,
          const Device& device, const Machine& machine, Outlook outlook);

  struct Terms {
    double data = 0, hidden = 0;  // seconds of exchanges that show, and behind compute
    double optimizer = 0;
    double total() const { return data + optimizer; }
  };
  // `heaviest`: the most that a rank has; `forward`, `backward`: seconds of a micro-batch beside which
  // the first are gathered and the last are reduced.
  Terms after(const HeldParameters& heaviest, double forward, double backward) const;

 private:
  DataExchange exchange_;
  Group data_, experts_;
  ExchangeClock exchanges_;
  double slowdown_ = 0;
  double optimizer_ = 0, optimizer_of_experts_ = 0;  // seconds of each parameter
};

}  // namespace steelyard
