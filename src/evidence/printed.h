// Numbers and sizes as tools print them, found by the label before or behind them.
//
//   size_behind("Tried to allocate 1.96 GiB. GPU 0", "Tried to allocate ")       2,104,533,975 B
//   number_behind("| max allocated: 24432.009765625 | reserved", "max allocated: ")   24432.009765625
//
// A text of others may hold anything: what does not fit a number of 64 bits is no number.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "quantity/quantity.h"

namespace steelyard {

constexpr double kKibibyte = 1024.0;
constexpr double kMebibyte = 1024.0 * kKibibyte;
constexpr double kGibibyte = 1024.0 * kMebibyte;
constexpr double kGigabyte = 1e9;

bool is_printed_digit(char c);
bool is_printed_word(char c);                            // a letter, a digit or "_"
std::string_view without_spaces(std::string_view text);  // at both ends

// What stands behind the first `label`; nothing where there is none.
std::optional<std::string_view> behind(std::string_view text, std::string_view label);
// The same, where `label` does not continue a longer word: "allocated: " within "max allocated: " is a word of its own.
std::optional<std::string_view> behind_word(std::string_view text, std::string_view label);

// Takes a number off the front, behind spaces; what stands there stays where it is none. Digits may be grouped by commas.
std::optional<double> take_printed_number(std::string_view& rest);
std::optional<std::int64_t> take_printed_integer(std::string_view& rest);
// A number and its unit. KB, MB and GB are powers of 1024, as allocators and kernels mean them.
std::optional<Bytes> take_printed_size(std::string_view& rest);

std::optional<double> number_behind(std::string_view text, std::string_view label);
std::optional<std::int64_t> integer_behind(std::string_view text, std::string_view label);
std::optional<Bytes> size_behind(std::string_view text, std::string_view label);
// Of a number without its unit.
std::optional<Bytes> size_behind(std::string_view text, std::string_view label, double unit);

// The number of an ending text: "7.50 GiB free; 5.00 GiB" has 5.00 GiB before its end.
std::optional<Bytes> size_before(std::string_view text, std::string_view label);

// To the nearest byte; nothing for a negative amount and for one that no device has (2^60 B or more: "no data").
std::optional<Bytes> printed_bytes(double amount, double unit);

}  // namespace steelyard
