#include "machine/runtime.h"

#include <algorithm>
#include <array>
#include <optional>

#include "data/embedded.h"
#include "data/fact.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

struct Band {
  std::int64_t low = 0, expected = 0, high = 0;
};

struct FabricChannels {
  Band ring, peer;
  std::string source;
};

struct SwitchReduction {
  std::string architecture;
  std::int64_t channels = 0, channels_across_nodes = 0, chosen_above_ranks = 0;
};

struct Constants {
  Bytes connection{}, network_connection{}, shared_network_buffer{}, reduction_of_rank{};
  std::array<FabricChannels, 5> fabrics;
  Band network_channels;
  std::int64_t peer_channel_limit = 0, ranks_per_step = 0;
  std::vector<SwitchReduction> reductions;
  std::string connection_source, network_source, reduction_source;
};

Band read_band(const Fact& fact) {
  return {fact["low"].integer(), fact["expected"].integer(), fact["high"].integer()};
}

Constants read_constants() {
  constexpr std::string_view kPath = "runtime.json";
  const auto text = embedded_text(kPath);
  if (!text) throw DataError("runtime.json is not among the data files");
  const FactFile file(kPath, *text);
  const Fact root = file.root();
  Constants constants;
  constants.connection = root["connection"]["bytes"].bytes();
  constants.connection_source = root["connection"]["source"].text();
  constants.network_connection = root["network_connection"]["bytes"].bytes();
  constants.network_source = root["network_connection"]["source"].text();
  constants.shared_network_buffer = root["shared_network_buffer"]["bytes"].bytes();
  // In the order of the enum.
  constexpr std::array<std::string_view, 5> kFabricNames = {"pcie", "nvlink-bridge", "nvlink-mesh",
                                                            "nvswitch", "infinity"};
  for (std::size_t i = 0; i < kFabricNames.size(); ++i) {
    const Fact fabric = root["fabrics"][kFabricNames[i]];
    constants.fabrics[i] = {read_band(fabric["ring_channels"]), read_band(fabric["peer_channels"]),
                            fabric["source"].text()};
  }
  constants.network_channels = read_band(root["network_channels"]);
  constants.peer_channel_limit = root["peer_channels"]["limit"].integer();
  constants.ranks_per_step = root["peer_channels"]["ranks_per_step"].integer();
  const Fact nvls = root["nvls"];
  constants.reduction_of_rank =
      nvls["chunk"].bytes() * (nvls["buffers"].integer() * nvls["steps"].integer());
  constants.reduction_source = nvls["source"].text();
  for (const std::string& architecture : nvls["architectures"].keys()) {
    const Fact fact = nvls["architectures"][architecture];
    constants.reductions.push_back({architecture, fact["channels"].integer(),
                                    fact["channels_across_nodes"].integer(),
                                    fact["chosen_above_ranks"].integer()});
  }
  return constants;
}

const Constants& constants() {
  static const Constants read = read_constants();
  return read;
}

// The group as this rank sees it.
struct Group {
  const Device& device;
  const FabricChannels& fabric;
  std::int64_t ranks;
  std::int64_t nodes;
  std::int64_t ranks_on_node;
};

std::string times(std::int64_t count, std::string_view what, Bytes each) {
  return print_count(count) + ' ' + std::string(what) + " x " + print_block(each);
}

// Every rank of a node sends one share of the channels over the network and the rest to its
// neighbour.
Bytes ring_bytes(const Group& group, std::int64_t channels) {
  const Constants& nccl = constants();
  if (group.nodes == 1) return nccl.connection * channels;
  const Checked leaving = ceil_divide(channels, group.ranks_on_node);
  return nccl.network_connection * leaving + nccl.connection * (Checked(channels) - leaving);
}

const Band& ring_channels(const Group& group) {
  // Devices without a switch keep the few channels of their box across nodes too.
  const bool many = group.device.fabric == Fabric::kNvswitch;
  return group.nodes > 1 && many ? constants().network_channels : group.fabric.ring;
}

RuntimeBytes rings(const Group& group) {
  const Constants& nccl = constants();
  const Band& channels = ring_channels(group);
  RuntimeBytes bytes;
  bytes.low = ring_bytes(group, channels.low);
  bytes.expected = ring_bytes(group, channels.expected);
  // Versions before lazy connection also build the trees, as large again.
  bytes.high = ring_bytes(group, channels.high) * 2;
  bytes.derivation = "ring: " + times(channels.expected, "channels", nccl.connection);
  bytes.source = nccl.connection_source + "; " + group.fabric.source;
  if (group.nodes > 1) {
    bytes.derivation += ", of which one in " + print_count(group.ranks_on_node) +
                        " leaves the node at " + print_block(nccl.network_connection);
    bytes.source += "; " + nccl.network_source;
  }
  return bytes;
}

