#include "plan/axis.h"

#include <fmt/format.h>

#include <optional>

#include "quantity/parse.h"

namespace steelyard {
namespace {

Diagnostic refused(const Place& place, std::string message, std::string help) {
  Diagnostic problem;
  problem.code = "E005";
  problem.message = std::move(message);
  problem.place = place;
  problem.help = std::move(help);
  return problem;
}

std::optional<std::int64_t> count_in(std::string_view text) {
  const Parsed<std::int64_t> count = parse_count(text, CountSuffix::kBinary);
  if (!count) return std::nullopt;
  return *count;
}

Value value_of(std::string_view text, const Place& place) {
  Value value;
  if (const auto count = count_in(text)) {
    value = Value::integer(*count);
  } else if (text == "true" || text == "false") {
    value = Value::boolean(text == "true");
  } else {
    value = Value::string(std::string(text));
  }
  value.set_mark(mark_of(place));
  return value;
}

}  // namespace

tl::expected<SweepAxis, Diagnostic> read_axis(std::string_view words, const Place& place) {
  const std::string form = "write KEY=FROM..TO (doubling), KEY=FROM..TO:STEP or KEY=A,B,C";
  const std::size_t sign = words.find('=');
  if (sign == std::string_view::npos || sign == 0 || sign + 1 == words.size())
    return tl::unexpected(
        refused(place, fmt::format("\"{}\" has no values to go over", words), form));
  SweepAxis axis{std::string(words.substr(0, sign)), {}};
  const std::string_view values = words.substr(sign + 1);

  if (const std::size_t dots = values.find(".."); dots != std::string_view::npos) {
    std::string_view upper = values.substr(dots + 2);
    std::string_view step_words;
    if (const std::size_t colon = upper.find(':'); colon != std::string_view::npos) {
      step_words = upper.substr(colon + 1);
      upper = upper.substr(0, colon);
    }
    const auto from = count_in(values.substr(0, dots));
    const auto to = count_in(upper);
    const auto step = step_words.empty() ? std::optional<std::int64_t>(0) : count_in(step_words);
    if (!from || !to || !step)
      return tl::unexpected(
          refused(place, fmt::format("\"{}\" is not a range of whole numbers", values), form));
    if (*from < 1 || *to < *from || (!step_words.empty() && *step < 1))
      return tl::unexpected(refused(place, fmt::format("\"{}\" goes nowhere", values),
                                    "a range starts at 1 or more and goes up"));
    for (std::int64_t at = *from; at <= *to;) {
      if (axis.values.size() == kMostValues)
        return tl::unexpected(
            refused(place, fmt::format("\"{}\" has more than {} values", values, kMostValues),
                    "take a larger step"));
      axis.values.push_back(value_of(std::to_string(at), place));
      const std::int64_t forward = *step > 0 ? *step : at;
      if (at > *to - forward) break;
      at += forward;
    }
    return axis;
  }

  for (std::string_view rest = values;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    if (word.empty())
      return tl::unexpected(refused(place, fmt::format("\"{}\" has an empty value", values), form));
    if (axis.values.size() == kMostValues)
      return tl::unexpected(refused(
          place, fmt::format("{} has more than {} values", axis.key, kMostValues), "give fewer"));
    axis.values.push_back(value_of(word, place));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return axis;
}

}  // namespace steelyard
