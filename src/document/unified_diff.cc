#include "document/unified_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace steelyard {
namespace {

constexpr std::size_t kAround = 3;  // lines shown beside a change
constexpr std::size_t kMostCells = std::size_t{16}
                                   << 20;  // of the table below; larger texts differ as a whole

using Lines = std::vector<std::string_view>;

Lines lines_of(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return lines;
}

// Which lines are kept, in one order for both: ' ', '-' and '+', the longest common part kept.
std::string script_of(const Lines& before, const Lines& after) {
  std::size_t head = 0;
  const std::size_t least = std::min(before.size(), after.size());
  while (head < least && before[head] == after[head]) ++head;
  std::size_t tail = 0;
  while (tail < least - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail])
    ++tail;
  const std::size_t rows = before.size() - head - tail;
  const std::size_t columns = after.size() - head - tail;
  std::string script(head, ' ');
  if (rows > 0 && columns > 0 && rows * columns <= kMostCells) {
    // common[i][j]: of the lines from i and from j on.
    std::vector<std::uint32_t> common((rows + 1) * (columns + 1), 0);
    const auto at = [&](std::size_t i, std::size_t j) -> std::uint32_t& {
      return common[i * (columns + 1) + j];
    };
    for (std::size_t i = rows; i-- > 0;)
      for (std::size_t j = columns; j-- > 0;)
        at(i, j) = before[head + i] == after[head + j] ? at(i + 1, j + 1) + 1
                                                       : std::max(at(i + 1, j), at(i, j + 1));
    std::size_t i = 0;
    std::size_t j = 0;
    while (i < rows && j < columns) {
      if (before[head + i] == after[head + j]) {
        script += ' ';
        ++i;
        ++j;
      } else if (at(i + 1, j) >= at(i, j + 1)) {
        script += '-';
        ++i;
      } else {
        script += '+';
        ++j;
      }
    }
    script.append(rows - i, '-').append(columns - j, '+');
  } else {
    script.append(rows, '-').append(columns, '+');
  }
  return script.append(tail, ' ');
}

void add_line(std::string& text, char sign, std::string_view line) {
  text += sign;
  text += line;
  if (!line.ends_with("\n")) text += "\n\\ No newline at end of file\n";
}

// `1,4`; of no line the one before it, as diff counts.
std::string range(std::size_t first, std::size_t count) {
  return fmt::format("{},{}", count == 0 ? first : first + 1, count);
}

std::string without_end(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return std::string(line);
}

}  // namespace

std::vector<ChangedLine> changed_lines(std::string_view before, std::string_view after) {
  std::vector<ChangedLine> changed;
  if (before == after) return changed;
  const Lines old = lines_of(before);
  const Lines fresh = lines_of(after);
  const std::string script = script_of(old, fresh);
  std::size_t i = 0;
  std::size_t j = 0;
  for (std::size_t at = 0; at < script.size();) {
    if (script[at] == ' ') {
      ++at, ++i, ++j;
      continue;
    }
    // Of one block of changes the first line that goes is told as the first that comes.
    std::vector<std::size_t> gone;
    std::vector<std::size_t> come;
    for (; at < script.size() && script[at] != ' '; ++at)
      if (script[at] == '-')
        gone.push_back(i++);
      else
        come.push_back(j++);
    for (std::size_t k = 0; k < std::max(gone.size(), come.size()); ++k)
      changed.push_back({static_cast<std::int64_t>(k < gone.size() ? gone[k] : i) + 1,
                         k < gone.size() ? without_end(old[gone[k]]) : "",
                         k < come.size() ? without_end(fresh[come[k]]) : ""});
  }
  return changed;
}

std::string unified_diff(std::string_view before, std::string_view after,
                         std::string_view before_name, std::string_view after_name) {
  if (before == after) return "";
  const Lines old = lines_of(before);
  const Lines fresh = lines_of(after);
  const std::string script = script_of(old, fresh);
  std::string text = fmt::format("--- {}\n+++ {}\n", before_name, after_name);
  std::size_t i = 0;  // lines of `old` and `fresh` before `at`
  std::size_t j = 0;
  for (std::size_t at = 0; at < script.size();) {
    if (script[at] == ' ') {
      ++at, ++i, ++j;
      continue;
    }
    const std::size_t lead = std::min(kAround, at);
    const std::size_t from = at - lead;  // equal lines all, since the last hunk took those after it
    std::size_t last = at;
    for (std::size_t next = at; next < script.size() && next <= last + 2 * kAround; ++next)
      if (script[next] != ' ') last = next;
    const std::size_t upto = std::min(last + kAround + 1, script.size());
    std::string body;
    const std::size_t first_old = i - lead;
    const std::size_t first_fresh = j - lead;
    i = first_old;
    j = first_fresh;
    for (std::size_t k = from; k < upto; ++k) {
      add_line(body, script[k], script[k] == '+' ? fresh[j] : old[i]);
      if (script[k] != '+') ++i;
      if (script[k] != '-') ++j;
    }
    text += fmt::format("@@ -{} +{} @@\n{}", range(first_old, i - first_old),
                        range(first_fresh, j - first_fresh), body);
    at = upto;
  }
  return text;
}

}  // namespace steelyard
