#include "machine/machine.h"

#include <algorithm>

#include "data/catalogue.h"

namespace steelyard {
namespace {

std::vector<MeasuredExchanges::Reached> read_reached(const Fact& fact) {
  std::vector<MeasuredExchanges::Reached> reached;
  for (const Fact& one : fact.items())
    reached.push_back({one["machines"].integer(), one["bus_bandwidth"].bytes_per_second()});
  return reached;
}

MeasuredExchanges read_measured(const Fact& fact) {
  return {read_reached(fact["all_reduce"]),
          read_reached(fact["gather"]),
          Seconds(fact["ring_step_microseconds"].number() * 1e-6),
          Seconds(fact["tree_step_microseconds"].number() * 1e-6),
          fact["low"].number(),
          fact["high"].number(),
          fact["mark"].text(),
          fact["source"].text()};
}

Machine read_machine(const Fact& fact) {
  Machine machine;
  machine.name = fact["name"].text();
  machine.description = fact["description"].text();
  machine.devices = fact.texts_or_none("devices");
  machine.devices_per_node = Ranks(fact["devices_per_node"].integer());
  const Fact network = fact["network"];
  machine.interfaces = network["interfaces"].integer();
  machine.interface_bandwidth = network["bandwidth_per_interface_per_direction"].bytes_per_second();
  machine.network_mark = network["mark"].text();
  machine.network_source = network["source"].text();
  if (fact.has("exchanges")) machine.measured = read_measured(fact["exchanges"]);
  const Fact host = fact["host"];
  machine.host_memory = host["memory"].bytes();
  machine.host_memory_bandwidth = host["memory_bandwidth"].bytes_per_second();
  if (host.has("operator")) machine.host_operator = host["operator"]["times"].number();
  machine.host_mark = host["mark"].text();
  machine.host_source = host["source"].text();
  return machine;
}

Catalogue<Machine>& known_machines() {
  static Catalogue<Machine> machines("machines", read_machine);
  return machines;
}

}  // namespace

const std::vector<Machine>& machines() { return known_machines().all(); }

const Machine* find_machine(std::string_view name) {
  if (const Machine* exact = known_machines().find(name)) return exact;
  return known_machines().find_short_form(name);
}

const Machine* usual_machine(const Device& device) {
  for (const Machine& machine : machines())
    if (machine.is_built_with(device)) return &machine;
  return nullptr;
}

Machine Machine::widened(double times) const {
  Machine wider = *this;
  const auto widen = [&](BytesPerSecond& rate) { rate = BytesPerSecond(rate.value() * times); };
  widen(wider.interface_bandwidth);
  for (auto* reached : {&wider.measured.all_reduce, &wider.measured.gather})
    for (MeasuredExchanges::Reached& one : *reached) widen(one.bus);
  return wider;
}

bool Machine::is_built_with(const Device& device) const {
  return std::find(devices.begin(), devices.end(), device.name) != devices.end();
}

}  // namespace steelyard
