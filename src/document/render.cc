#include "document/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "document/printable.h"

namespace steelyard {
namespace {

constexpr std::size_t kPlaceColumn = 64;  // where the place starts on an 80-column line

struct Paint {
  bool on = false;
  std::string_view seal;
  std::string operator()(std::string_view code, std::string_view text) const {
    return on ? colour_sequence(seal, code).append(text) + colour_sequence(seal, "0")
              : std::string(text);
  }
};

bool starts_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }
std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}
// The byte at which character number `index` (from 0) starts.
std::size_t byte_of(std::string_view text, std::size_t index) {
  std::size_t byte = 0;
  for (; byte < text.size(); ++byte) {
    if (!starts_character(text[byte])) continue;
    if (index == 0) return byte;
    --index;
  }
  return text.size();
}

// A message quotes names and values of others, which may be megabytes long.
std::string sentence(std::string_view text) {
  constexpr std::size_t kLongest = 600;
  if (text.size() <= kLongest) return printable_in_place(text);
  std::size_t cut = kLongest;
  while (cut > 0 && !starts_character(text[cut])) --cut;
  return printable_in_place(text.substr(0, cut)) + " ...";
}

// The stretch of a line that is shown, when the line is too long: the marked word and what surrounds it.
struct Shown {
  std::string text;
  std::size_t caret = 0;  // characters before the caret
  std::size_t length = 1;
};
Shown clipped(const Place& place, std::size_t room) {
  Shown shown{printable_in_place(place.text), 0, 1};
  const std::size_t count = characters_in(shown.text);
  const bool cut_before = place.text_column > 1;
  const std::size_t column =
      static_cast<std::size_t>(std::max(place.column - place.text_column, 0));
  shown.caret = std::min(column, count);
  shown.length = std::max<std::size_t>(
      1, std::min(static_cast<std::size_t>(std::max(place.length, 1)), count - shown.caret));
  if (count <= room && !cut_before) return shown;
  const std::size_t before = std::min<std::size_t>(shown.caret, room / 3);
  const std::size_t from = shown.caret - before;
  const std::size_t upto = std::min(count, from + room);
  const std::size_t first = byte_of(shown.text, from);
  std::string cut = shown.text.substr(first, byte_of(shown.text, upto) - first);
  shown.caret = before;
  if (from > 0 || cut_before) {
    cut.insert(0, "... ");
    shown.caret += 4;
  }
  if (upto < count) cut += " ...";
  shown.length = std::min(shown.length, upto - from - before);
  shown.text = std::move(cut);
  return shown;
}

std::string place_name(const Place& place) {
  std::string name = sentence(place.source);
  if (place.line > 0) name += fmt::format(":{}", place.line);
  if (place.line > 0 && place.column > 0) name += fmt::format(":{}", place.column);
  return name;
}

nlohmann::ordered_json as_json(const Diagnostic& problem) {
  nlohmann::ordered_json json;
  json["code"] = problem.code;
  if (problem.severity == Severity::kWarning) json["severity"] = "warning";
  json["message"] = problem.message;
  json["source"] = problem.place.source;
  json["line"] = problem.place.line;
  json["column"] = problem.place.column;
  json["label"] = problem.label;
  json["help"] = problem.help;
  return json;
}

}  // namespace

std::string render(const Diagnostic& problem, const RenderStyle& style) {
  const Paint paint{style.colour, style.seal};
  const bool error = problem.severity == Severity::kError;
  const std::string code = problem.code.empty() ? std::string() : fmt::format("[{}]", problem.code);
  const std::string kind = (error ? "error" : "warning") + code;
  const std::string message = sentence(problem.message);
  std::string text = paint(error ? "31" : "33", kind) + ": " + paint("1", message);

  const std::string where = place_name(problem.place);
  if (!where.empty()) {
    const std::size_t used = kind.size() + 2 + characters_in(message);
    const auto width = static_cast<std::size_t>(std::max(style.width, 20));
    std::size_t column = std::min(kPlaceColumn, width - std::min(width, characters_in(where)));
    column = std::max(column, used + 2);
    text += std::string(column - used, ' ') + where;
  }
  text += '\n';

  if (!problem.place.text.empty()) {
    const std::string number = problem.place.line > 0 ? fmt::format("{}", problem.place.line) : "";
    const std::string gutter = fmt::format("{:>5} | ", number);
    const auto room = static_cast<std::size_t>(std::max(style.width - 8 - 8, 20));
    const Shown line = clipped(problem.place, room);
    text += paint("2", gutter) + line.text + '\n';
    std::string under =
        std::string(line.caret, ' ') + paint(error ? "31" : "33", std::string(line.length, '^'));
    if (!problem.label.empty()) under += ' ' + sentence(problem.label);
    text += paint("2", std::string(gutter.size() - 2, ' ') + "| ") + under + '\n';
  } else if (!problem.label.empty()) {
    text += "   " + sentence(problem.label) + '\n';
  }
  if (!problem.help.empty()) text += paint("1", "help") + ": " + sentence(problem.help) + '\n';
  return text;
}

std::string render(const Diagnostics& problems, std::string_view outcome,
                   const RenderStyle& style) {
  std::string text;
  std::size_t errors = 0;
  std::string last_code;
  std::size_t shown[2] = {0, 0};  // warnings, errors
  std::int64_t more = 0;
  for (const Diagnostic& problem : problems) {
    const bool error = problem.severity == Severity::kError;
    if (error) errors += static_cast<std::size_t>(std::max<std::int64_t>(problem.more, 1));
    if (problem.more > 0 || shown[error ? 1 : 0] == kProblemsShown) {
      more += std::max<std::int64_t>(problem.more, 1);
      continue;
    }
    ++shown[error ? 1 : 0];
    if (!text.empty()) text += '\n';
    text += render(problem, style);
    if (error) last_code = problem.code;
  }
  if (more > 0) text += fmt::format("\nand {} more\n", more);
  if (errors == 0 || outcome.empty()) return text;
  text += fmt::format("\n{} {}, {}.", errors, errors == 1 ? "problem" : "problems", outcome);
  if (!last_code.empty())
    text += fmt::format(" `steelyard explain {}` says why the rule exists", last_code);
  return text + '\n';
}

std::string problems_as_json(const Diagnostics& problems) {
  nlohmann::ordered_json json;
  json["schema"] = "steelyard.error/1";
  json["problems"] = nlohmann::ordered_json::array();
  std::int64_t more = 0;
  for (const Diagnostic& problem : problems) {
    if (problem.more > 0)
      more += problem.more;
    else
      json["problems"].push_back(as_json(problem));
  }
  if (more > 0) json["more"] = more;
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace steelyard