void add_switch_reduction(const Group& group, RuntimeBytes& bytes) {
  const Constants& nccl = constants();
  if (group.device.fabric != Fabric::kNvswitch) return;
  const auto found = std::find_if(
      nccl.reductions.begin(), nccl.reductions.end(),
      [&](const SwitchReduction& one) { return one.architecture == group.device.architecture; });
  if (found == nccl.reductions.end() || group.ranks_on_node < 2) return;
  const std::int64_t channels = group.nodes > 1 ? found->channels_across_nodes : found->channels;
  const Bytes reduction = nccl.reduction_of_rank * (Checked(channels) * group.ranks_on_node);
  bytes.high += reduction;
  // Small groups are faster as rings, and the library then never builds these buffers.
  if (group.ranks_on_node <= found->chosen_above_ranks) return;
  bytes.expected += reduction;
  bytes.derivation += "; NVLS: " + times(channels, "channels", nccl.reduction_of_rank) + " x " +
                      print_count(group.ranks_on_node) + " ranks";
  bytes.source += "; " + nccl.reduction_source;
}

// Channels to one peer shrink as the group grows, so that all peers fit into the limit.
std::int64_t peer_channels(std::int64_t channels, std::int64_t ranks) {
  const Constants& nccl = constants();
  const std::int64_t steps = ceil_divide(ranks, nccl.ranks_per_step).value();
  while (channels > 1 && Checked(channels) * steps > Checked(nccl.peer_channel_limit))
    channels /= 2;
  return channels;
}

RuntimeBytes peers(const Group& group, std::int64_t low, std::int64_t expected, std::int64_t high) {
  const Constants& nccl = constants();
  const auto bytes_with = [&](std::int64_t count, std::int64_t channels) {
    return nccl.connection * (Checked(count) * peer_channels(channels, group.ranks));
  };
  RuntimeBytes bytes;
  bytes.low = bytes_with(low, group.fabric.peer.low);
  bytes.expected = bytes_with(expected, group.fabric.peer.expected);
  bytes.high = bytes_with(high, group.fabric.peer.high);
  if (expected > 0)
    bytes.derivation =
        times(peer_channels(group.fabric.peer.expected, group.ranks), "channels", nccl.connection) +
        " x " + print_count(expected) + (expected == 1 ? " peer" : " peers") + " of the node";
  bytes.source = nccl.connection_source + "; " + group.fabric.source;
  if (group.nodes > 1) {
    const Bytes pools = nccl.shared_network_buffer * 2;
    bytes.low += nccl.shared_network_buffer;
    bytes.expected += pools;
    bytes.high += pools;
    bytes.derivation += (bytes.derivation.empty() ? "" : "; ") + std::string("network: ") +
                        times(2, "pools", nccl.shared_network_buffer);
    bytes.source += "; " + nccl.network_source;
  }
  return bytes;
}

RuntimeBytes neighbours(const Group& group) {
  const std::int64_t all = std::min<std::int64_t>(2, group.ranks - 1);
  const std::int64_t near = std::min(all, group.ranks_on_node - 1);
  if (group.nodes == 1) return peers(group, 1, all, all);
  // A stage inside its node has both neighbours there, a stage at its edge has one.
  return peers(group, 0, std::min<std::int64_t>(1, near), near);
}

}  // namespace

RuntimeBytes communicator_bytes(const Device& device, std::int64_t ranks,
                                std::int64_t devices_per_node, std::int64_t nodes,
                                CommunicatorUse use) {
  if (ranks <= 1) return {Bytes(), Bytes(), Bytes(), "one rank needs no communicator", ""};
  nodes = std::clamp<std::int64_t>(nodes, 1, ranks);
  const std::int64_t on_node =
      std::min(ceil_divide(ranks, nodes).value(), std::max<std::int64_t>(1, devices_per_node));
  const Group group{device, constants().fabrics[static_cast<std::size_t>(device.fabric)], ranks,
                    nodes, on_node};
  switch (use) {
    case CommunicatorUse::kGatherScatter:
      return rings(group);
    case CommunicatorUse::kAllReduce: {
      RuntimeBytes bytes = rings(group);
      add_switch_reduction(group, bytes);
      return bytes;
    }
    case CommunicatorUse::kNeighbours:
      return neighbours(group);
    case CommunicatorUse::kAllToAll:
      return peers(group, on_node - 1, on_node - 1, on_node - 1);
  }
  return {};
}

RuntimeBytes context_bytes(const Device& device) {
  return {device.context_low, device.context, device.context_high,
          "context and loaded kernels of " + device.architecture, device.context_source};
}

}  // namespace steelyard
