#include "report/measured_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "document/printable.h"
#include "quantity/print.h"
#include "report/table.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

struct MemoryRow {
  std::string label, key;
  Bytes before, after;
  Bytes delta() const { return after - before; }
  Bytes moved() const { return delta() < Bytes() ? Bytes() - delta() : delta(); }
};

std::vector<MemoryRow> memory_rows(const ComparedMemory& before, const ComparedMemory& after) {
  std::vector<MemoryRow> rows;
  for (int index = 0; index < kPileCount; ++index) {
    const auto pile = static_cast<Pile>(index);
    rows.push_back({std::string(words_of(pile)), std::string(name_of(pile)), before.piles[pile],
                    after.piles[pile]});
  }
  rows.push_back({"unaccounted", "unaccounted", before.unaccounted, after.unaccounted});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const MemoryRow& a, const MemoryRow& b) { return a.moved() > b.moved(); });
  return rows;
}

Bytes alive(const ComparedMemory& side) {
  Bytes sum = side.unaccounted;
  for (int index = 0; index < kPileCount; ++index) sum += side.piles[static_cast<Pile>(index)];
  return sum;
}

std::string kind_of(const ComparedMemory& side) { return side.measured ? "measured" : "predicted"; }

// Of a table whose heading says the unit.
std::string signed_number(Bytes bytes, Units units) {
  const std::string text = print_signed(bytes, units);
  return text.substr(0, text.find(' '));
}

std::string described(const ComparedMemory& side, int wide) {
  return fmt::format("       {}  {}{}{}\n", padded_right(printable(side.name), wide), kind_of(side),
                     side.moment.empty() ? "" : ", ", printable(side.moment));
}

}  // namespace

ComparedMemory measured_memory(const Diagnosis& diagnosis, const std::string& name) {
  ComparedMemory side;
  side.name = name;
  side.measured = true;
  side.piles = diagnosis.piles;
  side.unaccounted = diagnosis.unaccounted;
  const auto say = [&side](const std::string& text) {
    if (!text.empty()) side.moment += (side.moment.empty() ? "" : ", ") + text;
  };
  say(diagnosis.has_failure ? "at its failure" : "at its highest point");
  if (diagnosis.rank) say(fmt::format("rank {}", *diagnosis.rank));
  if (diagnosis.step) say(fmt::format("step {}", *diagnosis.step));
  say(diagnosis.phase);
  if (diagnosis.event) say("event " + print_count(Checked(*diagnosis.event)));
  return side;
}

ComparedMemory predicted_memory(const Diagnosis& diagnosis, const std::string& name) {
  ComparedMemory side;
  side.name = name;
  if (!diagnosis.against) return side;
  side.piles = diagnosis.against->piles;
  side.moment = std::string(name_of(diagnosis.against->phase));
  return side;
}

bool differ(const ComparedMemory& before, const ComparedMemory& after) {
  const std::vector<MemoryRow> rows = memory_rows(before, after);
  return std::any_of(rows.begin(), rows.end(),
                     [](const MemoryRow& row) { return row.delta() != Bytes(); });
}

std::string comparison_line(const ComparedMemory& before, const ComparedMemory& after,
                            const Style& style) {
  const Bytes a = alive(before), b = alive(after);
  const std::string_view word = b > a ? "grew" : b < a ? "shrank" : "same";
  return fmt::format("{}   {} -> {} alive: {}\n", painted(style, Ink::kStrong, word),
                     print(a, style.units), print(b, style.units),
                     print_signed(b - a, style.units));
}

std::string comparison_text(const ComparedMemory& before, const ComparedMemory& after,
                            const Style& style) {
  std::string text = comparison_line(before, after, style);
  const int wide = std::max(columns_of(printable(before.name)), columns_of(printable(after.name)));
  text += described(before, wide) + described(after, wide);
  Table table({{std::string(memory_unit(style.units))},
               {printable(before.name), true},
               {printable(after.name), true},
               {"delta", true}});
  const auto cell = [&](Bytes bytes) {
    return bytes == Bytes() ? std::string("-") : print_memory(bytes, style.units);
  };
  for (const MemoryRow& row : memory_rows(before, after)) {
    if (row.before == Bytes() && row.after == Bytes()) continue;
    table.add({"  " + row.label, cell(row.before), cell(row.after),
               row.delta() == Bytes() ? "-" : signed_number(row.delta(), style.units)});
  }
  table.add({"alive", cell(alive(before)), cell(alive(after)),
             signed_number(alive(after) - alive(before), style.units)});
  return text + "\n" + without_trailing_blanks(table.text(style));
}

nlohmann::ordered_json json_of(const ComparedMemory& before, const ComparedMemory& after) {
  nlohmann::ordered_json piles = nlohmann::ordered_json::array();
  for (const MemoryRow& row : memory_rows(before, after))
    piles.push_back({{"pile", row.key},
                     {"before_bytes", row.before.value().value()},
                     {"after_bytes", row.after.value().value()},
                     {"delta_bytes", row.delta().value().value()}});
  const auto side = [](const ComparedMemory& one) {
    return nlohmann::ordered_json{{"name", one.name},
                                  {"kind", kind_of(one)},
                                  {"moment", one.moment},
                                  {"alive_bytes", alive(one).value().value()}};
  };
  return {{"schema", "steelyard.comparison/1"},
          {"same", !differ(before, after)},
          {"delta_alive_bytes", (alive(after) - alive(before)).value().value()},
          {"piles", std::move(piles)},
          {"before", side(before)},
          {"after", side(after)}};
}

}  // namespace steelyard
