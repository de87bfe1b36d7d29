// One accelerator as CUDA (or HIP) reports it.
//
//   h100-sxm-80gb   capacity 79.10 to 79.33 GiB (varies with driver and ECC), context about 0.5 GiB
//
// Facts live in data/devices/*.json, each with its unit and its source.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quantity/quantity.h"

namespace steelyard {

// What joins the devices of one machine.
enum class Fabric : std::uint8_t {
  kPcie,          // no direct link: peers talk through the host's PCIe
  kNvlinkBridge,  // pairs joined by a bridge
  kNvlinkMesh,    // direct links between the devices, no switch (V100)
  kNvswitch,      // every device reaches every other at full rate
  kInfinity,      // AMD's fully connected links
};

// Dense peak rates as the vendor states them; absent: the device has no such unit.
struct DeviceRates {
  std::optional<FlopsPerSecond> fp32, tf32, fp16, bf16, fp8, int8;
  std::string mark, source;
};

struct Device {
  std::string name;          // "h100-sxm-80gb"
  std::string description;   // "NVIDIA H100 SXM 80 GB"
  std::string architecture;  // "sm_90", "gfx942"
  // What torch.cuda.get_device_properties(...).total_memory says: the low end of what has been seen,
  // and the high end.
  Bytes capacity{};
  Bytes capacity_high{};
  // CUDA context and modules of a training process, outside the caching allocator.
  Bytes context{};
  Bytes context_low{}, context_high{};
  Bytes cublas_workspace{};  // one for each handle and stream, inside the caching allocator
  std::string capacity_source, context_source, cublas_source;
  std::string capacity_mark;  // "read", "second hand", "vendor, unconfirmed"
  std::string source;
  Fabric fabric = Fabric::kPcie;
  BytesPerSecond
      link{};  // to its peers through the fabric, per direction; none: through the host's link
  BytesPerSecond host_link{};         // to the host, per direction, as the interface's width says
  BytesPerSecond memory_bandwidth{};  // of its own memory
  std::int64_t multiprocessors = 0;   // or compute units
  double watts = 0;                   // at most, as the vendor states it
  DeviceRates rates;
  std::vector<std::string> short_forms;  // "h100"

  // 90 of sm_90; 0x942 of gfx942, so that later ones are larger.
  int generation() const;
  // Only a size is known, as of "24gb".
  bool is_a_size() const { return capacity_mark == "stated"; }
  bool is_amd() const { return architecture.starts_with("gfx"); }
  // NVIDIA's generations that have neither bf16 units nor FlashAttention 2.
  bool is_before_ampere() const { return architecture == "sm_70" || architecture == "sm_75"; }
};

// All known devices; the order is that of `steelyard list devices`.
const std::vector<Device>& devices();
// Accepts canonical names in either case, and short forms ("h100" is taken for "h100-sxm-80gb").
struct DeviceMatch {
  const Device* device = nullptr;
  bool short_form = false;
};
DeviceMatch find_device(std::string_view name);

}  // namespace steelyard
