#include "cost/collective_time.h"

#include <algorithm>
#include <cmath>

namespace steelyard {

Group group_of(Ranks ranks, std::int64_t stride, Ranks devices_per_node) {
  const std::int64_t room =
      std::max<std::int64_t>(1, devices_per_node / std::max<std::int64_t>(1, stride));
  return {ranks, Ranks(std::min<std::int64_t>(ranks, room)), ranks == 2 && stride <= 1};
}

ExchangeClock::ExchangeClock(const Device& device, const Machine& machine, Outlook outlook)
    : rates_(achieved_rates(device)) {
  // Without links of their own, devices talk through the host's, in both directions at once.
  const double of_host = device.host_link.value() / 2;
  const double own = device.link.value() > 0 ? device.link.value() : of_host;
  const bool bridged = device.fabric == Fabric::kNvlinkBridge && of_host > 0;
  inside_ = (bridged ? of_host : own) * at(rates_.ring, outlook);
  of_pair_ = own * at(rates_.ring, outlook);
  interface_ = machine.network_per_device().value() * at(rates_.network, outlook);
}

double ExchangeClock::across(const Group& group) const {
  return std::min(inside(group), interface_ * static_cast<double>(group.in_machine.value()));
}

Seconds ExchangeClock::time(ExchangeKind kind, double bytes, const Group& group) const {
  const auto ranks = static_cast<double>(group.ranks.value());
  if (group.ranks <= 1 || bytes <= 0) return Seconds(0);
  const bool leaves = group.ranks > group.in_machine;
  // A ring passes all of its ranks, and goes from machine to machine as often as there are machines.
  const double machines = std::ceil(ranks / static_cast<double>(group.in_machine.value()));
  const double around = (ranks - machines) * rates_.exchange_inside.value() +
                        (machines - 1) * rates_.exchange_across.value();
  const double begin = rates_.exchange_start.value();
  const double part = (ranks - 1) / ranks;
  const double ring = leaves ? across(group) : inside(group);
  switch (kind) {
    case ExchangeKind::kAllReduce:
      return Seconds(begin + 2 * around + 2 * part * bytes / ring);
    case ExchangeKind::kAllGather:
    case ExchangeKind::kReduceScatter:
      return Seconds(begin + around + part * bytes / ring);
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
  return (across_machines ? rates_.exchange_across : rates_.exchange_inside).value();
}

Seconds ExchangeClock::send(double bytes, bool across_machines) const {
  const double rate = across_machines ? interface_ : inside_;
  return Seconds(rates_.exchange_start.value() + step(across_machines) + bytes / rate);
}

}  // namespace steelyard
