// Text with a unit becomes a quantity; a number without its unit is an error, not a guess.
//
//   parse_bytes("80 GiB")                    85,899,345,920 B
//   parse_bytes("79.10 GiB")                 to the nearest byte, in integers
//   parse_bytes("80")                        error: "80" has no unit: write it as "80 GiB"
//   parse_bytes_per_second("3.35 TB/s")
//   parse_flops_per_second("989 TFLOP/s")    also "624 TOP/s" for integer units
//   parse_seconds("1.5 ms")
//   parse_count("8_192")                     8,192; also "8,192", "5e8"
//   parse_count("8k", CountSuffix::kBinary)  8,192: what "8k" means for a sequence
//   parse_count("7B", CountSuffix::kDecimal) 7,000,000,000: what it means for parameters
//
// Units are spelt as written here, case matters (B is a byte, b is a bit). No locale is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "quantity/quantity.h"

namespace steelyard {

// What is wrong, in words that fit behind a place: "\"80\" has no unit: write it as \"80 GiB\"".
struct ParseProblem {
  std::string message;
};
template <class Value>
using Parsed = tl::expected<Value, ParseProblem>;

enum class CountSuffix : std::uint8_t {
  kNone,     // digits only
  kDecimal,  // k, M, B (or G), T are powers of 1000, in either case
  kBinary,   // k, M are powers of 1024
};

Parsed<Bytes> parse_bytes(std::string_view text);
Parsed<BytesPerSecond> parse_bytes_per_second(std::string_view text);
Parsed<FlopsPerSecond> parse_flops_per_second(std::string_view text);
Parsed<Seconds> parse_seconds(std::string_view text);
// `suffixed`, when given, says whether a suffix was read, so that the answer can repeat what it
// took "8k" for.
Parsed<std::int64_t> parse_count(std::string_view text, CountSuffix suffix = CountSuffix::kNone,
                                 bool* suffixed = nullptr);
// A plain real number, the whole text of it: "1.25", "1e-5".
Parsed<double> parse_number(std::string_view text);
// "47 %" or "0.47".
Parsed<double> parse_fraction(std::string_view text);

}  // namespace steelyard
