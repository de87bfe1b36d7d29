#include "picture/svg.h"

#include <gtest/gtest.h>

#include "picture/memory_bar.h"
#include "picture/plane.h"
#include "picture/report_page.h"
#include "picture/step_picture.h"

namespace steelyard {
namespace {

TEST(Svg, EscapesMarkupAndWhatSteersATerminal) {
  EXPECT_EQ(escaped("<b>\"a\" & 'b'"), "&lt;b&gt;&quot;a&quot; &amp; &#39;b&#39;");
  EXPECT_EQ(escaped(std::string("\x1b") + "[2J").find('\x1b'), std::string::npos);
  EXPECT_EQ(escaped("\xff").find('\xff'), std::string::npos);
}

TEST(Svg, WritesCoordinatesWithOneDecimalAtMost) {
  EXPECT_EQ(coordinate(12), "12");
  EXPECT_EQ(coordinate(12.449), "12.4");
  EXPECT_EQ(coordinate(12.45), "12.5");
  EXPECT_EQ(coordinate(-0.04), "0");
  EXPECT_EQ(coordinate(0.0 / 0.0), "0");
}

TEST(Svg, CutsBetweenCharacters) {
  const std::string cut = fitted("größer und größer", 60);
  EXPECT_TRUE(cut.ends_with("…"));
  EXPECT_EQ(escaped(cut), cut);  // no half of a character: it would be shown by its number
  EXPECT_EQ(fitted("short", 60), "short");
}

TEST(Svg, NamesPatternsAfterItsFrame) {
  Svg svg({"a", 100, true}, 10, "slack \"alone\"");
  svg.rect(paint_of_slack(), 0, 0, 50, 10, "data-pile=\"slack\"");
  const std::string text = svg.finish();
  EXPECT_NE(text.find("id=\"a-slack\""), std::string::npos);
  EXPECT_NE(text.find("url(#a-slack)"), std::string::npos);
  EXPECT_NE(text.find("aria-label=\"slack &quot;alone&quot;\""), std::string::npos);
  EXPECT_EQ(text.find("style="), std::string::npos);  // a strict content-security-policy
}

TEST(Svg, TicksAreRoundAndBounded) {
  EXPECT_EQ(round_ticks(100, 4), (std::vector<double>{0, 25, 50, 75, 100}));
  EXPECT_EQ(round_ticks(0, 4), (std::vector<double>{0}));
  EXPECT_EQ(round_ticks(1.0 / 0.0, 4), (std::vector<double>{0}));
}

TEST(Plane, LeavesOutWhatHasNoPlace) {
  Curves curves;
  curves.x = {"devices", [](double value) { return coordinate(value); }, true, true};
  curves.y = {"GiB", [](double value) { return coordinate(value); }, false, true};
  curves.lines.push_back({"only", {{0, 1}, {-2, 1}, {4, 1.0 / 0.0}}, {}});
  EXPECT_EQ(curves_svg(curves, {}), "");
  curves.lines[0].points.emplace_back(8, 2);
  EXPECT_NE(curves_svg(curves, {}).find("8: 2 GiB"), std::string::npos);
}

// Colour areas end at the axis on both sides: a path that closes from its lower right corner is a wedge.
TEST(StepPicture, AreasStandOnTheAxis) {
  Prediction prediction;
  prediction.usable = 80_GiB;
  prediction.ranks.emplace_back();
  prediction.ranks[0].device = 40_GiB;
  StepTrace trace;
  trace.ranks = {"stage 0 of 1"};
  trace.slices.push_back({0, 0, "forward 0", 0, 0, 1});
  Piles piles;
  piles[Pile::kParameters] = 10_GiB;
  trace.memory = {{0, 0, piles}, {0, 0.5, piles}, {0, 1, piles}};
  const std::string svg = timeline_svg(trace, 0, prediction, {"t", 720, true});
  EXPECT_NE(svg.find("d=\"M44 179.4h668V200H44z\""), std::string::npos) << svg;
}

TEST(ReportPage, GivesItsRunBack) {
  Report report;
  report.command = "weigh";
  report.line = "fits";
  report.run = "{\"model\": \"</script><script>alert(1)</script>\"}\n";
  report.answer = "{}";
  const std::string html = report_page(report);
  EXPECT_EQ(html.find("<script>alert"), std::string::npos);
  const auto run = run_in_report(html);
  ASSERT_TRUE(run);
  EXPECT_EQ(*run, "{\"model\": \"\\u003c/script>\\u003cscript>alert(1)\\u003c/script>\"}\n");
  EXPECT_FALSE(run_in_report("<!doctype html><p>another page"));
}

}  // namespace
}  // namespace steelyard
