#include "evidence/json_scan.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace steelyard {

void JsonScan::space() {
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
}

char JsonScan::peek() {
  space();
  if (at_ == end_) {
    cut_ = true;
    return '\0';
  }
  return *at_;
}

bool JsonScan::enter(char bracket) {
  if (peek() != bracket) return false;
  ++at_;
  return true;
}

bool JsonScan::next_member(std::string_view& key) {
  char c = peek();
  if (c == ',') {
    ++at_;
    c = peek();
  }
  if (c == '}') {
    ++at_;
    return false;
  }
  const auto name = string();
  if (!name || peek() != ':') {
    break_off();
    return false;
  }
  ++at_;
  key = *name;
  return true;
}

bool JsonScan::next_item() {
  char c = peek();
  if (c == ',') {
    ++at_;
    c = peek();
  }
  if (c == ']') {
    ++at_;
    return false;
  }
  return c != '\0';
}

std::optional<std::string_view> JsonScan::string() {
  if (peek() != '"') return std::nullopt;
  const char* const begin = ++at_;
  while (at_ != end_) {
    const auto* const quote =
        static_cast<const char*>(std::memchr(at_, '"', static_cast<std::size_t>(end_ - at_)));
    if (quote == nullptr) break;
    // An odd number of backslashes before it makes it a character of the string.
    const char* back = quote;
    while (back != begin && back[-1] == '\\') --back;
    at_ = quote + 1;
    if (((quote - back) & 1) == 0)
      return std::string_view(begin, static_cast<std::size_t>(quote - begin));
  }
  break_off();
  return std::nullopt;
}

std::optional<double> JsonScan::number() {
  constexpr std::array<double, 19> kPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,
                                              1e7,  1e8,  1e9,  1e10, 1e11, 1e12, 1e13,
                                              1e14, 1e15, 1e16, 1e17, 1e18};
  peek();
  const char* const begin = at_;
  bool negative = false;
  if (at_ != end_ && *at_ == '-') {
    negative = true;
    ++at_;
  }
  std::uint64_t digits = 0;
  std::size_t taken = 0, behind_point = 0;
  int shift = 0;
  bool point = false, any = false;
  for (; at_ != end_; ++at_) {
    if (*at_ == '.' && !point) {
      point = true;
      continue;
    }
    if (*at_ < '0' || *at_ > '9') break;
    any = true;
    if (taken < 18) {
      digits = digits * 10 + static_cast<std::uint64_t>(*at_ - '0');
      taken += digits != 0 ? 1 : 0;
      behind_point += point ? 1 : 0;
    } else if (!point) {
      ++shift;
    }
  }
  if (!any) {
    at_ = begin;
    return std::nullopt;
  }
  double value = static_cast<double>(digits);
  if (behind_point > 0)
    value /= behind_point < kPowers.size() ? kPowers[behind_point] : std::pow(10.0, behind_point);
  if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_;
    bool down = false;
    if (at_ != end_ && (*at_ == '-' || *at_ == '+')) down = *at_++ == '-';
    int exponent = 0;
    for (; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_)
      exponent = exponent < 1000 ? exponent * 10 + (*at_ - '0') : exponent;
    shift += down ? -exponent : exponent;
  }
  if (shift != 0) value *= std::pow(10.0, shift);
  return negative ? -value : value;
}

void JsonScan::skip() {
  const char first = peek();
  if (first == '"') {
    string();
    return;
  }
  if (first != '{' && first != '[') {
    const char* const begin = at_;
    while (at_ != end_ && *at_ != ',' && *at_ != '}' && *at_ != ']') ++at_;
    // A bracket that closes what was never opened: no value stands here, and none would ever be passed.
    if (at_ == begin) break_off();
    return;
  }
  // Brackets are counted, not matched: no depth is too deep.
  std::int64_t open = 0;
  while (at_ != end_) {
    const char c = *at_;
    if (c == '"') {
      string();
      continue;
    }
    ++at_;
    if (c == '{' || c == '[') ++open;
    if ((c == '}' || c == ']') && --open == 0) return;
  }
  cut_ = true;
}

}  // namespace steelyard
