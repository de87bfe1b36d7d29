// TOML through toml++, whose regions give every place. Its tables are sorted by key, so the order of
// writing is found again from the places.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "document/read.h"
// Last: it changes how assertions are compiled.
#include "document/careful_toml.h"

namespace steelyard {
namespace {

// Of a run file, which has a few hundred.
constexpr std::int64_t kMostValues = 500'000;

int characters_in(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

class Converter {
 public:
  explicit Converter(std::shared_ptr<const Source> source) : source_(std::move(source)) {}

  Value convert(const toml::node& node, int depth) {
    Value value;
    if (depth > kMaximumDepth) {
      add_problem(problems_, {Severity::kError,
                              "E103",
                              fmt::format("nested more than {} deep", kMaximumDepth),
                              mark_of(node.source()).place(),
                              "too deep",
                              {}});
      return value;
    }
    if (const auto* table = node.as_table()) {
      value = convert_table(*table, depth);
    } else if (const auto* array = node.as_array()) {
      value = Value::array();
      value.items().reserve(array->size());
      for (const toml::node& item : *array) value.items().push_back(convert(item, depth + 1));
    } else if (const auto* text = node.as_string()) {
      value = Value::string(text->get());
    } else if (const auto* integer = node.as_integer()) {
      value = Value::integer(integer->get());
    } else if (const auto* number = node.as_floating_point()) {
      value = Value::number(number->get());
    } else if (const auto* truth = node.as_boolean()) {
      value = Value::boolean(truth->get());
    } else {
      add_problem(problems_,
                  {Severity::kError, "E105", "a date or time", mark_of(node.source()).place(),
                   "no key takes dates", "put it in double quotes if it is text"});
    }
    value.set_mark(mark_of(node.source()));
    return value;
  }
  Diagnostics& problems() { return problems_; }

  Mark mark_of(const toml::source_region& region) const {
    Mark mark;
    mark.source = source_;
    mark.line = static_cast<int>(region.begin.line);
    mark.column = static_cast<int>(region.begin.column);
    mark.length = 1;
    if (region.end.line == region.begin.line && region.end.column > region.begin.column)
      mark.length = static_cast<int>(region.end.column - region.begin.column);
    return mark;
  }

 private:
  Value convert_table(const toml::table& table, int depth) {
    Value value = Value::table();
    auto& members = value.members();
    members.reserve(table.size());
    for (const auto& [key, node] : table) {
      Mark mark = mark_of(key.source());
      if (mark.length <= 1) mark.length = std::max(1, characters_in(key.str()));
      members.push_back({std::string(key.str()), std::move(mark), convert(node, depth + 1)});
    }
    std::stable_sort(members.begin(), members.end(),
                     [](const Value::Member& a, const Value::Member& b) {
                       return std::pair(a.key_mark.line, a.key_mark.column) <
                              std::pair(b.key_mark.line, b.key_mark.column);
                     });
    return value;
  }

  std::shared_ptr<const Source> source_;
  Diagnostics problems_;
};

// Dotted keys nest without brackets, and toml++ follows them without a limit: 0, or the line of one
// with more parts than the depth allows.
int line_nested_too_deep(std::string_view text) {
  int line = 1;
  int dots = 0;
  for (char c : text) {
    if (c == '\n') ++line;
    if (c == '.') {
      if (++dots > 2 * kMaximumDepth) return line;
    } else if (c == '\n' || c == ',' || c == '=' || c == '{' || c == '[') {
      dots = 0;
    }
  }
  return 0;
}

// toml++ makes a node of a hundred bytes for every value, before anybody can count them: commas and lines are counted first.
int line_of_too_many(std::string_view text) {
  std::int64_t values = 0;
  int line = 1;
  for (char c : text) {
    if (c == '\n') ++line;
    if ((c == '\n' || c == ',') && ++values > kMostValues) return line;
  }
  return 0;
}

Diagnostic syntax_error(const toml::parse_error& fault, const Converter& converter) {
  std::string what(fault.description());
  // "Error while parsing string: unterminated string" -> what is wrong, without the reader's own story
  Diagnostic problem{
      Severity::kError, "E101", {}, converter.mark_of(fault.source()).place(), {}, {}};
  const std::string_view prefix = "Error while parsing ";
  if (what.starts_with(prefix)) what = what.substr(prefix.size());
  const std::size_t colon = what.find(": ");
  if (what.find("redefine") != std::string::npos || what.find("duplicate") != std::string::npos) {
    problem.code = "E102";
    problem.message = "a key or table that is given twice";
    problem.label = colon == std::string::npos ? what : what.substr(colon + 2);
    problem.help = "keep one of the two";
  } else if (what.find("TOML_MAX_NESTED_VALUES") != std::string::npos) {
    problem.code = "E103";
    problem.message = fmt::format("nested more than {} deep", kMaximumDepth);
    problem.label = "too deep";
  } else if (colon != std::string::npos) {
    problem.message = fmt::format("not TOML here: in a {}", what.substr(0, colon));
    problem.label = what.substr(colon + 2);
  } else {
    problem.message = "not TOML here";
    problem.label = what;
  }
  return problem;
}

bool stops_in(std::string_view text) {
  try {
    const toml::table table = toml::parse(text, std::string_view());
    return false;
  } catch (const toml::parse_error&) {
    return false;
  } catch (const std::logic_error&) {
    return true;
  }
}

// Where an assertion stopped the reader: the first line whose text, with all before it, does so too.
int line_that_stops(std::string_view text) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') ends.push_back(i + 1);
  ends.push_back(text.size());
  const auto first = std::partition_point(
      ends.begin(), ends.end(), [&](std::size_t end) { return !stops_in(text.substr(0, end)); });
  return static_cast<int>(first - ends.begin()) + (first == ends.end() ? 0 : 1);
}

}  // namespace

ReadValue read_toml(std::string_view text, std::string_view source_name) {
  const auto source = source_of(source_name, text);
  const auto refuse = [&](int line, std::string message, const char* code = "E103") {
    const Mark mark{source, line, line > 0 ? 1 : 0, 1};
    Place place = line > 0 ? mark.place() : Place{source->name, 0, 0, {}, 0};
    return tl::unexpected(
        Diagnostics{{Severity::kError, code, std::move(message), std::move(place), {}, {}}});
  };
  if (text.size() > kMaximumConfigurationBytes)
    return refuse(0, fmt::format("{} bytes of TOML, more than {} MiB", text.size(),
                                 kMaximumConfigurationBytes >> 20));
  if (const int line = line_of_too_many(text); line > 0)
    return refuse(line, fmt::format("more than {} values", kMostValues));
  if (const int line = line_nested_too_deep(text); line > 0)
    return refuse(line, fmt::format("nested more than {} deep", kMaximumDepth));

  Converter converter(source);
  try {
    const toml::table table = toml::parse(text, source_name);
    Value root = converter.convert(table, 0);
    if (!converter.problems().empty()) return tl::unexpected(std::move(converter.problems()));
    return root;
  } catch (const toml::parse_error& fault) {
    return tl::unexpected(Diagnostics{syntax_error(fault, converter)});
  } catch (const std::logic_error&) {
    return refuse(line_that_stops(text), "not TOML here", "E101");
  } catch (const std::exception& fault) {
    return tl::unexpected(Diagnostics{
        {Severity::kError, "E101", fault.what(), Place{source->name, 0, 0, {}, 0}, {}, {}}});
  }
}

}  // namespace steelyard
