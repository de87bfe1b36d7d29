// YAML as launch configurations use it: block and flow collections, all scalars, anchors, aliases and merge
// keys; typed as PyYAML types it (YAML 1.1: `no` is false, `1e-5` is text), which is what engines read with.
//
// Ours, and not a library's: none of those that Debian carries can be built for the page, and what is wanted
// beside the values is where each stands. Bounded: depth, size, and what aliases multiply to.
#include <fmt/format.h>

#include <array>

#include "document/yaml_reader.h"

namespace steelyard {
namespace {

// Values that anchors and aliases may add to a document: a nest of lists of lists multiplies beyond any use.
constexpr std::int64_t kMaximumAliased = 100'000;
// Letters of text that count as one value more.
constexpr std::size_t kLettersOfValue = 64;

// How much a copy takes, and how deep it nests.
struct Extent {
  std::int64_t size = 1;
  int depth = 0;

  void add(const Extent& inner) {
    size += inner.size;
    depth = std::max(depth, inner.depth + 1);
  }
};
Extent extent_of(const Value& value) {
  Extent extent;
  if (value.is_string())
    extent.size += static_cast<std::int64_t>(value.as_string().size() / kLettersOfValue);
  if (value.is_array())
    for (const Value& item : value.items()) extent.add(extent_of(item));
  if (value.is_table())
    for (const Value::Member& member : value.members()) {
      extent.add(extent_of(member.value));
      extent.size += static_cast<std::int64_t>(member.key.size() / kLettersOfValue);
    }
  return extent;
}

}  // namespace

Place YamlReader::place_of(std::size_t at) const {
  at = std::min(at, text_.size());
  const std::size_t start = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;
  Mark mark;
  mark.source = source_;
  mark.line = 1 + static_cast<int>(std::count(
                      text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  mark.column = 1 + characters(start, at);
  mark.length = 1;
  return mark.place();
}

// Of what begins here. Characters are counted on from the last mark, so that a long line costs its length.
Mark YamlReader::mark_here() {
  if (counted_line_ != line_ || counted_upto_ > at_) {
    counted_line_ = line_;
    counted_upto_ = line_start_;
    counted_ = 0;
  }
  counted_ += characters(counted_upto_, at_);
  counted_upto_ = at_;
  Mark mark;
  mark.source = source_;
  mark.line = line_;
  mark.column = 1 + counted_;
  mark.length = 1;
  return mark;
}

int YamlReader::characters(std::size_t from, std::size_t upto) const {
  int count = 0;
  for (std::size_t i = from; i < upto; ++i)
    if ((static_cast<unsigned char>(text_[i]) & 0xC0U) != 0x80U) ++count;
  return count;
}

void YamlReader::skip_break() {
  if (peek() == '\r' && peek(1) == '\n') ++at_;
  ++at_;
  line_start_ = at_;
  ++line_;
}

// Over spaces, comments and empty lines. True when a line ended on the way.
bool YamlReader::skip_space() {
  bool fresh = at_ == line_start_;
  while (!at_end()) {
    const char c = peek();
    if (c == ' ') {
      ++at_;
    } else if (c == '\t') {
      std::size_t next = at_;
      while (next < text_.size() && is_blank(text_[next])) ++next;
      const bool empty = next >= text_.size() || is_break(text_[next]) || text_[next] == '#';
      if (fresh && !empty && flow_depth_ == 0)
        throw YamlFault{"E101", "a tab in the indentation", at_, "YAML indents with spaces",
                        "replace the tab with spaces"};
      at_ = next;
    } else if (is_break(c)) {
      skip_break();
      fresh = true;
    } else if (c == '#' && (at_ == 0 || column() == 0 || blank_at(at_ - 1))) {
      at_ = end_of_line(at_);
    } else {
      break;
    }
  }
  return fresh;
}

Value YamlReader::read() {
  skip_space();
  while (starts_with_at("%")) {  // %YAML 1.1
    skip_line();
    skip_space();
  }
  if (is_marker("---")) at_ += 3;
  Value root = node(0, 0, true, 0);
  skip_space();
  if (is_marker("...")) {
    skip_line();
    skip_space();
  }
  if (is_marker("---"))
    throw YamlFault{"E101", "two YAML documents in one file", at_, "the second begins here",
                    "give each a file of its own"};
  if (at_ < text_.size()) {
    throw YamlFault{"E101", "not YAML here", at_, "indented unlike what stands above it", {}};
  }
  return root;
}

// A value. `least`: the smallest column at which it may stand on a line of its own; `sequence_least`: the
// same for a list, which may stand under its key without indentation. `compact`: a mapping may begin here.
Value YamlReader::node(int least, int sequence_least, bool compact, int depth) {
  if (depth > kMaximumDepth)
    throw YamlFault{
        "E103", fmt::format("nested more than {} deep", kMaximumDepth), at_, "too deep", {}};
  Properties properties;
  const std::size_t came_from = at_;
  Mark mark = mark_here();
  bool fresh = skip_space() || compact;
  for (;;) {
    const char c = peek();
    if ((c == '&' || c == '!') && !at_end()) {
      if (c == '&') {
        ++at_;
        properties.anchor = word_of_property();
      } else {
        properties.tag = word_of_property();
        check_tag(properties.tag);
      }
      if (skip_space()) fresh = true;
    } else {
      break;
    }
  }
  const bool own_line = line_start_ >= came_from;
  const bool is_list = peek() == '-' && blank_at(at_ + 1);
  if (at_end() || is_marker("---") || is_marker("...") ||
      (own_line && column() < (is_list ? sequence_least : least)))
    return finish(properties, Value(), std::move(mark), came_from);
  const std::size_t from = at_;
  mark = mark_here();
  if (peek() == '*') return alias(depth);
  Value value;
  if (is_list) {
    if (!fresh)
      throw YamlFault{"E101", "not YAML here", at_, "a list begins on a line of its own", {}};
    value = block_sequence(depth);
  } else if (peek() == '|' || peek() == '>') {
    value = block_scalar(least);
  } else if (peek() == '?' && blank_at(at_ + 1)) {
    throw YamlFault{"E101", "not understood here", at_, "keys are plain words", {}};
  } else if (peek() == '[' || peek() == '{') {
    value = flow(depth);
    if (key_follows())
      throw YamlFault{"E101", "not understood here", from, "keys are plain words", {}};
  } else if (const auto key = implicit_key()) {
    if (!fresh)
      throw YamlFault{"E101", "not YAML here", from, "a second `key:` on one line",
                      "put text with a colon in quotes"};
    value = block_mapping(depth);
  } else {
    value = scalar(least, properties);
  }
  return finish(properties, std::move(value), std::move(mark), from);
}

void YamlReader::check_tag(const std::string& tag) const {
  static constexpr std::array<std::string_view, 8> kPlain = {"!",      "!!str",  "!!int", "!!float",
                                                             "!!bool", "!!null", "!!map", "!!seq"};
  if (std::find(kPlain.begin(), kPlain.end(), tag) != kPlain.end()) return;
  throw YamlFault{"E101", fmt::format("the tag {} is not followed", tag), at_ - tag.size(),
                  tag.find("include") != std::string::npos ? "other files are not included"
                                                           : "only plain values are read",
                  "write the value itself"};
}

Value YamlReader::finish(const Properties& properties, Value value, Mark mark, std::size_t from) {
  std::size_t upto = std::max(at_, from);
  while (upto > from && (is_blank(text_[upto - 1]) || is_break(text_[upto - 1]))) --upto;
  close(mark, from, upto);
  if (++values_ > kMaximumValues)
    throw YamlFault{
        "E103", fmt::format("more than {} values", kMaximumValues), from, "one too many", {}};
  value.set_mark(std::move(mark));
  if (!properties.anchor.empty()) {
    spend(extent_of(value).size, from);
    anchors_[properties.anchor] = value;
  }
  return value;
}

void YamlReader::spend(std::int64_t values, std::size_t at) {
  aliased_ += values;
  if (aliased_ > kMaximumAliased)
    throw YamlFault{"E103",
                    "aliases that multiply beyond reason",
                    at,
                    fmt::format("more than {} values", kMaximumAliased),
                    {}};
}

Value YamlReader::alias(int depth) {
  const std::size_t from = at_++;
  const std::string name = word_of_property();
  const auto found = anchors_.find(name);
  if (found == anchors_.end())
    throw YamlFault{"E101",
                    fmt::format("no anchor is called \"{}\"", name),
                    from,
                    fmt::format("&{} stands nowhere above", name),
                    {}};
  const Extent extent = extent_of(found->second);
  spend(extent.size, from);
  if (depth + extent.depth > kMaximumDepth)
    throw YamlFault{
        "E103", fmt::format("nested more than {} deep", kMaximumDepth), from, "too deep", {}};
  return found->second;
}

// The end of a key that begins here, if one does: `word:` or `"word":` on this line.
std::optional<std::size_t> YamlReader::implicit_key() {
  const std::size_t from = at_;
  const std::size_t end = end_of_line(at_);
  if (peek() == '"' || peek() == '\'') {
    const char quote = peek();
    std::size_t next = at_ + 1;
    while (next < end && text_[next] != quote) next += text_[next] == '\\' && quote == '"' ? 2 : 1;
    ++next;
    while (next < end && is_blank(text_[next])) ++next;
    if (next < end && text_[next] == ':' && blank_at(next + 1)) return next;
    return std::nullopt;
  }
  for (std::size_t next = from; next < end; ++next) {
    if (text_[next] == '#' && next > from && is_blank(text_[next - 1])) return std::nullopt;
    if (text_[next] == ':' && blank_at(next + 1)) return next;
  }
  return std::nullopt;
}

Value YamlReader::block_sequence(int depth) {
  const int indent = column();
  Value list = Value::array();
  while (!at_end() && column() == indent && peek() == '-' && blank_at(at_ + 1) &&
         !is_marker("---")) {
    ++at_;
    // What follows on the line may be a mapping or list of its own, indented by its column.
    list.items().push_back(node(indent + 1, indent + 1, true, depth + 1));
    skip_space();
    if (!at_end() && column() > indent && line_start_ < at_)
      throw YamlFault{"E101", "not YAML here", at_, "indented more than the item above", {}};
  }
  return list;
}

Value YamlReader::block_mapping(int depth) {
  const int indent = column();
  Value table = Value::table();
  std::vector<Value> merged;
  RepeatedKeys keys;
  while (!at_end() && column() == indent && !is_marker("---") && !is_marker("...")) {
    if (peek() == '-' && blank_at(at_ + 1)) break;
    const auto colon = implicit_key();
    if (!colon) throw YamlFault{"E101", "not YAML here", at_, "expected `key: value`", {}};
    const std::size_t from = at_;
    Mark key_mark = mark_here();
    Value key = peek() == '"' || peek() == '\'' ? quoted() : Value();
    std::size_t upto = *colon;
    if (key.is_null()) {
      while (upto > from && is_blank(text_[upto - 1])) --upto;
      key = Value::string(std::string(text_.substr(from, upto - from)));
    }
    close(key_mark, from, upto);
    at_ = *colon + 1;
    Value value = node(indent + 1, indent, false, depth + 1);
    add(table, keys, merged, key.as_string(), std::move(key_mark), std::move(value));
    skip_space();
    if (!at_end() && column() > indent)
      throw YamlFault{"E101", "not YAML here", at_, "indented unlike what stands above it", {}};
  }
  merge(table, keys, merged);
  return table;
}

void YamlReader::add(Value& table, RepeatedKeys& keys, std::vector<Value>& merged, std::string key,
                     Mark mark, Value value) {
  if (key == "<<") {
    if (value.is_array())
      merged.insert(merged.end(), value.items().begin(), value.items().end());
    else
      merged.push_back(std::move(value));
    return;
  }
  const bool repeats = keys.repeats(table, key);
  if (repeats && repeated_ != nullptr) {
    Value::Member& there = *table.member(key);
    add_problem(*repeated_, {Severity::kWarning, "E102", fmt::format("\"{}\" is given twice", key),
                             mark.place(), fmt::format("first on line {}", there.key_mark.line),
                             "the later one counts"});
    there.key_mark = std::move(mark);
    there.value = std::move(value);
    return;
  }
  if (repeats) {
    if (is_full(problems_, Severity::kError))
      count_problem(problems_, Severity::kError);
    else
      add_problem(problems_,
                  {Severity::kError, "E102", fmt::format("\"{}\" is given twice", key),
                   mark.place(), fmt::format("first on line {}", table.member(key)->key_mark.line),
                   "keep one of the two"});
    return;
  }
  table.members().push_back({std::move(key), std::move(mark), std::move(value)});
}

void YamlReader::merge(Value& table, RepeatedKeys& keys, const std::vector<Value>& merged) {
  for (const Value& source : merged) {
    if (!source.is_table()) continue;
    for (const Value::Member& member : source.members())
      if (!keys.repeats(table, member.key)) table.members().push_back(member);
  }
}

ReadValue read_yaml(std::string_view text, std::string_view source_name, Diagnostics* repeated) {
  const auto source = source_of(source_name, text);
  const auto refuse = [&](const char* code, std::string message) {
    return tl::unexpected(Diagnostics{
        {Severity::kError, code, std::move(message), Place{source->name, 0, 0, {}, 0}, {}, {}}});
  };
  if (text.size() > kMaximumConfigurationBytes)
    return refuse("E103", fmt::format("{} bytes of YAML, more than {} MiB", text.size(),
                                      kMaximumConfigurationBytes >> 20));
  if (text.find('\0') != std::string_view::npos) return refuse("E101", "not text: a zero byte");
  YamlReader reader(source);
  reader.take_the_later(repeated);
  try {
    Value root = reader.read();
    if (!reader.problems().empty()) return tl::unexpected(std::move(reader.problems()));
    return root;
  } catch (const YamlFault& fault) {
    Diagnostics problems{{Severity::kError, fault.code, fault.message, reader.place_of(fault.at),
                          fault.label, fault.help}};
    return tl::unexpected(std::move(problems));
  }
}

}  // namespace steelyard
