// What a step takes behind its micro-batches: what data ranks exchange once, and the optimizer.
//
//   StepEnd end(job, data_exchange_of(job), group, device, machine, outlook)
//   end.after(heaviest, forward, backward)      data 0.4 s, of which 0.1 behind compute · optimizer 0.02 s
#pragma once

#include "cost/collective_time.h"
#include "cost/data_exchange.h"
#include "job/job.h"

namespace steelyard {

class StepEnd {
 public:
  // `data`: the ranks that share parameters.
  StepEnd(const Job& job, const DataExchange& exchange, const Group& data, const Device& device,
          const Machine& machine, Outlook outlook);

  struct Terms {
    double data = 0, hidden = 0;  // seconds of exchanges that show, and behind compute
    double optimizer = 0;
    double total() const { return data + optimizer; }
  };
  // `heaviest`: parameters of the rank that has most of them; `forward`, `backward`: seconds of a micro-batch beside which
  // the first are gathered and the last are reduced.
  Terms after(double heaviest, double forward, double backward) const;

 private:
  DataExchange exchange_;
  Group data_;
  ExchangeClock exchanges_;
  double slowdown_ = 0;
  double optimizer_ = 0;  // seconds of each parameter
};

}  // namespace steelyard
