// Which accelerator was meant, and how many.
//
//   "h100-sxm-80gb"          that one
//   "8xh100", "8 x H100 SXM" eight of them; "h100" alone is short for h100-sxm-80gb
//   "NVIDIA A100-SXM4-40GB"  as PyTorch prints it
//   "24gb"                   any device with 24 GiB; what the runtime holds is taken from one like it
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "document/diagnostic.h"
#include "machine/device.h"

namespace steelyard {

struct DeviceChoice {
  std::shared_ptr<const Device> device;
  std::optional<std::int64_t> count;  // of "8xh100"
  std::string understood;  // what it was taken for and why; empty when the name was exact
};

std::optional<DeviceChoice> choose_device(std::string_view written, const Place& place,
                                          Diagnostics& problems);

}  // namespace steelyard
