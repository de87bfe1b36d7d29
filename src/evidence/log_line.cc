#include "evidence/log_line.h"

#include <algorithm>
#include <array>

#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::size_t kPrefixes = 12;        // at most, one behind the other
constexpr std::size_t kLongestPrefix = 400;  // a path of a source file may stand in one
constexpr std::int64_t kLargestRank = 4'000'000;

// Without ESC [ ... letter, ESC ] ... BEL and what else steers a terminal.
std::string without_colours(std::string_view written) {
  std::string text;
  text.reserve(written.size());
  for (std::size_t at = 0; at < written.size(); ++at) {
    const auto c = static_cast<unsigned char>(written[at]);
    if (c == 0x1bU) {
      if (at + 1 < written.size() && written[at + 1] == '[') {
        at += 2;
        while (at < written.size() && !(written[at] >= '@' && written[at] <= '~')) ++at;
      } else if (at + 1 < written.size() && written[at + 1] == ']') {
        while (at < written.size() && written[at] != '\a') ++at;
      } else {
        ++at;
      }
    } else if (c >= 0x20U || c == '\t') {
      text += c == '\t' ? ' ' : static_cast<char>(c);
    }
  }
  return text;
}

void skip_spaces(std::string_view& rest) {
  while (rest.starts_with(' ')) rest.remove_prefix(1);
}

// "[rank3]: ", "[default3]:", "[3]:", "[1,3]<stderr>:"
bool take_rank_prefix(std::string_view& rest, LogLine& line) {
  std::string_view after = rest;
  if (!after.starts_with('[')) return false;
  after.remove_prefix(1);
  if (after.starts_with("rank"))
    after.remove_prefix(4);
  else if (after.starts_with("default"))
    after.remove_prefix(7);
  else if (after.starts_with("1,"))
    after.remove_prefix(2);
  const auto rank = after.starts_with(' ') ? std::nullopt : take_printed_integer(after);
  if (!rank || *rank < 0 || *rank > kLargestRank || !after.starts_with(']')) return false;
  after.remove_prefix(1);
  for (const std::string_view stream : {"<stderr>", "<stdout>"})
    if (after.starts_with(stream)) after.remove_prefix(stream.size());
  if (!after.starts_with(':')) return false;
  after.remove_prefix(1);
  line.rank = rank;
  rest = after;
  return true;
}

// "  0: " of srun --label
bool take_label(std::string_view& rest, LogLine& line) {
  std::string_view after = rest;
  const auto label = take_printed_integer(after);
  if (!label || *label < 0 || *label > kLargestRank || !after.starts_with(':')) return false;
  after.remove_prefix(1);
  if (!after.empty() && after.front() != ' ') return false;
  line.label = label;
  rest = after;
  return true;
}

// "(WorkerDict pid=123, ip=1.2.3.4) " of Ray
bool take_actor(std::string_view& rest) {
  if (!rest.starts_with('(')) return false;
  const std::size_t end = rest.substr(0, kLongestPrefix).find(") ");
  if (end == std::string_view::npos || rest.substr(0, end).find("pid=") == std::string_view::npos)
    return false;
  rest.remove_prefix(end + 2);
  return true;
}

// "trainer-1  | " of docker compose: a name, spaces, a bar
bool take_service(std::string_view& rest) {
  const std::size_t bar = rest.substr(0, 64).find("| ");
  if (bar == std::string_view::npos || bar < 2 || rest[bar - 1] != ' ') return false;
  const std::string_view name = without_spaces(rest.substr(0, bar));
  if (name.find('-') == std::string_view::npos) return false;
  for (const char c : name)
    if (!is_printed_word(c) && c != '-' && c != '.') return false;
  rest.remove_prefix(bar + 2);
  return true;
}

bool is_severity(std::string_view word) {
  constexpr std::array<std::string_view, 11> kSeverities = {
      "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL", "WARN", "I", "W", "E", "root", "titan"};
  for (const std::string_view severity : kSeverities)
    if (severity == word) return true;
  return false;
}

