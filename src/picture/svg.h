// The paper that every chart is drawn on: SVG text, the same bytes in the terminal's files, the report, the page and a notebook.
//
//   Svg svg({.prefix = "a", .width = 720}, 120, "Memory of rank 0: 84.8 of 79.1 GiB");
//   svg.rect(Paint::pile(Pile::kActivations), 0, 20, 400, 24, "data-pile=\"activations\"");
//   svg.text(0, 14, "activations 53.2", "sy-q");
//   std::string text = svg.finish();
//
// A colour is a class with its light value beside it: `class="sy-activations" fill="#e45b00"`. A viewer that knows no style sheet
// shows the light colours; a page that includes picture_style() has both themes. No style attribute and no script, so a strict
// content-security-policy shows it, too. Ids begin with the prefix, so that several charts may stand in one document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ledger/pile.h"

namespace steelyard {

// What the caller decides about a chart: its width in pixels, which is the container's, and the beginning of its ids.
struct Frame {
  std::string prefix = "steelyard";
  double width = 720;
  bool legend = true;  // false: the container lists the piles beside the chart
};

// The class of a mark and the light value of its colour. `pattern`: hatched or dotted, told by its shape too.
struct Paint {
  std::string_view name;
  std::string_view light;
  bool pattern = false;
};
Paint paint_of(Pile pile);
Paint paint_of_slack();
Paint paint_of_runtime();
// "activations", "slack", "runtime", "unaccounted"; anything else: grey.
Paint paint_named(std::string_view name);

// Text for XML: markup is escaped, what steers a terminal or is no UTF-8 is shown by its number.
std::string escaped(std::string_view text);
// At most one decimal: "12", "12.5". The one place where a coordinate becomes text.
std::string coordinate(double value);
// A measure of text of this size in a usual sans-serif face, a little too wide rather than too narrow.
double text_width(std::string_view text, double size = 12);
// The beginning of a text that takes at most `width`, with an ellipsis if something is cut.
std::string fitted(std::string_view text, double width, double size = 12);

class Svg {
 public:
  // `finding`: one sentence that says what the chart shows, for readers who do not see it.
  Svg(Frame frame, double height, std::string_view finding);

  const Frame& frame() const { return frame_; }
  double width() const { return frame_.width; }

  // `marks`: attributes as they stand, "data-rank=\"0\"". What no eye could see is not drawn.
  void rect(const Paint& paint, double x, double y, double width, double height,
            std::string_view marks = "");
  void outline(std::string_view name, double x, double y, double width, double height);
  void line(std::string_view name, double x1, double y1, double x2, double y2);
  void path(std::string_view attributes, std::string_view data);
  void circle(const Paint& paint, double x, double y, double radius, std::string_view marks = "");
  // `anchor`: "start", "middle" or "end". `name`: "sy-t" ink, "sy-q" quiet, "sy-b" strong, "sy-w" on a dark mark.
  void text(double x, double y, std::string_view words, std::string_view name = "sy-t",
            std::string_view anchor = "start");
  void raw(std::string_view markup) { body_ += markup; }
  // The plot's box and the ends of its axes, on the root: an overlay finds its place by them.
  void plot(double x, double y, double width, double height, double x_end, double y_end);
  // Until end_group() every mark has these attributes in common.
  void begin_group(std::string_view attributes);
  void end_group() { body_ += "</g>"; }
  // The fill of a mark: "class=\"sy-slack\" fill=\"url(#a-slack)\"".
  std::string fill(const Paint& paint);
  std::string finish() const;

 private:
  Frame frame_;
  double height_;
  std::string finding_, plot_, body_;
  bool hatched_ = false, dotted_ = false;
};

// Swatches with their names, broken into lines; how high they stand.
struct LegendEntry {
  Paint paint;
  std::string words;
};
double legend_height(const std::vector<LegendEntry>& entries, double width);
void draw_legend(Svg& svg, const std::vector<LegendEntry>& entries, double x, double y,
                 double width);

// Round numbers from 0 to at least `end`, at most about `count` of them; the last may lie beneath `end`.
std::vector<double> round_ticks(double end, int count);

// The style sheet of both themes for the pages that show charts: `@media (prefers-color-scheme: dark)` and [data-theme].
std::string picture_style();

}  // namespace steelyard
