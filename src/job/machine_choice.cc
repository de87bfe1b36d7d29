#include "job/machine_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "data/catalogue.h"
#include "document/amount.h"
#include "document/edit_distance.h"
#include "document/read.h"
#include "job/file_path.h"
#include "machine/machine.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMostDevices = 4'096, kMostInterfaces = 65'536;
constexpr double kLeastTimes = 1e-3, kMostTimes = 1e3;
constexpr double kMostStep = 1e6;  // microseconds

// A machine as somebody wrote it, laid over `machine`.
class MachineText {
 public:
  MachineText(Machine& machine, Diagnostics& problems) : machine_(machine), problems_(problems) {}

  void read(const Value& table) {
    if (!table.is_table()) {
      refuse("E105", table, fmt::format("a machine is {}", shown(table)), "expected a table");
      return;
    }
    for (const Value::Member& member : table.members()) {
      const Value& value = member.value;
      if (member.key == "devices")
        read_devices(value);
      else if (member.key == "devices_per_node")
        machine_.devices_per_node =
            Ranks(count(member, kMostDevices, machine_.devices_per_node.value()));
      else if (member.key == "network" && value.is_string())
        read_network(member);
      else if (member.key == "network")
        read_interfaces(member);
      else if (member.key == "exchanges")
        read_exchanges(member);
      else if (member.key == "host")
        read_host(member);
      else if (member.key == "name" || member.key == "description")
        read_text(member);
      else if (member.key != "list_order" && member.key != "short_forms")
        unknown(
            member, "a machine",
            std::array<std::string_view, 7>{"name", "description", "devices", "devices_per_node",
                                            "network", "exchanges", "host"});
    }
  }

 private:
  void refuse(std::string_view code, const Value& value, std::string message, std::string label) {
    add_problem(problems_, {Severity::kError,
                            std::string(code),
                            std::move(message),
                            value.place(),
                            std::move(label),
                            {}});
  }

  void unknown(const Value::Member& member, std::string_view of,
               std::span<const std::string_view> names) {
    if (is_full(problems_, Severity::kError)) return count_problem(problems_, Severity::kError);
    problems_.push_back({Severity::kError, "E104", fmt::format("unknown key \"{}\"", member.key),
                         member.key_place(), fmt::format("{} has {}", of, any_of(names)),
                         did_you_mean("key", nearest_names(member.key, names))});
  }

  // Where a fact was read and how far it can be trusted: of data files, and free text here.
  static bool is_remark(std::string_view key) { return key == "mark" || key == "source"; }

  void read_text(const Value::Member& member) {
    if (!member.value.is_string())
      return refuse("E105", member.value, fmt::format("{} is {}", member.key, shown(member.value)),
                    "expected text");
    (member.key == "name" ? machine_.name : machine_.description) = member.value.as_string();
  }

  void read_devices(const Value& value) {
    machine_.devices.clear();
    if (!value.is_array())
      return refuse("E105", value, fmt::format("devices is {}", shown(value)),
                    "expected a list of devices, as [\"h100-sxm-80gb\"]");
    for (const Value& item : value.items()) {
      const DeviceMatch match =
          item.is_string() ? find_device(item.as_string()) : DeviceMatch{nullptr, false};
      if (match.device == nullptr)
        refuse("E111", item, fmt::format("no device is called {}", shown(item)),
               "`steelyard list devices` shows the known ones");
      else
        machine_.devices.push_back(match.device->name);
    }
  }

  std::int64_t count(const Value::Member& member, std::int64_t most, std::int64_t otherwise) {
    const Value& value = member.value;
    if (value.is_integer() && value.as_integer() >= 1 && value.as_integer() <= most)
      return value.as_integer();
    refuse(value.is_number() ? "E107" : "E105", value,
           fmt::format("{} is {}", member.key, shown(value)),
           fmt::format("needs a whole number from 1 to {}", most));
    return otherwise;
  }