// "[INFO] ", "[engine.py:1690:func] ", "[2026-06-16 23:42:02,990] ", "[E810 03:04:11.061 FILE.cpp:683] ", "[123.456789] "
bool take_bracket(std::string_view& rest, LogLine& line) {
  if (!rest.starts_with('[')) return false;
  const std::size_t end = rest.substr(0, kLongestPrefix).find(']');
  if (end == std::string_view::npos) return false;
  const std::string_view inside = rest.substr(1, end - 1);
  bool is_prefix = is_severity(inside);
  if (inside == "WARNING" || inside == "WARN" || inside == "INFO" || inside == "DEBUG")
    line.warning = true;
  if (inside.find(".py:") != std::string_view::npos ||
      inside.find(".cpp:") != std::string_view::npos) {
    is_prefix = true;
    line.origin = std::string(inside);
  }
  if (inside.find(':') != std::string_view::npos && find_clock_time(inside, 2000)) is_prefix = true;
  std::string_view seconds = inside;
  if (take_printed_number(seconds) && seconds.empty() && inside.find('.') != std::string_view::npos)
    is_prefix = true;  // the kernel's seconds since boot
  if (!is_prefix) return false;
  rest.remove_prefix(end + 1);
  if (rest.starts_with(':')) rest.remove_prefix(1);
  return true;
}

// "2026-01-01T00:00:00.0Z stderr F " of Kubernetes, "2026-01-01 00:00:00,123 - root - INFO - " of Python's logging
bool take_time_words(std::string_view& rest, LogLine& line) {
  if (rest.size() < 19 || !is_printed_digit(rest[0]) || rest[4] != '-' ||
      !is_printed_digit(rest[3]))
    return false;
  const auto time = find_clock_time(rest.substr(0, 40), 2000);
  if (!time || rest.find(time->text) != 0) return false;
  rest.remove_prefix(time->text.size());
  if (rest.starts_with('Z')) rest.remove_prefix(1);
  for (const std::string_view stream : {" stderr F ", " stdout F ", " stderr P ", " stdout P "})
    if (rest.starts_with(stream)) rest.remove_prefix(stream.size());
  for (int word = 0; word < 4 && rest.starts_with(" - "); ++word) {
    const std::size_t end = rest.find(" - ", 3);
    if (end == std::string_view::npos || end > 100) break;
    const std::string_view name = rest.substr(3, end - 3);
    if (name.find(' ') != std::string_view::npos) break;
    if (name == "WARNING" || name == "INFO") line.warning = true;
    rest.remove_prefix(end);
  }
  if (rest.starts_with(" - ")) rest.remove_prefix(3);
  return true;
}

// "│ text │" of rich and loguru
bool take_box(std::string_view& rest, LogLine& line) {
  constexpr std::string_view kBar = "\xE2\x94\x82";  // │
  if (!rest.starts_with(kBar)) return false;
  rest.remove_prefix(kBar.size());
  std::string_view ending = without_spaces(rest);
  if (ending.ends_with(kBar)) ending.remove_suffix(kBar.size());
  rest = ending;
  line.boxed = true;
  return true;
}

}  // namespace

LogLine read_log_line(std::string_view written, std::int64_t number, int year_of_others) {
  LogLine line;
  line.number = number;
  const std::string plain = without_colours(written);
  std::string_view rest = plain;
  line.time = find_clock_time(plain, year_of_others);
  for (std::size_t taken = 0; taken < kPrefixes; ++taken) {
    std::string_view at = rest;
    skip_spaces(at);
    const bool labelled = taken == 0 && take_label(at, line);
    if (labelled || take_rank_prefix(at, line) || take_actor(at) || take_box(at, line) ||
        take_bracket(at, line) || take_time_words(at, line) || take_service(at)) {
      rest = at;
      continue;
    }
    break;
  }
  if (rest.starts_with(' ') && line.text.empty() && rest.size() > 1 && rest[1] != ' ')
    rest.remove_prefix(1);
  line.text = std::string(rest);
  return line;
}

std::optional<std::int64_t> rank_before(std::string_view text, std::size_t at) {
  // A label stands close by; a line may be megabytes of others.
  constexpr std::size_t kClose = 4096;
  const std::size_t from = std::min(at, text.size()) - std::min({at, text.size(), kClose});
  const std::string_view before = text.substr(from, std::min(at, text.size()) - from);
  for (const std::string_view label : {"[rank", "[Rank ", "Rank ", "rank "}) {
    const std::size_t found = before.rfind(label);
    if (found == std::string_view::npos) continue;
    std::string_view rest = before.substr(found + label.size());
    const auto rank = take_printed_integer(rest);
    if (rank && *rank >= 0 && *rank <= kLargestRank) return rank;
  }
  return std::nullopt;
}

}  // namespace steelyard
