#include "cost/step_end.h"

#include <algorithm>

#include "cost/optimizer_time.h"

namespace steelyard {

StepEnd::StepEnd(const Job& job, const DataExchange& exchange, const Group& data,
                 const Device& device, const Machine& machine, Outlook outlook)
    : exchange_(exchange),
      data_(data),
      exchanges_(device, machine, outlook),
      slowdown_(at(achieved_rates(device).overlap_slowdown, outlook)),
      optimizer_(optimizer_seconds(job, 1, device, machine, outlook)) {}

StepEnd::Terms StepEnd::after(double heaviest, double forward, double backward) const {
  Terms terms;
  // What shows of an exchange that runs beside a passage of the pipeline, and at least what has nothing beside it.
  const auto shown = [&](double whole, double least, double beside) {
    terms.hidden += std::min(whole, beside);
    return std::max(std::min(least, whole), whole - beside) + slowdown_ * std::min(whole, beside);
  };
  const auto seconds = [&](ExchangeKind kind, double bytes) {
    return bytes > 0 ? exchanges_.time(kind, bytes, data_).value() : 0;
  };
  double reduce = seconds(exchange_.reduction, heaviest * exchange_.reduce);
  if (exchange_.reduces_beside_backward)
    reduce = shown(reduce, seconds(exchange_.reduction, exchange_.exposed_bytes), backward);
  double gather = seconds(ExchangeKind::kAllGather, heaviest * exchange_.gather);
  if (exchange_.gathers_beside_forward)
    gather =
        shown(gather, seconds(ExchangeKind::kAllGather, exchange_.exposed_gather_bytes), forward);
  terms.data = reduce + gather;
  terms.optimizer = optimizer_ * heaviest;
  return terms;
}

}  // namespace steelyard
