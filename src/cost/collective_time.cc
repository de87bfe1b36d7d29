#include "cost/collective_time.h"

#include <algorithm>
#include <cmath>

namespace steelyard {

Group group_of(Ranks ranks, std::int64_t stride, Ranks devices_per_node) {
  const std::int64_t room =
      std::max<std::int64_t>(1, devices_per_node / std::max<std::int64_t>(1, stride));
  return {ranks, Ranks(std::min<std::int64_t>(ranks, room)), ranks == 2 && stride <= 1};
}

namespace {

double machines_of(const Group& group) {
  return std::ceil(static_cast<double>(group.ranks.value()) /
                   static_cast<double>(group.in_machine.value()));
}

// Over so many machines, or the most that were measured below.
BytesPerSecond reached_over(double machines,
                            const std::vector<MeasuredExchanges::Reached>& measured) {
  BytesPerSecond reached = measured.front().bus;
  for (const MeasuredExchanges::Reached& one : measured)
    if (static_cast<double>(one.machines) <= machines) reached = one.bus;
  return reached;
}

}  // namespace

ExchangeClock::ExchangeClock(const Device& device, const Machine& machine, Outlook outlook)
    : rates_(achieved_rates(device)),
      measured_(machine.measured),
      measured_times_(at(Fraction{machine.measured.low, 1, machine.measured.high}, outlook)),
      devices_(static_cast<double>(machine.devices_per_node.value())) {
  // Without links of their own, devices talk through the host's, in both directions at once.
  const double of_host = device.host_link.value() / 2;
  const double own = device.link.value() > 0 ? device.link.value() : of_host;
  const bool bridged = device.fabric == Fabric::kNvlinkBridge && of_host > 0;
  inside_ = (bridged ? of_host : own) * at(rates_.ring, outlook);
  of_pair_ = own * at(rates_.ring, outlook);
  interface_ = machine.network_per_device().value() * at(rates_.network, outlook);
}

double ExchangeClock::across(ExchangeKind kind, const Group& group) const {
  const auto here = static_cast<double>(group.in_machine.value());
  if (!measured_.some()) return std::min(inside(group), interface_ * here);
  const bool reduces = kind == ExchangeKind::kAllReduce;
  const double whole =
      reached_over(machines_of(group), reduces ? measured_.all_reduce : measured_.gather).value() *
      measured_times_;
  return here < devices_ ? std::min(inside(group), whole / devices_ * here) : whole;
}

// Once around, all ranks but one.
double ExchangeClock::ring(ExchangeKind kind, double bytes, const Group& group) const {
  const auto ranks = static_cast<double>(group.ranks.value());
  const double machines = machines_of(group);
  const double part = (ranks - 1) / ranks * bytes;
  if (machines <= 1) return (ranks - 1) * step(false) + part / inside(group);
  const double moving = part / across(kind, group);
  if (measured_.some()) return std::hypot((ranks - 1) * measured_.ring_step.value(), moving);
  // It goes from machine to machine as often as there are machines.
  return (ranks - machines) * step(false) + (machines - 1) * step(true) + moving;
}

double ExchangeClock::tree(double bytes, const Group& group) const {
  const auto ranks = static_cast<double>(group.ranks.value());
  const double machines = machines_of(group);
  const double between = measured_.some() ? measured_.tree_step.value() : step(true);
  const double up = static_cast<double>(group.in_machine.value() - 1) * step(false) +
                    std::ceil(std::log2(machines)) * between;
  const double rate = machines > 1 ? across(ExchangeKind::kAllReduce, group) : inside(group);
  return 2 * (up + (ranks - 1) / ranks * bytes / rate);
}

Seconds ExchangeClock::time(ExchangeKind kind, double bytes, const Group& group) const {
  const auto ranks = static_cast<double>(group.ranks.value());
  if (group.ranks <= 1 || bytes <= 0) return Seconds(0);
  const bool leaves = group.ranks > group.in_machine;
  const double begin = rates_.exchange_start.value();
  switch (kind) {
    case ExchangeKind::kAllReduce:
      // What was measured was measured of what NCCL chose, and is said as a tree.
      if (leaves && measured_.some()) return Seconds(begin + tree(bytes, group));
      return Seconds(begin + std::min(2 * ring(kind, bytes, group), tree(bytes, group)));
    case ExchangeKind::kAllGather:
    case ExchangeKind::kReduceScatter:
      return Seconds(begin + ring(kind, bytes, group));
    case ExchangeKind::kAllToAll: {
      const double own = bytes / ranks;  // what one rank sends, itself included
      const auto here = static_cast<double>(group.in_machine.value());
      const double stays = own * (here - 1) / ranks / inside(group);
      const double goes = leaves ? own * (ranks - here) / ranks / interface_ : 0;
      return Seconds(begin + step(leaves) + std::max(stays, goes));
    }
    case ExchangeKind::kSendReceive:
      return send(bytes, leaves);
  }
  return Seconds(0);
}

double ExchangeClock::step(bool across_machines) const {
  if (across_machines && measured_.some()) return measured_.ring_step.value();
  return (across_machines ? rates_.exchange_across : rates_.exchange_inside).value();
}

Seconds ExchangeClock::send(double bytes, bool across_machines) const {
  const double rate = across_machines ? interface_ : inside_;
  return Seconds(rates_.exchange_start.value() + step(across_machines) + bytes / rate);
}

}  // namespace steelyard
