#include "picture/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "document/printable.h"

namespace steelyard {
namespace {

// Fixed by the house: nine piles in their order, told apart with any eyes; the dark values stand in picture_style().
struct PileColour {
  std::string_view name, light, dark;
  bool pattern;
};
constexpr std::array kPileColours = {PileColour{"parameters", "#0a67c4", "#2781dc", false},
                                     PileColour{"gradients", "#62c0fb", "#54d7fd", false},
                                     PileColour{"master_weights", "#442360", "#774f8f", false},
                                     PileColour{"optimizer_moments", "#9773a3", "#cc87bb", false},
                                     PileColour{"activations", "#e45b00", "#fd562b", false},
                                     PileColour{"temporary", "#efd57a", "#fddb59", false},
                                     PileColour{"communication", "#4f8c64", "#158e5b", false},
                                     PileColour{"slack", "#bcc5ce", "#d4d7dc", true},
                                     PileColour{"runtime", "#44494e", "#5c636b", true}};

// Everything else that a chart draws with.
constexpr std::array kOtherColours = {PileColour{"unaccounted", "#8a6d3b", "#c9a86a", false},
                                      PileColour{"over", "#b3122a", "#ff6b7a", false},
                                      PileColour{"fits", "#1a7f4b", "#3fc380", false},
                                      PileColour{"tight", "#8a5a00", "#e0a93a", false},
                                      PileColour{"ground", "#eef1f4", "#262c33", false},
                                      PileColour{"mark", "#6b7680", "#9aa5b1", false},
                                      PileColour{"forward", "#5b84b1", "#6f9fd0", false},
                                      PileColour{"backward", "#274b74", "#3f6da3", false},
                                      PileColour{"weights", "#a9c1d9", "#a9c1d9", false},
                                      PileColour{"optimizer", "#9773a3", "#cc87bb", false},
                                      PileColour{"network", "#4f8c64", "#158e5b", false}};

// A character's share of the size: narrow, usual and wide ones.
double share_of_size(char32_t character) {
  switch (character) {
    case U'i':
    case U'l':
    case U'j':
    case U'.':
    case U',':
    case U':':
    case U'\'':
    case U'|':
      return 0.33;
    case U' ':
    case U'f':
    case U't':
    case U'r':
    case U'(':
    case U')':
    case U'-':
      return 0.43;
    case U'm':
    case U'w':
    case U'M':
    case U'W':
    case U'%':
      return 0.95;
    default:
      return character >= 0x2E80 ? 1.05 : character >= U'A' && character <= U'Z' ? 0.72 : 0.63;
  }
}

// One character of UTF-8 from `at`, which moves behind it.
char32_t next_character(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  char32_t value = first < 0xE0 ? first & 0x1Fu : first < 0xF0 ? first & 0x0Fu : first & 0x07u;
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0u) == 0x80u)
    value = (value << 6u) | (static_cast<unsigned char>(text[at++]) & 0x3Fu);
  return value;
}

constexpr double kSwatch = 10, kLegendLine = 18, kLegendGap = 16;

double legend_entry_width(const LegendEntry& entry) {
  return kSwatch + 6 + text_width(entry.words) + kLegendGap;
}

}  // namespace

Paint paint_named(std::string_view name) {
  for (const PileColour& colour : kPileColours)
    if (colour.name == name) return {colour.name, colour.light, colour.pattern};
  for (const PileColour& colour : kOtherColours)
    if (colour.name == name) return {colour.name, colour.light, colour.pattern};
  return paint_named("mark");
}

Paint paint_of(Pile pile) { return paint_named(name_of(pile)); }
Paint paint_of_slack() { return paint_named("slack"); }
Paint paint_of_runtime() { return paint_named("runtime"); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char character : printable(text)) switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += character;
    }
  return result;
}

std::string coordinate(double value) {
  if (!std::isfinite(value)) return "0";
  const auto tenths = std::llround(std::clamp(value, -1e9, 1e9) * 10);
  const auto size = std::llabs(tenths);
  std::string text = tenths < 0 ? "-" : "";
  text += std::to_string(size / 10);
  if (size % 10 != 0) text += "." + std::to_string(size % 10);
  return text;
}

double text_width(std::string_view text, double size) {
  double width = 0;
  for (std::size_t at = 0; at < text.size();) width += share_of_size(next_character(text, at));
  return width * size;
}