  void bandwidth(const Value::Member& member, BytesPerSecond& target) {
    const Value& value = member.value;
    const auto read = value.is_string() ? bandwidth_written(value.as_string()) : std::nullopt;
    if (!read || !(*read >= kLeastBandwidth && *read <= kLargestBandwidth))
      return refuse(read ? "E107" : "E105", value,
                    fmt::format("{} is {}", member.key, shown(value)),
                    "expected a bandwidth, as \"400 Gb/s\" or \"50 GB/s\"");
    target = BytesPerSecond(*read);
  }

  // "400 Gb/s": of the whole machine, by as many interfaces as before.
  void read_network(const Value::Member& member) {
    BytesPerSecond whole = machine_.network();
    bandwidth(member, whole);
    machine_.send(whole);
  }

  void read_interfaces(const Value::Member& network) {
    if (!network.value.is_table())
      return refuse("E105", network.value, fmt::format("network is {}", shown(network.value)),
                    "expected a bandwidth, as \"400 Gb/s\", or a table of interfaces");
    for (const Value::Member& member : network.value.members()) {
      if (member.key == "interfaces")
        machine_.interfaces = count(member, kMostInterfaces, machine_.interfaces);
      else if (member.key == "bandwidth_per_interface_per_direction")
        bandwidth(member, machine_.interface_bandwidth);
      else if (!is_remark(member.key))
        unknown(
            member, "network",
            std::array<std::string_view, 2>{"interfaces", "bandwidth_per_interface_per_direction"});
    }
  }

  void read_exchanges(const Value::Member& exchanges) {
    if (!exchanges.value.is_table())
      return refuse("E105", exchanges.value, fmt::format("exchanges is {}", shown(exchanges.value)),
                    "expected a table of what was measured, as data/machines/aws-p5.json has it");
    MeasuredExchanges measured;
    for (const Value::Member& member : exchanges.value.members()) {
      if (member.key == "all_reduce")
        read_reached(member, measured.all_reduce);
      else if (member.key == "gather")
        read_reached(member, measured.gather);
      else if (member.key == "ring_step_microseconds")
        measured.ring_step = Seconds(within(member, 0, kMostStep, 0) * 1e-6);
      else if (member.key == "tree_step_microseconds")
        measured.tree_step = Seconds(within(member, 0, kMostStep, 0) * 1e-6);
      else if (member.key == "low")
        measured.low = within(member, kLeastTimes, 1, 1);
      else if (member.key == "high")
        measured.high = within(member, 1, kMostTimes, 1);
      else if (!is_remark(member.key))
        unknown(member, "exchanges",
                std::array<std::string_view, 6>{"all_reduce", "gather", "ring_step_microseconds",
                                                "tree_step_microseconds", "low", "high"});
    }
    if (measured.all_reduce.empty() || measured.gather.empty())
      return refuse("E105", exchanges.value, "exchanges lacks all_reduce or gather",
                    "expected both, as [{ machines = 2, bus_bandwidth = \"200 GB/s\" }]");
    machine_.measured = std::move(measured);
  }

  // Of so many machines, fewest first.
  void read_reached(const Value::Member& member, std::vector<MeasuredExchanges::Reached>& reached) {
    if (!member.value.is_array())
      return refuse("E105", member.value, fmt::format("{} is {}", member.key, shown(member.value)),
                    "expected a list, as [{ machines = 2, bus_bandwidth = \"200 GB/s\" }]");
    for (const Value& item : member.value.items()) {
      MeasuredExchanges::Reached one;
      if (item.is_table())
        for (const Value::Member& of_one : item.members()) {
          if (of_one.key == "machines")
            one.machines = count(of_one, kMostInterfaces, 1);
          else if (of_one.key == "bus_bandwidth")
            bandwidth(of_one, one.bus);
          else
            unknown(of_one, member.key,
                    std::array<std::string_view, 2>{"machines", "bus_bandwidth"});
        }
      if (one.machines < 1 || one.bus.value() <= 0)
        refuse("E105", item, fmt::format("{} has {}", member.key, shown(item)),
               "expected { machines = 2, bus_bandwidth = \"200 GB/s\" }");
      else
        reached.push_back(one);
    }
    std::sort(reached.begin(), reached.end(),
              [](const auto& a, const auto& b) { return a.machines < b.machines; });
  }

