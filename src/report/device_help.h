// A device, explained: `steelyard explain h100-sxm-80gb`.
//
//   h100-sxm-80gb
//     is       NVIDIA H100 SXM5 80 GB, sm_90
//     memory   79.1 GiB as CUDA reports it, seen up to 79.3 · read
//     rates    bf16 989 · fp8 1,979 TFLOP/s, dense; fp8 is 2.0 times bf16
//
// Facts of data/devices, each with its source.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "machine/device.h"
#include "report/style.h"

namespace steelyard {

std::string device_text(const Device& device, const Style& style);
nlohmann::ordered_json json_of(const Device& device);

}  // namespace steelyard
