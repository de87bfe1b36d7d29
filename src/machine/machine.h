// A machine: how many devices stand in it, how they reach other machines, and what its host has.
//
//   hgx-h100    8 x h100-sxm-80gb   NVSwitch 450 GB/s · 8 x 50 GB/s out, 50 for each device · host 2 TB, 614 GB/s
//
// Facts live in data/machines/*.json, each with its source and how far it can be trusted, or in a file of the same form that
// a run names (job/machine_choice.h). The links inside are the device's own (machine/device.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "machine/device.h"

namespace steelyard {

// What exchanges between machines have been measured to take, where somebody has: in place of what rings reach of the
// interfaces elsewhere, and of NCCL's own latencies (data/efficiency).
struct MeasuredExchanges {
  struct Reached {
    std::int64_t machines = 0;
    BytesPerSecond
        bus{};  // bus bandwidth of a whole machine, without the steps (NVIDIA/nccl-tests doc/PERFORMANCE.md)
  };
  std::vector<Reached> all_reduce, gather;  // fewest machines first
  Seconds ring_step{};       // each step of a ring that leaves a machine, though it moves nothing
  Seconds tree_step{};       // from a machine to the next one up or down a tree
  double low = 1, high = 1;  // times of the bandwidths that have been seen
  std::string mark, source;

  bool some() const { return !gather.empty(); }
};

struct Machine {
  std::string name;                  // "hgx-h100"
  std::string description;           // "DGX or HGX H100: NVSwitch, 8 x 400 Gb/s"
  std::vector<std::string> devices;  // those it is built with
  Ranks devices_per_node{8};
  std::int64_t interfaces = 1;           // to other machines
  BytesPerSecond interface_bandwidth{};  // of each, per direction
  Bytes host_memory{};
  BytesPerSecond host_memory_bandwidth{};
  double host_operator =
      1;  // an operator takes its host so many times as long as the x86 hosts of data/efficiency
  MeasuredExchanges measured;
  std::string network_mark, network_source;
  std::string host_mark, host_source;

  bool is_built_with(const Device& device) const;
  // What it sends to other machines, each way, and what of that each device has when all send at once.
  BytesPerSecond network() const {
    return BytesPerSecond(interface_bandwidth.value() * static_cast<double>(interfaces));
  }
  BytesPerSecond network_per_device() const {
    return BytesPerSecond(network().value() / static_cast<double>(devices_per_node.value()));
  }
  // With interfaces so many times as fast, and exchanges that reach as much of them.
  Machine widened(double times) const;
  // By as many interfaces as before; nobody has measured what exchanges reach then.
  void send(BytesPerSecond whole) {
    interface_bandwidth = BytesPerSecond(whole.value() / static_cast<double>(interfaces));
    measured = {};
  }
};

// All known machines; the order is that of `steelyard list machines`.
const std::vector<Machine>& machines();
// By its name or what it is sold as ("p4de.24xlarge", "a3-megagpu-8g", "dgx-h100"); null when there is none.
const Machine* find_machine(std::string_view name);
// The first in the list that is built with the device; null for a device that no machine names.
const Machine* usual_machine(const Device& device);

}  // namespace steelyard
