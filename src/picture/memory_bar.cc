#include "picture/memory_bar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

double size_of(Bytes bytes) { return static_cast<double>(bytes.value().value()); }

const PhasePrediction* phase_at_peak(const RankPrediction& rank, Phase phase) {
  for (const PhasePrediction& candidate : rank.phases)
    if (candidate.phase == phase) return &candidate;
  return nullptr;
}

std::string marks_of(const BarPart& part) {
  return fmt::format("data-pile=\"{}\" data-bytes=\"{}\"", part.paint.name,
                     part.bytes.value().value());
}

// The parts from `x` on, each a pixel apart from the next.
void draw_parts(Svg& svg, const std::vector<BarPart>& parts, double x, double y, double scale,
                double height) {
  double sum = 0;
  for (const BarPart& part : parts) {
    const double start = x + sum * scale;
    sum += size_of(part.bytes);
    const double end = x + sum * scale;
    svg.rect(part.paint, start, y, std::max(end - start - (end - start > 3 ? 1 : 0), 0.3), height,
             marks_of(part));
  }
}

// What stands beyond the line, as a bracket above the bar.
void draw_over(Svg& svg, double from, double to, double y) {
  if (to - from < 0.5) return;
  svg.path("class=\"sy-over\" fill=\"#b3122a\"",
           fmt::format("M{} {}h{}v3h{}z", coordinate(from), coordinate(y), coordinate(to - from),
                       coordinate(from - to)));
}

// Rounded so that they add up to their sum, as in the tables.
std::vector<std::int64_t> ticks_of_parts(const std::vector<BarPart>& parts, const Scale& scale) {
  std::vector<Bytes> sizes;
  for (const BarPart& part : parts) sizes.push_back(part.bytes);
  return apportioned(sizes, scale);
}

std::vector<LegendEntry> legend_of(const std::vector<BarPart>& parts, const Scale& scale) {
  const std::vector<std::int64_t> ticks = ticks_of_parts(parts, scale);
  std::vector<LegendEntry> entries;
  for (std::size_t i = 0; i < parts.size(); ++i)
    entries.push_back({parts[i].paint, parts[i].words + " " + number_of_ticks(ticks[i], scale)});
  return entries;
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text;
}

void add_part(std::vector<BarPart>& parts, const Paint& paint, std::string words, Bytes bytes) {
  if (bytes > Bytes()) parts.push_back({paint, std::move(words), bytes});
}

// The piles from the bottom to the top, then what is no pile.
std::size_t order_of(std::string_view name) {
  for (std::size_t i = 0; i < kPileCount; ++i)
    if (name_of(static_cast<Pile>(i)) == name) return i;
  return name == "slack" ? kPileCount + 1 : name == "runtime" ? kPileCount + 2 : kPileCount;
}

// Every colour once, in the order of the piles.
std::vector<LegendEntry> colours_of(const std::vector<MemoryBar>& rows) {
  std::vector<LegendEntry> entries;
  for (const MemoryBar& row : rows)
    for (const BarPart& part : row.parts)
      if (std::none_of(entries.begin(), entries.end(), [&](const LegendEntry& entry) {
            return entry.paint.name == part.paint.name;
          }))
        entries.push_back({part.paint, part.words});
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return order_of(a.paint.name) < order_of(b.paint.name);
  });
  return entries;
}

}  // namespace

Bytes MemoryBar::total() const {
  Bytes sum{};
  for (const BarPart& part : parts) sum += part.bytes;
  return sum;
}

std::vector<BarPart> parts_of(const PhasePrediction& phase, Bytes device) {
  std::vector<BarPart> parts = parts_of(phase.piles, Bytes(), phase.slack, std::nullopt);
  const Bytes rest = device - phase.allocated - phase.slack;
  add_part(parts, paint_of_runtime(), "runtime", rest);
  return parts;
}

std::vector<BarPart> parts_of(const Piles& piles, Bytes unaccounted, std::optional<Bytes> slack,
                              std::optional<Bytes> runtime) {
  std::vector<BarPart> parts;
  for (int i = 0; i < kPileCount; ++i) {
    const auto pile = static_cast<Pile>(i);
    add_part(parts, paint_of(pile), words_of(pile), piles[pile]);
  }
  add_part(parts, paint_named("unaccounted"), "unaccounted", unaccounted);
  add_part(parts, paint_of_slack(), "slack", slack.value_or(Bytes()));
  add_part(parts, paint_of_runtime(), "runtime", runtime.value_or(Bytes()));
  return parts;
}