  double within(const Value::Member& member, double least, double most, double otherwise) {
    const Value& value = member.value;
    if (value.is_number() && value.as_number() >= least && value.as_number() <= most)
      return value.as_number();
    refuse(value.is_number() ? "E107" : "E105", value,
           fmt::format("{} is {}", member.key, shown(value)),
           fmt::format("needs a number from {} to {}", least, most));
    return otherwise;
  }

  void read_host(const Value::Member& host) {
    if (!host.value.is_table())
      return refuse("E105", host.value, fmt::format("host is {}", shown(host.value)),
                    "expected a table with memory and memory_bandwidth");
    for (const Value::Member& member : host.value.members()) {
      if (member.key == "memory") {
        const auto bytes =
            member.value.is_string() ? bytes_written(member.value.as_string()) : std::nullopt;
        if (!bytes || *bytes < 1)
          refuse("E105", member.value, fmt::format("memory is {}", shown(member.value)),
                 "expected bytes, as \"2 TB\"");
        else
          machine_.host_memory = Bytes(*bytes);
      } else if (member.key == "memory_bandwidth") {
        bandwidth(member, machine_.host_memory_bandwidth);
      } else if (member.key == "operator") {
        read_operator(member.value);
      } else if (!is_remark(member.key)) {
        unknown(member, "host",
                std::array<std::string_view, 3>{"memory", "memory_bandwidth", "operator"});
      }
    }
  }

  void read_operator(const Value& value) {
    const Value* times = value.find("times");
    if (times == nullptr || !times->is_number() || !(times->as_number() >= kLeastTimes) ||
        !(times->as_number() <= kMostTimes))
      return refuse("E105", times == nullptr ? value : *times,
                    fmt::format("operator is {}", shown(value)),
                    "expected { times = 1.0 }: as long as the x86 hosts of data/efficiency take");
    machine_.host_operator = times->as_number();
  }

  Machine& machine_;
  Diagnostics& problems_;
};

std::string stem_of(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  return name.ends_with(".json") ? name.substr(0, name.size() - 5) : name;
}

// The file's table, laid over `machine`.
bool read_machine_file(const Value& written, const ReadFile& read_file, const std::string& folder,
                       Machine& machine, Diagnostics& problems) {
  const std::string path = path_from(folder, written);
  const auto text = read_file ? read_file(path)
                              : tl::expected<std::string, std::string>(
                                    tl::unexpected(std::string("files are not read here")));
  if (!text) {
    problems.push_back({Severity::kError,
                        "E100",
                        fmt::format("{}: {}", path, text.error()),
                        written.place(),
                        "expected a machine's file; `steelyard list machines` has known names",
                        {}});
    return false;
  }
  const auto table = read_json(*text, path);
  if (!table) {
    problems.insert(problems.end(), table.error().begin(), table.error().end());
    return false;
  }
  machine.name = stem_of(path);
  machine.description = fmt::format("read from {}", path);
  MachineText(machine, problems).read(*table);
  return true;
}

// "hgx-a100, aws-p4de or google-a2-ultra"
std::string known_with(const Device& device) {
  std::vector<std::string_view> names;
  for (const Machine& machine : machines())
    if (machine.is_built_with(device)) names.push_back(machine.name);
  return any_of(std::span<const std::string_view>(names));
}

