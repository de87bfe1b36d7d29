// What a step takes behind its micro-batches: what data ranks exchange once, and the optimizer.
//
//   StepEnd end(job, data_exchange_of(job), last gradient, group, device, machine, outlook)
//   end.after(heaviest, forward, backward)      data 0.4 s, of which 0.1 behind compute · optimizer 0.02 s
//
// Experts are shared by fewer ranks than what is dense, and these stand further apart: one in each machine, where a machine's
// ranks divide the experts, has one interface where dense parameters have all of them.
#pragma once

#include "cost/collective_time.h"
#include "cost/data_exchange.h"
#include "cost/held_parameters.h"
#include "cost/host_work.h"
#include "job/job.h"

namespace steelyard {

class StepEnd {
 public:
  // `last_gradient`: elements of the tensor whose gradient comes last, which is whole in one message: the embedding.
  // `data`, `experts`: the ranks that share dense parameters, and the same experts.
  StepEnd(const Job& job, const DataExchange& exchange, double last_gradient, const Group& data,
          const Group& experts, const Device& device, const Machine& machine, Outlook outlook);

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
  double last_gradient_ = 0;
  Group data_, experts_;
  ExchangeClock exchanges_;
  double slowdown_ = 0;
  HostWork host_;
  double operator_ = 0;  // seconds of one on the host
  double pieces_ = 0;    // that it takes to gather in pieces, of each tensor
  double optimizer_ = 0, optimizer_of_experts_ = 0;  // seconds of each parameter
};

}  // namespace steelyard
