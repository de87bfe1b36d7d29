#include "cost/step_end.h"

#include <algorithm>
#include <cmath>

#include "cost/optimizer_time.h"

namespace steelyard {

StepEnd::StepEnd(const Job& job, const DataExchange& exchange, double last_gradient,
                 const Group& data, const Group& experts, const Device& device,
                 const Machine& machine, Outlook outlook)
    : exchange_(exchange),
      last_gradient_(last_gradient),
      data_(data),
      experts_(experts),
      exchanges_(device, machine, outlook),
      slowdown_(at(achieved_rates(device).overlap_slowdown, outlook)),
      host_(host_work_of(job)),
      operator_(operator_seconds(device, machine, outlook)),
      optimizer_(optimizer_seconds(job, 1, device, machine, outlook)) {
  if (exchange.gather > 0 && data.ranks > 1)
    pieces_ = host_.gather * operator_ * static_cast<double>(data.ranks.value());
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
  // Hosts that check a message first let the device wait for the next.
  const auto message = [&](ExchangeKind kind, double bytes, const Group& group) {
    return bytes > 0 ? std::max(exchanges_.time(kind, bytes, group).value(),
                                host_.check_of(group) * operator_)
                     : 0.0;
  };
  const auto seconds = [&](ExchangeKind kind, double bytes) { return message(kind, bytes, data_); };
  // Gradients go bucket by bucket.
  const auto in_messages = [&](double elements, const Group& group) {
    const double share = elements / std::max(1.0, heaviest.trained.all());
    const double messages = std::max(1.0, std::ceil(heaviest.messages * share));
    return messages * message(exchange_.reduction, elements * exchange_.reduce / messages, group);
  };
  const auto of_all = [&](ExchangeKind kind, const ParameterCount& count, double width) {
    return seconds(kind, count.dense * width) + message(kind, count.experts * width, experts_);
  };
  double reduce =
      in_messages(heaviest.trained.dense, data_) + in_messages(heaviest.trained.experts, experts_);
  if (exchange_.reduces_beside_backward) {
    const double last = std::max(exchange_.exposed_bytes, last_gradient_ * exchange_.reduce);
    reduce = shown(reduce, seconds(exchange_.reduction, last), backward);
  }
  double gather = of_all(ExchangeKind::kAllGather, heaviest.trained, exchange_.gather);
  if (exchange_.gathers_beside_forward)
    gather =
        shown(gather, seconds(ExchangeKind::kAllGather, exchange_.exposed_gather_bytes), forward);
  // The device waits while the host cuts and joins.
  gather += pieces_ * heaviest.tensors;
  terms.data =
      reduce + gather + of_all(ExchangeKind::kAllGather, heaviest.whole, exchange_.gather_units);
  terms.optimizer =
      optimizer_ * heaviest.trained.dense + optimizer_of_experts_ * heaviest.trained.experts;
  return terms;
}

}  // namespace steelyard
