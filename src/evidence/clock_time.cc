#include "evidence/clock_time.h"

#include <array>
#include <cstdint>
#include <cstdlib>

#include "evidence/printed.h"

namespace steelyard {
namespace {

// A time of day stands this near the front of its line, or it is a word of the message.
constexpr std::size_t kFrontOfLine = 160;

struct ClockDate {
  int month = 0, day = 0;
  std::optional<int> year;
  std::size_t begin = 0;  // in the text
};

bool has_digits(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return false;
  for (std::size_t i = at; i < at + count; ++i)
    if (!is_printed_digit(text[i])) return false;
  return true;
}

int digits_at(std::string_view text, std::size_t at, std::size_t count) {
  int number = 0;
  for (std::size_t i = at; i < at + count; ++i) number = number * 10 + (text[i] - '0');
  return number;
}

// Days since 1970-01-01 of the Gregorian calendar: years begin in March, so that the leap day is a year's last.
std::int64_t days_of(int year, int month, int day) {
  const std::int64_t y = month <= 2 ? year - 1 : year;
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const std::int64_t year_of_era = y - era * 400;
  const std::int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const std::int64_t day_of_era =
      year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
  return era * 146097 + day_of_era - 719468;
}

int month_named(std::string_view name) {
  constexpr std::array<std::string_view, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  for (std::size_t i = 0; i < kMonths.size(); ++i)
    if (kMonths[i] == name) return static_cast<int>(i) + 1;
  return 0;
}

// The date that ends right before the time of day at `at`.
std::optional<ClockDate> date_before(std::string_view text, std::size_t at) {
  if (at >= 11 && has_digits(text, at - 11, 4) && has_digits(text, at - 6, 2) &&
      has_digits(text, at - 3, 2) && (text[at - 7] == '-' || text[at - 7] == '/') &&
      text[at - 4] == text[at - 7])
    return ClockDate{digits_at(text, at - 6, 2), digits_at(text, at - 3, 2),
                     digits_at(text, at - 11, 4), at - 11};
  if (at < 5 || text[at - 1] != ' ') return std::nullopt;
  // glog: a letter of the severity, the month in one or two digits, the day in two
  for (const std::size_t digits : {std::size_t{4}, std::size_t{3}}) {
    const std::size_t begin = at - 1 - digits;
    if (begin == 0 || begin > at || !has_digits(text, begin, digits)) continue;
    const char severity = text[begin - 1];
    if (severity == 'I' || severity == 'W' || severity == 'E' || severity == 'F')
      return ClockDate{digits_at(text, begin, digits - 2), digits_at(text, at - 3, 2), std::nullopt,
                       begin};
  }
  // dmesg -T in Chinese and Japanese: "9月  3 05:57:48 2024"
  const std::size_t front = at > 16 ? at - 16 : 0;
  const std::size_t mark = text.substr(front, at - front).rfind("\xE6\x9C\x88");
  if (mark != std::string_view::npos && mark + front > 0 &&
      is_printed_digit(text[front + mark - 1])) {
    std::size_t begin = front + mark - 1;
    if (begin > 0 && is_printed_digit(text[begin - 1])) --begin;
    std::string_view month = text.substr(begin), day = text.substr(front + mark + 3);
    const auto number = take_printed_integer(month), of_month = take_printed_integer(day);
    if (number && of_month && *number <= 12 && *of_month <= 31)
      return ClockDate{static_cast<int>(*number), static_cast<int>(*of_month), std::nullopt, begin};
  }
  if (at >= 7 && is_printed_digit(text[at - 2])) {
    const int tens = is_printed_digit(text[at - 3]) ? text[at - 3] - '0' : 0;
    if (const int month = month_named(text.substr(at - 7, 3)))
      return ClockDate{month, tens * 10 + (text[at - 2] - '0'), std::nullopt, at - 7};
  }
  return std::nullopt;
}

}  // namespace

std::optional<ClockTime> find_clock_time(std::string_view text, int year_of_others) {
  const std::size_t front = text.size() < kFrontOfLine ? text.size() : kFrontOfLine;
  for (std::size_t at = 0; at + 8 <= front; ++at) {
    if (text[at + 2] != ':' || text[at + 5] != ':') continue;
    if (!has_digits(text, at, 2) || !has_digits(text, at + 3, 2) || !has_digits(text, at + 6, 2))
      continue;
    auto date = date_before(text, at);
    if (!date || date->month < 1 || date->month > 12 || date->day < 1 || date->day > 31) continue;
    std::size_t end = at + 8;
    double fraction = 0.0, place = 0.1;
    if (end + 1 < text.size() && (text[end] == '.' || text[end] == ',') &&
        is_printed_digit(text[end + 1])) {
      for (++end; end < text.size() && is_printed_digit(text[end]); ++end, place /= 10.0)
        fraction += place * (text[end] - '0');
    } else if (end + 5 <= text.size() && text[end] == ' ' && has_digits(text, end + 1, 4) &&
               !date->year) {
      date->year = digits_at(text, end + 1, 4);  // Mon Jun 16 23:42:02 2026
      end += 5;
    }
    ClockTime time;
    time.text = std::string(text.substr(date->begin, end - date->begin));
    time.year = date->year;
    const double days =
        static_cast<double>(days_of(date->year.value_or(year_of_others), date->month, date->day));
    time.seconds = days * 86400.0 + digits_at(text, at, 2) * 3600.0 +
                   digits_at(text, at + 3, 2) * 60.0 + digits_at(text, at + 6, 2) + fraction;
    return time;
  }
  return std::nullopt;
}

}  // namespace steelyard
