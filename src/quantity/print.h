// The one place where a number becomes text for people.
//
//   print(bytes)                    103.2 GiB   3.74 GiB   0.52 GiB   1,234.0 GiB
//   print(bytes, Units::kSi)        110.8 GB
//   print_exact(bytes)              771,751,936 B
//   print_block(bytes)              384 MiB     28.0 KiB   512 B      (one tensor, one buffer)
//   print_signed(bytes)             +2.10 GiB   -33.5 GiB
//   print(BytesPerSecond(450e9))    450 GB/s
//   print(Seconds(0.85))            850 ms
//   print_count(8192)               8,192
//   print_parameters(8030261248)    8.03 B
//   print_percent(0.47)             47 %
//
// Memory has one unit on a whole screen (GiB unless asked), one decimal, and three figures below
// ten. Memory and counts are rounded half away from zero in integers, so they never show a digit
// that the value does not have; no locale is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "quantity/quantity.h"

namespace steelyard {

enum class Units : std::uint8_t { kBinary, kSi, kBytes };  // GiB, GB, B

std::string_view memory_unit(Units units);

// The number alone, for columns whose heading names the unit. What would round to nothing without
// being nothing prints as <0.01.
std::string print_memory(Bytes bytes, Units units = Units::kBinary);
std::string print(Bytes bytes, Units units = Units::kBinary);
std::string print_signed(Bytes bytes, Units units = Units::kBinary);
std::string print_exact(Bytes bytes);
// With the largest unit of KiB, MiB, GiB that leaves at least one of it; whole numbers without
// decimals.
std::string print_block(Bytes bytes);

std::string print(Seconds seconds);
std::string print_signed(Seconds seconds);
std::string print(BytesPerSecond rate);
std::string print(Flops work);
std::string print(FlopsPerSecond rate);

std::string print_count(Checked count);
std::string print(Elements elements);
std::string print_parameters(Checked count);  // 405.9 B, 8.03 B, 124 M, 512
std::string print_percent(double fraction);   // of 1; "-" when it is not a number

}  // namespace steelyard
