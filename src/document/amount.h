// Amounts as people write them.
//
//   count_written("8_192", 1000)   8192          count_written("7B", 1000)    7,000,000,000
//   count_written("8k", 1024)      8192          count_written("1.5M", 1000)  1,500,000
//   bytes_written("25 MiB")        26,214,400    bytes_written("24gb", ...)   24 x 10^9
//   bandwidth_written("400 Gb/s") 50 x 10^9       bandwidth_written("50GB/s") the same
//
// Nothing is rounded: 1.2345k with k = 1000 is no whole number, so it is no count.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace steelyard {

// `kilo` is what a k stands for; M, B (or G) and T are its powers. Ki, Mi, Gi are always powers of 1024.
std::optional<std::int64_t> count_written(std::string_view text, std::int64_t kilo);

// Needs a unit: B, KB, KiB, MB, MiB, GB, GiB, TB or TiB, in any capitals.
std::optional<std::int64_t> bytes_written(std::string_view text);

// Bytes per second. Networks are sold in bits: a small b is a bit ("400 Gb/s", "400Gbps", "3.2 Tbit/s"), a large B a byte.
std::optional<double> bandwidth_written(std::string_view text);

// A plain decimal number, as 0.1 or 1e-3 is one.
std::optional<double> number_written(std::string_view text);

}  // namespace steelyard
