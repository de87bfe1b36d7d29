#include "report/fix_line.h"

#include <fmt/format.h>

#include <algorithm>

namespace steelyard {
namespace {

constexpr std::size_t kLongestPart = 64;

bool is_gap(char letter) { return letter == ' ' || letter == '\t'; }

// Nor the sign by which a shell's command goes on in the next line.
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_gap(text.front())) text.remove_prefix(1);
  while (!text.empty() && (is_gap(text.back()) || text.back() == '\\')) text.remove_suffix(1);
  return text;
}

// Cut between two characters, never within one of UTF-8.
std::string shortened(std::string_view text) {
  if (text.size() <= kLongestPart) return std::string(text);
  std::size_t end = kLongestPart - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

// Where the word begins that ends before `at`, and the key in front of it: `--bs 8`, `loss = "x"`, `micro_batch_size: 4`.
std::size_t word_before(std::string_view text, std::size_t at) {
  while (at > 0 && is_gap(text[at - 1])) --at;
  while (at > 0 && !is_gap(text[at - 1])) --at;
  return at;
}

}  // namespace

std::string fix_line_text(const FixLine& line) {
  const std::string_view before = trimmed(line.change.before);
  const std::string_view after = trimmed(line.change.after);
  const std::string place = fmt::format("{}:{}", line.file, line.change.line);
  if (before.empty()) return fmt::format("{} + {}", place, shortened(after));
  if (after.empty()) return fmt::format("{} - {}", place, shortened(before));
  const std::size_t least = std::min(before.size(), after.size());
  std::size_t head = 0;
  while (head < least && before[head] == after[head]) ++head;
  std::size_t tail = 0;
  while (tail < least - head && before[before.size() - 1 - tail] == after[after.size() - 1 - tail])
    ++tail;
  // Whole words: of 16 -> 1 not the 6 alone.
  const auto ends_at = [](std::string_view text, std::size_t at) {
    return at >= text.size() || is_gap(text[at]);
  };
  if (!ends_at(before, head) || !ends_at(after, head))
    while (head > 0 && !is_gap(before[head - 1])) --head;
  tail = std::min(tail, least - head);
  while (tail > 0 && !is_gap(before[before.size() - tail])) --tail;
  std::size_t from = word_before(before, head);
  if (const std::string_view key = trimmed(before.substr(from, head - from));
      key == "=" || key == ":")
    from = word_before(before, from);
  const auto part = [&](std::string_view text, std::size_t begin) {
    return shortened(trimmed(text.substr(begin, text.size() - tail - begin)));
  };
  const std::string fresh = part(after, head);
  if (fresh.empty()) return fmt::format("{} - {}", place, part(before, head));
  if (part(before, head).empty()) return fmt::format("{} + {}", place, fresh);
  return fmt::format("{} {} -> {}", place, part(before, from), fresh);
}

}  // namespace steelyard
