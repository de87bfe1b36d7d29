#include "machine/machine.h"

#include <algorithm>

#include "data/catalogue.h"

namespace steelyard {
namespace {

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

bool Machine::is_built_with(const Device& device) const {
  return std::find(devices.begin(), devices.end(), device.name) != devices.end();
}

}  // namespace steelyard
