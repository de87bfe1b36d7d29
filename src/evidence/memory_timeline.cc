#include "evidence/memory_timeline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "evidence/json_scan.h"
#include "evidence/printed.h"
#include "evidence/snapshot_reader.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 8> kCategories = {
    "parameters", "optimizer state", "input",           "temporary",
    "activation", "gradient",        "autograd detail", "unknown"};
using BytesOfCategories = std::array<double, kCategories.size()>;

double total_of(const BytesOfCategories& sizes) {
  double sum = 0.0;
  for (const double size : sizes) sum += size;
  return sum;
}

struct TimelinePeak {
  BytesOfCategories sizes{};
  double total = -1.0;
  std::int64_t rows = 0;

  void look_at(const BytesOfCategories& now) {
    const double sum = total_of(now);
    if (sum <= total) return;
    total = sum;
    sizes = now;
  }
};

// Rows of four numbers, each a change; the first row's bracket is open already.
void read_changes(JsonScan& scan, TimelinePeak& peak) {
  BytesOfCategories now{};
  do {
    std::array<double, 4> row{};
    std::size_t count = 0;
    while (scan.next_item()) {
      const auto number = scan.number();
      if (!number) scan.skip();
      if (count < row.size()) row[count] = number.value_or(0.0);
      ++count;
    }
    if (scan.cut()) return;
    const bool known = row[3] >= 0.0 && row[3] < static_cast<double>(now.size());
    if (count == row.size() && known && std::abs(row[2]) < 1e18) {
      now[static_cast<std::size_t>(row[3])] += row[2];
      ++peak.rows;
      peak.look_at(now);
    }
  } while (scan.next_item() && scan.enter('['));
}

// Lists of nine sizes, one for each time: the first column is always zero.
void read_sizes(JsonScan& scan, TimelinePeak& peak) {
  if (!scan.enter('[')) return;
  while (scan.next_item()) {
    if (!scan.enter('[')) {
      scan.skip();
      continue;
    }
    BytesOfCategories now{};
    for (std::size_t column = 0; scan.next_item(); ++column) {
      const auto number = scan.number();
      if (!number) scan.skip();
      if (column >= 1 && column <= now.size() && std::abs(number.value_or(0.0)) < 1e18)
        now[column - 1] = number.value_or(0.0);
    }
    if (scan.cut()) return;
    ++peak.rows;
    peak.look_at(now);
  }
}

}  // namespace

int recognise_memory_timeline(std::string_view head, std::string_view name) {
  const std::size_t first = head.find_first_not_of(" \n\r\t");
  if (first == std::string_view::npos || head[first] != '[') return 0;
  // Two brackets, then numbers alone.
  std::string_view rest = head.substr(first);
  std::size_t brackets = 0;
  while (!rest.empty() && (rest.front() == '[' || rest.front() == ' ')) {
    brackets += rest.front() == '[' ? 1 : 0;
    rest.remove_prefix(1);
  }
  const bool numbers =
      rest.substr(0, 200).find_first_not_of("0123456789.,-+eE []\n") == std::string_view::npos;
  if (brackets != 2 || !numbers || rest.empty()) return 0;
  return name.find("timeline") != std::string_view::npos ? 95 : 70;
}

tl::expected<Evidence, Diagnostics> read_memory_timeline(std::string_view bytes,
                                                         std::string_view name) {
  Evidence evidence;
  evidence.file = std::string(name);
  evidence.kind = "memory timeline";
  evidence.rank = rank_of_name(name);
  JsonScan scan(bytes);
  TimelinePeak peak;
  if (scan.enter('[') && scan.next_item() && scan.enter('[')) {
    // The first row tells the two forms apart: a change has four numbers, the list of times as many as there are rows.
    JsonScan ahead = scan;
    std::size_t count = 0;
    while (count <= 5 && ahead.next_item()) {
      if (!ahead.number()) ahead.skip();
      ++count;
    }
    if (count == 4) {
      evidence.era = "raw";
      read_changes(scan, peak);
    } else {
      evidence.era = "json";
      while (scan.next_item()) scan.skip();
      if (scan.next_item()) read_sizes(scan, peak);
    }
  }
  if (scan.cut()) {
    evidence.complete = false;
    evidence.why_incomplete = "the timeline ends in the middle";
  }
  if (peak.rows == 0) {
    evidence.complete = false;
    evidence.why_incomplete = "the timeline has no row";
    return evidence;
  }
  MemoryReading whole;
  whole.source = "memory timeline";
  whole.rank = evidence.rank;
  whole.label = "peak";
  whole.max_allocated = printed_bytes(peak.total, 1.0);
  whole.place = {evidence.file, "the highest row"};
  evidence.readings.push_back(whole);
  for (std::size_t i = 0; i < kCategories.size(); ++i) {
    const auto size = printed_bytes(peak.sizes[i], 1.0);
    if (!size || *size == Bytes(0)) continue;
    MemoryReading reading;
    reading.source = "memory timeline";
    reading.rank = evidence.rank;
    reading.label = std::string(kCategories[i]);
    reading.allocated = size;
    reading.place = whole.place;
    evidence.readings.push_back(std::move(reading));
  }
  return evidence;
}

}  // namespace steelyard