std::string fitted(std::string_view text, double width, double size) {
  if (text_width(text, size) <= width) return std::string(text);
  std::size_t end = 0;
  double taken = size;  // of the ellipsis
  for (std::size_t at = 0; at < text.size();) {
    taken += share_of_size(next_character(text, at)) * size;
    if (taken > width) break;
    end = at;
  }
  return end == 0 ? "" : std::string(text.substr(0, end)) + "…";
}

Svg::Svg(Frame frame, double height, std::string_view finding)
    : frame_(std::move(frame)), height_(height), finding_(finding) {}

std::string Svg::fill(const Paint& paint) {
  if (!paint.pattern) return fmt::format("class=\"sy-{}\" fill=\"{}\"", paint.name, paint.light);
  (paint.name == "slack" ? hatched_ : dotted_) = true;
  return fmt::format("fill=\"url(#{}-{})\"", escaped(frame_.prefix), paint.name);
}

void Svg::rect(const Paint& paint, double x, double y, double width, double height,
               std::string_view marks) {
  if (width < 0.05 || height < 0.05) return;
  body_ += fmt::format("<rect {}{}{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", fill(paint),
                       marks.empty() ? "" : " ", marks, coordinate(x), coordinate(y),
                       coordinate(width), coordinate(height));
}

void Svg::outline(std::string_view name, double x, double y, double width, double height) {
  body_ += fmt::format(
      "<rect class=\"{}\" fill=\"none\" stroke=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" "
      "height=\"{}\"/>",
      name,
      name == "sy-o"   ? "#b3122a"
      : name == "sy-i" ? "#1b1f24"
                       : "#8c959f",
      coordinate(x), coordinate(y), coordinate(width), coordinate(height));
}

void Svg::line(std::string_view name, double x1, double y1, double x2, double y2) {
  body_ +=
      fmt::format("<path class=\"{}\" fill=\"none\" stroke=\"{}\"{} d=\"M{} {}L{} {}\"/>", name,
                  name == "sy-o"   ? "#b3122a"
                  : name == "sy-i" ? "#1b1f24"
                                   : "#d5dae0",
                  name == "sy-o" ? " stroke-width=\"2\"" : "", coordinate(x1), coordinate(y1),
                  coordinate(x2), coordinate(y2));
}

void Svg::path(std::string_view attributes, std::string_view data) {
  body_ += fmt::format("<path {} d=\"{}\"/>", attributes, data);
}

void Svg::circle(const Paint& paint, double x, double y, double radius, std::string_view marks) {
  body_ += fmt::format("<circle {}{}{} cx=\"{}\" cy=\"{}\" r=\"{}\"/>", fill(paint),
                       marks.empty() ? "" : " ", marks, coordinate(x), coordinate(y),
                       coordinate(radius));
}

void Svg::text(double x, double y, std::string_view words, std::string_view name,
               std::string_view anchor) {
  if (words.empty()) return;
  const std::string_view colour = name == "sy-q"   ? "#59636e"
                                  : name == "sy-w" ? "#ffffff"
                                  : name == "sy-r" ? "#b3122a"
                                                   : "#1b1f24";
  body_ += fmt::format("<text class=\"{}\" fill=\"{}\"{}{} x=\"{}\" y=\"{}\">{}</text>", name,
                       colour, name == "sy-b" || name == "sy-r" ? " font-weight=\"600\"" : "",
                       anchor == "start" ? "" : fmt::format(" text-anchor=\"{}\"", anchor),
                       coordinate(x), coordinate(y), escaped(words));
}

void Svg::plot(double x, double y, double width, double height, double x_end, double y_end) {
  plot_ = fmt::format(" data-plot=\"{} {} {} {}\" data-ends=\"{} {}\"", coordinate(x),
                      coordinate(y), coordinate(width), coordinate(height), x_end, y_end);
}

void Svg::begin_group(std::string_view attributes) { body_ += fmt::format("<g {}>", attributes); }

