#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <random>
#include <string_view>

namespace steelyard {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Surroundings surroundings_of(int stream) {
  Surroundings around;
  around.terminal = isatty(stream) == 1;
  winsize size{};
  if (around.terminal && ioctl(stream, TIOCGWINSZ, &size) == 0) around.columns = size.ws_col;
  around.columns_variable = variable("COLUMNS");
  around.no_color = variable("NO_COLOR");
  around.clicolor_force = variable("CLICOLOR_FORCE");
  around.term = variable("TERM");
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (around.locale.empty()) around.locale = variable(name);
  around.color = variable("STEELYARD_COLOR");
  around.units = variable("STEELYARD_UNITS");
  around.format = variable("STEELYARD_FORMAT");
  return around;
}

bool wants_colour(const StyleChoice& choice, const Surroundings& around) {
  const std::string asked = choice.color.value_or(around.color);
  if (asked == "always") return true;
  if (asked == "never") return false;
  if (!around.no_color.empty()) return false;
  if (!around.clicolor_force.empty() && around.clicolor_force != "0") return true;
  return around.terminal && around.term != "dumb";
}

// The same for both streams: what is painted for one may be written to the other.
const std::string& seal_of_this_run() {
  static const std::string kSeal = [] {
    std::random_device chance;
    return std::to_string(chance()) + std::to_string(chance()) + ";";
  }();
  return kSeal;
}

bool is_utf8(std::string_view locale) {
  std::string lower;
  for (const char character : locale)
    if (character != '-')
      lower.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(character))));
  return lower.find("utf8") != std::string::npos;
}

}  // namespace

Surroundings surroundings_of_stdout() { return surroundings_of(STDOUT_FILENO); }
Surroundings surroundings_of_stderr() { return surroundings_of(STDERR_FILENO); }

Style style_for(const StyleChoice& choice, const Surroundings& around) {
  Style style;
  style.colour = wants_colour(choice, around);
  style.ascii = choice.ascii || !is_utf8(around.locale);
  style.bars = !choice.no_bars;
  if (style.colour) style.seal = seal_of_this_run();
  style.elide = around.terminal;
  const int columns = std::atoi(around.columns_variable.c_str());
  if (columns > 0) {
    style.width = columns;
  } else if (around.columns > 0) {
    style.width = around.columns;
  }
  style.width = std::clamp(style.width, 20, 400);
  const std::string units = choice.units.value_or(around.units);
  if (units == "si") style.units = Units::kSi;
  if (units == "bytes") style.units = Units::kBytes;
  return style;
}

}  // namespace steelyard