// What was written, or null when nothing was, or nothing that can be read.
std::shared_ptr<const Machine> machine_said(Draft& draft, const Machine& usual,
                                            const ReadFile& read_file, const std::string& folder,
                                            Diagnostics& problems) {
  const Setting* setting = draft.settings().find(KeyId::kMachine);
  if (setting == nullptr) return nullptr;
  const Value& written = setting->member->value;
  if (written.is_string() && !looks_like_path(written.as_string())) {
    if (const Machine* known = find_machine(written.as_string())) {
      if (known->name != written.as_string())
        draft.assume(KeyId::kMachine, known->name,
                     fmt::format("\"{}\" is one", written.as_string()));
      return unowned(*known);
    }
    std::vector<std::string_view> names;
    for (const Machine& machine : machines()) names.push_back(machine.name);
    draft.refuse(KeyId::kMachine, "E106",
                 fmt::format("no machine is called \"{}\"", written.as_string().substr(0, 60)),
                 "`steelyard list machines` shows the known ones; a file ends in .json",
                 did_you_mean("machine", nearest_names(written.as_string(), names)));
    return nullptr;
  }
  auto machine = std::make_shared<Machine>(usual);
  machine->devices.clear();
  if (written.is_table()) {
    machine->name = "machine";
    machine->description = "as the run says";
    MachineText(*machine, problems).read(written);
  } else if (!read_machine_file(written, read_file, folder, *machine, problems)) {
    return nullptr;
  }
  return machine;
}

}  // namespace

const Device* device_of_machine(const Settings& settings, const ReadFile& read_file,
                                const std::string& folder) {
  const Setting* setting = settings.find(KeyId::kMachine);
  if (setting == nullptr) return nullptr;
  const Value& written = setting->member->value;
  Machine machine;
  Diagnostics said_later;  // choose_machine() reads it again, over the device's usual one
  if (written.is_table())
    MachineText(machine, said_later).read(written);
  else if (looks_like_path(written.as_string()))
    read_machine_file(written, read_file, folder, machine, said_later);
  else if (const Machine* known = find_machine(written.as_string()))
    machine = *known;
  return machine.devices.empty() ? nullptr : find_device(machine.devices.front()).device;
}

void choose_machine(Draft& draft, const ReadFile& read_file, const std::string& folder,
                    Diagnostics& problems) {
  Cluster& cluster = draft.job().cluster;
  if (cluster.device == nullptr) return;
  const Device& device = *cluster.device;
  const Machine* usual = usual_machine(device);
  const Machine none;
  auto machine = machine_said(draft, usual == nullptr ? none : *usual, read_file, folder, problems);
  cluster.machine_said = draft.has(KeyId::kMachine);
  if (machine != nullptr && usual != nullptr && !machine->devices.empty() &&
      !machine->is_built_with(device)) {
    draft.refuse(KeyId::kMachine, "E229",
                 fmt::format("{} is not built with {}", machine->name, device.name),
                 fmt::format("it has {}", any_of(std::span<const std::string>(machine->devices))),
                 fmt::format("{} stands in {}", device.name, known_with(device)));
    return;
  }
  if (machine == nullptr && usual != nullptr) {
    machine = unowned(*usual);
    if (!draft.settings().was_refused(KeyId::kMachine) && !draft.has(KeyId::kMachine))
      draft.assume(KeyId::kMachine, usual->name, "the usual one with this device");
  }
  if (machine == nullptr) return;
  if (const auto whole = draft.settings().number(KeyId::kNetwork)) {
    auto connected = std::make_shared<Machine>(*machine);
    // Nobody names the machine, so it has as many devices as the run says.
    if (const auto devices = draft.settings().count(KeyId::kDevicesPerNode);
        devices && !cluster.machine_said)
      connected->devices_per_node = Ranks(*devices);
    connected->send(BytesPerSecond(*whole));
    machine = std::move(connected);
    cluster.network_said = true;
  }
  cluster.devices_per_node = machine->devices_per_node;
  // A device that is only a size has no rates, so that no time is known wherever it stands.
  if (usual != nullptr) cluster.machine = std::move(machine);
}

}  // namespace steelyard