std::string Svg::finish() const {
  const std::string prefix = escaped(frame_.prefix);
  std::string defs;
  if (hatched_)
    defs += fmt::format(
        "<pattern id=\"{}-slack\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect class=\"sy-slack\" fill=\"#bcc5ce\" width=\"6\" "
        "height=\"6\"/><rect class=\"sy-stripe\" fill=\"#8c98a4\" width=\"1.5\" "
        "height=\"6\"/></pattern>",
        prefix);
  if (dotted_)
    defs += fmt::format(
        "<pattern id=\"{}-runtime\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\"><rect "
        "class=\"sy-runtime\" fill=\"#44494e\" width=\"5\" height=\"5\"/><circle class=\"sy-dot\" "
        "fill=\"#8c959f\" cx=\"2.5\" cy=\"2.5\" r=\"1\"/></pattern>",
        prefix);
  if (!defs.empty()) defs = "<defs>" + defs + "</defs>";
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"sy-chart\" role=\"img\" aria-label=\"{}\" "
      "viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" font-family=\"system-ui,sans-serif\" "
      "font-size=\"12\"{}>{}{}</svg>",
      escaped(finding_), coordinate(frame_.width), coordinate(height_), coordinate(frame_.width),
      coordinate(height_), plot_, defs, body_);
}

double legend_height(const std::vector<LegendEntry>& entries, double width) {
  double x = 0, lines = entries.empty() ? 0 : 1;
  for (const LegendEntry& entry : entries) {
    const double wide = legend_entry_width(entry);
    if (x > 0 && x + wide > width + kLegendGap) {
      x = 0;
      ++lines;
    }
    x += wide;
  }
  return lines * kLegendLine;
}

void draw_legend(Svg& svg, const std::vector<LegendEntry>& entries, double x, double y,
                 double width) {
  double at = 0;
  for (const LegendEntry& entry : entries) {
    const double wide = legend_entry_width(entry);
    if (at > 0 && at + wide > width + kLegendGap) {
      at = 0;
      y += kLegendLine;
    }
    svg.rect(entry.paint, x + at, y, kSwatch, kSwatch,
             fmt::format("data-pile=\"{}\"", entry.paint.name));
    svg.text(x + at + kSwatch + 6, y + 9.5, entry.words);
    at += wide;
  }
}

std::vector<double> round_ticks(double end, int count) {
  if (!(end > 0) || !std::isfinite(end) || count < 1) return {0};
  const double least = end / count;
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 2.5, 5.0})
    if (factor * power >= least * 0.999999) {
      step = factor * power;
      break;
    }
  std::vector<double> ticks;
  for (int i = 0; i <= count + 1 && i * step <= end * 1.000001; ++i) ticks.push_back(i * step);
  return ticks;
}

std::string picture_style() {
  std::string light, dark, rules;
  const auto add = [&](const PileColour& colour) {
    light += fmt::format("--sy-{}:{};", colour.name, colour.light);
    dark += fmt::format("--sy-{}:{};", colour.name, colour.dark);
    rules +=
        fmt::format(".sy-{0}{{fill:var(--sy-{0})}}.sy-k-{0}{{stroke:var(--sy-{0})}}", colour.name);
  };
  for (const PileColour& colour : kPileColours) add(colour);
  for (const PileColour& colour : kOtherColours) add(colour);
  light +=
      "--sy-ink:#1b1f24;--sy-quiet:#59636e;--sy-line:#d5dae0;--sy-stripe:#8c98a4;--sy-dot:#8c959f;";
  dark +=
      "--sy-ink:#e8ebee;--sy-quiet:#a5afb9;--sy-line:#3a424b;--sy-stripe:#7d8791;--sy-dot:#b4bcc4;";
  return ":root{" + light + "}@media (prefers-color-scheme:dark){:root{" + dark +
         "}}:root[data-theme=light]{" + light + "}:root[data-theme=dark]{" + dark +
         "}@media print{:root,:root[data-theme]{" + light + "}}" + rules +
         ".sy-chart{max-width:100%;height:auto;font-variant-numeric:tabular-nums}"
         ".sy-t,.sy-b{fill:var(--sy-ink)}.sy-q{fill:var(--sy-quiet)}.sy-r{fill:var(--sy-over)}"
         ".sy-w{fill:#fff}.sy-l{stroke:var(--sy-line)}.sy-i{stroke:var(--sy-ink)}"
         ".sy-o{stroke:var(--sy-over)}.sy-stripe{fill:var(--sy-stripe)}.sy-dot{fill:var(--sy-dot)}"
         ".sy-s{stroke:var(--sy-mark)}";
}

}  // namespace steelyard
