#include "machine/device.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "data/catalogue.h"
#include "quantity/parse.h"

namespace steelyard {
namespace {

constexpr std::array<std::pair<std::string_view, Fabric>, 5> kFabrics = {{
    {"pcie", Fabric::kPcie},
    {"nvlink-bridge", Fabric::kNvlinkBridge},
    {"nvlink-mesh", Fabric::kNvlinkMesh},
    {"nvswitch", Fabric::kNvswitch},
    {"infinity", Fabric::kInfinity},
}};

Fabric read_fabric(const Fact& fact) {
  const std::string text = fact.text();
  for (const auto& [name, fabric] : kFabrics)
    if (name == text) return fabric;
  fact.fail("is not a known fabric: " + text);
}

// What sixteen lanes carry in one direction, line code taken off; nothing for anything else than PCIe.
constexpr std::array<std::pair<std::string_view, double>, 4> kHostLinks = {{
    {"PCIe 3 x16", 15.75e9},
    {"PCIe 4 x16", 31.5e9},
    {"PCIe 5 x16", 63e9},
    {"PCIe 6 x16", 121e9},
}};

BytesPerSecond read_host_link(const Fact& fact) {
  const std::string text = fact.text();
  for (const auto& [name, rate] : kHostLinks)
    if (name == text) return BytesPerSecond(rate);
  // "NVLink-C2C 450 GB/s"
  const std::size_t space = text.find(' ');
  const auto rate = parse_bytes_per_second(
      space == std::string::npos ? text : std::string_view(text).substr(space + 1));
  if (!rate) fact.fail("is not a known link to the host: " + text);
  return *rate;
}

double read_watts(const Fact& fact) {
  const std::string text = fact.text();
  std::int64_t watts = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), watts);
  if (fault != std::errc() || std::string_view(end) != " W") fact.fail("is no power: " + text);
  return static_cast<double>(watts);
}

DeviceRates read_rates(const Fact& fact) {
  DeviceRates rates;
  const auto rate = [&](std::string_view type) -> std::optional<FlopsPerSecond> {
    if (!fact.has(type)) return std::nullopt;
    return fact[type].flops_per_second();
  };
  rates.fp32 = rate("fp32");
  rates.tf32 = rate("tf32");
  rates.fp16 = rate("fp16");
  rates.bf16 = rate("bf16");
  rates.fp8 = rate("fp8");
  rates.int8 = rate("int8");
  rates.mark = fact["mark"].text();
  rates.source = fact["source"].text();
  return rates;
}

Device read_device(const Fact& fact) {
  Device device;
  device.name = fact["name"].text();
  device.description = fact["description"].text();
  device.architecture = fact["architecture"]["value"].text();
  const Fact capacity = fact["capacity"];
  device.capacity = capacity["low"].bytes();
  device.capacity_high = capacity["high"].bytes();
  device.capacity_mark = capacity["mark"].text();
  device.capacity_source = capacity["source"].text();
  const Fact context = fact["context"];
  device.context_low = context["low"].bytes();
  device.context = context["expected"].bytes();
  device.context_high = context["high"].bytes();
  device.context_source = context["source"].text();
  device.cublas_workspace = fact["blas_workspace"]["value"].bytes();
  device.cublas_source = fact["blas_workspace"]["source"].text();
  const Fact link = fact["link"];
  device.fabric = read_fabric(link["fabric"]);
  if (link.has("bandwidth_per_direction"))
    device.link = link["bandwidth_per_direction"].bytes_per_second();
  device.host_link = read_host_link(fact["host_link"]["value"]);
  device.memory_bandwidth = fact["memory_bandwidth"]["value"].bytes_per_second();
  device.multiprocessors = fact["multiprocessors"]["value"].integer();
  device.watts = read_watts(fact["power"]["value"]);
  device.rates = read_rates(fact["rates"]);
  device.short_forms = fact.texts_or_none("short_forms");
  device.source = fact["source"].text();
  return device;
}

Catalogue<Device>& catalogue() {
  static Catalogue<Device> devices("devices", read_device);
  return devices;
}

}  // namespace

int Device::generation() const {
  // Behind "sm_" or "gfx".
  const std::string_view digits = std::string_view(architecture).substr(3);
  int number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, is_amd() ? 16 : 10);
  return number;
}

const std::vector<Device>& devices() { return catalogue().all(); }

DeviceMatch find_device(std::string_view name) {
  std::string lower(name);
  // Only ASCII names exist; the C library's tolower would ask the locale.
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (const Device* device = catalogue().find(lower)) return {device, false};
  const Device* device = catalogue().find_short_form(lower);
  return {device, device != nullptr};
}

}  // namespace steelyard
