#include "cost/step_end.h"

#include <algorithm>

#include "cost/optimizer_time.h"

namespace steelyard {

StepEnd::StepEnd(const Job& job, const DataExchange& exchange, const Group& data,
                 const Group& experts, const Device& device, const Machine& machine,
                 Outlook outlook)
    : exchange_(exchange),
      data_(data),
      experts_(experts),
      exchanges_(device, machine, outlook),
      slowdown_(at(achieved_rates(device).overlap_slowdown, outlook)),
      optimizer_(optimizer_seconds(job, 1, device, machine, outlook)) {
  const bool divided = job.parallel.zero_stage >= 1;
  optimizer_of_experts_ = divided ? optimizer_ * static_cast<double>(data.ranks.value()) /
                                        static_cast<double>(experts.ranks.value())
                                  : optimizer_;
}

StepEnd::Terms StepEnd::after(const HeldParameters& heaviest, double forward,
                              double backward) const {
  Terms terms;
  // What shows of an exchange that runs beside a passage of the pipeline, and at least what has nothing beside it.
  const auto shown = [&](double whole, double least, double beside) {
    terms.hidden += std::min(whole, beside);
    return std::max(std::min(least, whole), whole - beside) + slowdown_ * std::min(whole, beside);
  };
  const auto seconds = [&](ExchangeKind kind, double bytes) {
    return bytes > 0 ? exchanges_.time(kind, bytes, data_).value() : 0;
  };
  const auto of_all = [&](ExchangeKind kind, const ParameterCount& count, double width) {
    return seconds(kind, count.dense * width) +
           exchanges_.time(kind, count.experts * width, experts_).value();
  };
  double reduce = of_all(exchange_.reduction, heaviest.trained, exchange_.reduce);
  if (exchange_.reduces_beside_backward)
    reduce = shown(reduce, seconds(exchange_.reduction, exchange_.exposed_bytes), backward);
  double gather = of_all(ExchangeKind::kAllGather, heaviest.trained, exchange_.gather);
  if (exchange_.gathers_beside_forward)
    gather =
        shown(gather, seconds(ExchangeKind::kAllGather, exchange_.exposed_gather_bytes), forward);
  terms.data =
      reduce + gather + of_all(ExchangeKind::kAllGather, heaviest.whole, exchange_.gather_units);
  terms.optimizer =
      optimizer_ * heaviest.trained.dense + optimizer_of_experts_ * heaviest.trained.experts;
  return terms;
}

}  // namespace steelyard