MemoryBar bar_of_peak(const Prediction& prediction) {
  MemoryBar bar;
  const PeakPrediction& peak = prediction.peak;
  if (prediction.ranks.empty()) return bar;
  const PhasePrediction* phase =
      phase_at_peak(prediction.ranks[peak_rank_index(prediction)], peak.phase);
  if (phase == nullptr) return bar;
  bar.parts =
      parts_of(phase->piles, Bytes(), peak.reserved - peak.allocated, peak.device - peak.reserved);
  return bar;
}

std::string finding_of(const Prediction& prediction) {
  const Scale scale = scale_of(prediction, Units::kBinary);
  const MemoryBar bar = bar_of_peak(prediction);
  std::string text =
      fmt::format("{}: needs {} ({} to {}), usable {}", capital(verdict_words(prediction.verdict)),
                  amount_of(prediction.peak.device, scale), number_of(prediction.peak.low, scale),
                  number_of(prediction.peak.high, scale), number_of(prediction.usable, scale));
  const auto largest =
      std::max_element(bar.parts.begin(), bar.parts.end(),
                       [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  if (largest != bar.parts.end())
    text += fmt::format(". The largest pile: {}, {}", largest->words,
                        percent_of(largest->bytes, prediction.peak.device));
  return text + ".";
}

std::string memory_bar_svg(const Prediction& prediction, const Frame& frame) {
  constexpr double kTop = 20, kHeight = 40;
  const Scale units = scale_of(prediction, Units::kBinary);
  const MemoryBar bar = bar_of_peak(prediction);
  const std::vector<LegendEntry> entries =
      frame.legend ? legend_of(bar.parts, units) : std::vector<LegendEntry>();
  const double legend = legend_height(entries, frame.width);
  Svg svg(frame, kTop + kHeight + 26 + (legend > 0 ? legend + 4 : 0), finding_of(prediction));
  const Bytes end = std::max({prediction.peak.device, prediction.usable, prediction.peak.high});
  const double scale = (frame.width - 2) / std::max(size_of(end), 1.0);
  const double limit = 1 + size_of(prediction.usable) * scale;
  const double need = 1 + size_of(prediction.peak.device) * scale;
  svg.plot(1, kTop, frame.width - 2, kHeight, size_of(end), 1);
  svg.rect(paint_named("ground"), 1, kTop, limit - 1, kHeight);
  draw_parts(svg, bar.parts, 1, kTop, scale, kHeight);
  draw_over(svg, limit, need, kTop - 5);
  svg.line("sy-i", limit, kTop - 5, limit, kTop + kHeight + 5);
  const std::string usable = fmt::format("usable {}", amount_of(prediction.usable, units));
  // On the side that has room for it.
  const bool left = limit > text_width(usable) + 8;
  svg.text(left ? limit - 5 : limit + 5, kTop - 8, usable, "sy-q", left ? "end" : "start");
  // The band of the need, beneath.
  const double low = 1 + size_of(prediction.peak.low) * scale;
  const double high = 1 + size_of(prediction.peak.high) * scale;
  const double y = kTop + kHeight + 8;
  svg.path("class=\"sy-s\" fill=\"none\" stroke=\"#6b7680\"",
           fmt::format("M{} {}v6m0-3H{}m0-3v6M{} {}v4", coordinate(low), coordinate(y - 3),
                       coordinate(high), coordinate(need), coordinate(y - 2)));
  const std::string band =
      fmt::format("needs {} ({} to {})", amount_of(prediction.peak.device, units),
                  number_of(prediction.peak.low, units), number_of(prediction.peak.high, units));
  const double half = text_width(band) / 2;
  svg.text(std::clamp(need, half + 2, std::max(frame.width - half - 2, half + 2)), y + 15, band,
           "sy-t", "middle");
  if (legend > 0) draw_legend(svg, entries, 1, kTop + kHeight + 34, frame.width);
  return svg.finish();
}

std::string rows_svg(const std::vector<MemoryBar>& rows, Bytes line, const std::string& line_words,
                     const std::string& unit, const std::string& finding, const Frame& frame) {
  constexpr double kBar = 18, kRow = 26, kTop = 22;
  double labels = 0, notes = text_width(unit);
  Bytes end = line;
  for (const MemoryBar& row : rows) {
    labels = std::max(labels, text_width(row.label));
    notes = std::max(notes, text_width(row.note) + 2);
    end = std::max(end, row.total());
  }
  // On a phone the label stands above its bar.
  const bool stacked = labels > frame.width * 0.42;
  const double left = stacked ? 1 : std::ceil(labels + 10);
  const double row_height = stacked ? kRow + 16 : kRow;
  const std::vector<LegendEntry> entries =
      frame.legend ? colours_of(rows) : std::vector<LegendEntry>();
  const double bottom = kTop + row_height * static_cast<double>(rows.size());
  const double legend = legend_height(entries, frame.width);
  Svg svg(frame, bottom + (legend > 0 ? legend + 8 : 0), finding);
  const double width = std::max(frame.width - left - notes - 10, 20.0);
  const double scale = width / std::max(size_of(end), 1.0);
  svg.plot(left, kTop, width, bottom - kTop, size_of(end), static_cast<double>(rows.size()));
  if (!unit.empty()) svg.text(frame.width - 1, 12, unit, "sy-q", "end");
  double y = kTop;
  for (const MemoryBar& row : rows) {
    if (!row.label.empty()) {
      svg.text(stacked ? 1 : left - 8, stacked ? y + 11 : y + 13, fitted(row.label, frame.width),
               row.marked ? "sy-b" : "sy-t", stacked ? "start" : "end");
      if (stacked) y += 16;
    }
    const double total = size_of(row.total()) * scale;
    svg.rect(paint_named("ground"), left, y, line > Bytes() ? size_of(line) * scale : width, kBar);
    draw_parts(svg, row.parts, left, y, scale, kBar);
    if (line > Bytes() && row.total() > line)
      draw_over(svg, left + size_of(line) * scale, left + total, y - 3);
    if (row.marked) svg.outline("sy-i", left - 1.5, y - 1.5, total + 2, kBar + 3);
    svg.text(frame.width - 1, y + 13, row.note, row.marked ? "sy-b" : "sy-t", "end");
    y += kRow;
  }
  if (line > Bytes()) {
    const double at = left + size_of(line) * scale;
    svg.line("sy-i", at, kTop - 6, at, bottom - 4);
    const bool to_left = at - left > text_width(line_words) + 8;
    svg.text(to_left ? at - 5 : at + 5, 12, line_words, "sy-q", to_left ? "end" : "start");
  }
  if (legend > 0) draw_legend(svg, entries, 1, bottom + 8, frame.width);
  return svg.finish();
}

std::string phases_svg(const Prediction& prediction, std::size_t rank_index, const Frame& frame) {
  if (rank_index >= prediction.ranks.size()) return "";
  const RankPrediction& rank = prediction.ranks[rank_index];
  const Scale scale = scale_of(prediction, Units::kBinary);
  std::vector<MemoryBar> rows;
  for (const PhasePrediction& phase : rank.phases) {
    MemoryBar row{std::string(name_of(phase.phase)), "", {}, phase.phase == rank.phase};
    // The allocator gives nothing back on its own: what a phase reserves is what all before it have reserved.
    row.parts = parts_of(phase, phase.reserved + phase.runtime);
    row.note = number_of(row.total(), scale);
    rows.push_back(std::move(row));
  }
  const std::string finding = fmt::format(
      "Rank {} phase by phase: the peak is in {}, {} on the device of {} usable.", rank.rank,
      name_of(rank.phase), amount_of(rank.device, scale), number_of(prediction.usable, scale));
  return rows_svg(rows, prediction.usable,
                  fmt::format("usable {}", number_of(prediction.usable, scale)), scale.unit,
                  finding, frame);
}

std::string ranks_svg(const Prediction& prediction, std::int64_t stages, const Frame& frame) {
  constexpr std::size_t kMostRows = 16;
  const Scale scale = scale_of(prediction, Units::kBinary);
  std::vector<const RankPrediction*> shown;
  for (const RankPrediction& rank : prediction.ranks) shown.push_back(&rank);
  std::string hidden;
  if (shown.size() > kMostRows) {
    hidden = fmt::format(" {} more are not shown, none fuller.", shown.size() - kMostRows);
    std::stable_sort(shown.begin(), shown.end(),
                     [](const auto* a, const auto* b) { return a->device > b->device; });
    shown.resize(kMostRows);
    std::stable_sort(shown.begin(), shown.end(),
                     [](const auto* a, const auto* b) { return a->rank < b->rank; });
  }
  std::vector<MemoryBar> rows;
  const RankPrediction* fullest = nullptr;
  for (const RankPrediction* rank : shown) {
    if (fullest == nullptr || rank->device > fullest->device) fullest = rank;
    MemoryBar row;
    row.label =
        fmt::format("{}rank {}{}", stages > 1 ? fmt::format("stage {}, ", rank->pipeline + 1) : "",
                    rank->rank, rank->replicas > 1 ? fmt::format(" ×{}", rank->replicas) : "");
    row.marked = rank->rank == prediction.peak.rank;
    if (const PhasePrediction* phase = phase_at_peak(*rank, rank->phase))
      row.parts = parts_of(*phase, rank->device);
    row.note = number_of(rank->device, scale);
    rows.push_back(std::move(row));
  }
  if (fullest == nullptr) return "";
  return rows_svg(
      rows, prediction.usable, fmt::format("usable {}", number_of(prediction.usable, scale)),
      scale.unit,
      fmt::format("{} kinds of rank: rank {} is the fullest, {}.{}", prediction.ranks.size(),
                  fullest->rank, amount_of(fullest->device, scale), hidden),
      frame);
}

std::string ladder_svg(const Prediction& prediction, const std::vector<Suggestion>& suggestions,
                       const Frame& frame) {
  const Scale scale = scale_of(prediction, Units::kBinary);
  MemoryBar now = bar_of_peak(prediction);
  now.label = "as it is";
  now.note = number_of(now.total(), scale);
  std::vector<MemoryBar> rows = {std::move(now)};
  int number = 0;
  for (const Suggestion& suggestion : suggestions) {
    MemoryBar row;
    row.label = fmt::format("{}  {}", ++number, suggestion.change);
    row.note = number_of(suggestion.peak, scale);
    row.parts.push_back({paint_named(suggestion.verdict == Verdict::kTight ? "tight" : "fits"),
                         verdict_words(suggestion.verdict), suggestion.peak});
    rows.push_back(std::move(row));
  }
  return rows_svg(rows, prediction.usable,
                  fmt::format("usable {}", number_of(prediction.usable, scale)), scale.unit,
                  suggestions.empty()
                      ? std::string("No single change makes it fit.")
                      : fmt::format("{} changes make it fit, each alone.", suggestions.size()),
                  frame);
}

std::string two_sides_svg(const TwoSides& sides, const Frame& frame) {
  struct Row {
    const BarPart* part;
    Bytes left{}, right{};
    std::int64_t before = 0, after = 0;  // in shown steps that add up
    Bytes size() const { return left > right ? left - right : right - left; }
  };
  std::vector<Row> rows;
  const auto row_of = [&](const BarPart& part) -> Row& {
    for (Row& row : rows)
      if (row.part->paint.name == part.paint.name) return row;
    rows.push_back({&part});
    return rows.back();
  };
  Bytes end{}, all_left{}, all_right{};
  for (const BarPart& part : sides.left) row_of(part).left = part.bytes;
  for (const BarPart& part : sides.right) row_of(part).right = part.bytes;
  for (const Row& row : rows) {
    end = std::max({end, row.left, row.right});
    all_left += row.left;
    all_right += row.right;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.size() > b.size(); });
  const Scale units = scale_for(std::max(all_left, all_right), Units::kBinary);
  const std::vector<std::int64_t> before = ticks_of_parts(sides.left, units),
                                  after = ticks_of_parts(sides.right, units);
  for (std::size_t i = 0; i < before.size(); ++i) row_of(sides.left[i]).before = before[i];
  for (std::size_t i = 0; i < after.size(); ++i) row_of(sides.right[i]).after = after[i];
  constexpr double kRow = 34, kTop = 22, kThin = 11;
  const double left = std::min(148.0, frame.width * 0.4), notes = 56;
  const double width = std::max(frame.width - left - notes - 8, 20.0);
  const double scale = width / std::max(size_of(end), 1.0);
  const double bottom = kTop + kRow * static_cast<double>(rows.size());
  std::string finding = fmt::format("{} {}, {} {}.", sides.before, amount_of(all_left, units),
                                    sides.after, amount_of(all_right, units));
  if (!rows.empty() && rows.front().size() > Bytes())
    finding += fmt::format(" Most of the difference: {}, {} {}.", rows.front().part->words,
                           signed_number_of_ticks(rows.front().after - rows.front().before, units),
                           units.unit);
  Svg svg(frame, bottom + 2, finding);
  svg.text(left, 12, fitted(fmt::format("pale: {} · full: {}", sides.before, sides.after), width),
           "sy-q");
  svg.text(frame.width - 1, 12, "Δ " + units.unit, "sy-q", "end");
  double y = kTop;
  for (const Row& row : rows) {
    svg.text(left - 8, y + 15, fitted(row.part->words, left - 10), "sy-t", "end");
    svg.begin_group("opacity=\".45\"");
    svg.rect(row.part->paint, left, y, size_of(row.left) * scale, kThin,
             fmt::format("data-pile=\"{}\" data-bytes=\"{}\"", row.part->paint.name,
                         row.left.value().value()));
    svg.end_group();
    svg.rect(row.part->paint, left, y + kThin + 1, size_of(row.right) * scale, kThin,
             fmt::format("data-pile=\"{}\" data-bytes=\"{}\"", row.part->paint.name,
                         row.right.value().value()));
    const std::int64_t difference = row.after - row.before;
    svg.text(frame.width - 1, y + 15, signed_number_of_ticks(difference, units),
             difference > 0 ? "sy-r" : "sy-t", "end");
    y += kRow;
  }
  return svg.finish();
}

}  // namespace steelyard
