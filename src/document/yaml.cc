// YAML as launch configurations use it: block and flow collections, all scalars, anchors, aliases and merge
// keys; typed as PyYAML types it (YAML 1.1: `no` is false, `1e-5` is text), which is what engines read with.
//
// Ours, and not a library's: none of those that Debian carries can be built for the page, and what is wanted
// beside the values is where each stands. Bounded: depth, size, and what aliases multiply to.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "document/read.h"
#include "document/repeated_keys.h"

namespace steelyard {
namespace {

// Values that aliases may add to a document: a nest of lists of lists multiplies beyond any use.
constexpr std::int64_t kMaximumAliased = 100'000;
// Configurations are a page or two.
constexpr std::size_t kMostRepetitions = 20;  // that are said one by one
constexpr std::size_t kMaximumYamlBytes = std::size_t{8} << 20;

struct Fault {
  std::string code;
  std::string message;
  std::size_t at = 0;
  std::string label;
  std::string help;
};

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_break(char c) { return c == '\n' || c == '\r'; }
bool is_flow_sign(char c) { return c == ',' || c == '[' || c == ']' || c == '{' || c == '}'; }

std::int64_t size_of(const Value& value) {
  std::int64_t size = 1;
  if (value.is_array())
    for (const Value& item : value.items()) size += size_of(item);
  if (value.is_table())
    for (const Value::Member& member : value.members()) size += size_of(member.value);
  return size;
}

// --- what a plain word means -------------------------------------------------------------------------

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<std::int64_t> whole_number(std::string_view word) {
  bool minus = false;
  if (!word.empty() && (word.front() == '-' || word.front() == '+')) {
    minus = word.front() == '-';
    word.remove_prefix(1);
  }
  int base = 10;
  if (word.starts_with("0x")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.starts_with("0b")) {
    base = 2;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word.front() == '0') {
    base = 8;
    word.remove_prefix(word[1] == 'o' ? 2 : 1);
  }
  std::string digits;
  for (const char c : word)
    if (c != '_') digits.push_back(c);
  if (digits.empty() || word.front() == '_') return std::nullopt;
  std::int64_t number = 0;
  const auto [end, fault] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (fault != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return minus ? -number : number;
}

// PyYAML wants a dot, and a sign in the exponent: 1.0e-5 is a number, 1e-5 and 1.0e5 are text.
std::optional<double> fraction(std::string_view word) {
  std::string digits;
  bool dot = false;
  bool digit = false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c >= '0' && c <= '9') {
      digit = true;
    } else if (c == '.') {
      if (dot) return std::nullopt;
      dot = true;
    } else if (c == '_' && digit) {
      continue;
    } else if ((c == 'e' || c == 'E') && dot && digit) {
      if (i + 2 >= word.size() || (word[i + 1] != '-' && word[i + 1] != '+')) return std::nullopt;
      if (word.find_first_not_of("0123456789", i + 2) != std::string_view::npos)
        return std::nullopt;
      digits += word.substr(i);
      break;
    } else if (!((c == '-' || c == '+') && i == 0)) {
      return std::nullopt;
    }
    digits.push_back(c);
  }
  if (!dot || !digit) return std::nullopt;
  return std::strtod(digits.c_str(), nullptr);
}

Value plain_value(std::string_view word) {
  if (is_one_of(word, {"", "~", "null", "Null", "NULL"})) return {};
  if (is_one_of(word, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}))
    return Value::boolean(true);
  if (is_one_of(word, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}))
    return Value::boolean(false);
  if (const auto number = whole_number(word)) return Value::integer(*number);
  if (const auto number = fraction(word)) return Value::number(*number);
  return Value::string(std::string(word));
}

// --- the reader ------------------------------------------------------------------------------------------

class YamlReader {
 public:
  explicit YamlReader(std::shared_ptr<const Source> source)
      : source_(std::move(source)), text_(source_->text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_start_ = 3;
  }

  Value read() {
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
      throw Fault{"E101", "two YAML documents in one file", at_, "the second begins here",
                  "give each a file of its own"};
    if (at_ < text_.size()) {
      throw Fault{"E101", "not YAML here", at_, "indented unlike what stands above it", {}};
    }
    return root;
  }
  Diagnostics& problems() { return problems_; }

  Place place_of(std::size_t at) const {
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

 private:
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool at_end() const { return at_ >= text_.size(); }
  bool starts_with_at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool blank_at(std::size_t position) const {
    return position >= text_.size() || is_blank(text_[position]) || is_break(text_[position]);
  }
  bool is_marker(std::string_view word) const {
    return column() == 0 && starts_with_at(word) && blank_at(at_ + word.size());
  }
  int column() const { return static_cast<int>(at_ - line_start_); }
  // Of what begins here. Characters are counted on from the last mark, so that a long line costs its length.
  Mark mark_here() {
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
  // What began there ends here: underlined when that is one line.
  void close(Mark& mark, std::size_t from, std::size_t upto) const {
    if (upto > from && text_.substr(from, upto - from).find('\n') == std::string_view::npos)
      mark.length = characters(from, upto);
  }
  std::size_t end_of_line(std::size_t from) const {
    return std::min(text_.find_first_of("\r\n", from), text_.size());
  }
  int characters(std::size_t from, std::size_t upto) const {
    int count = 0;
    for (std::size_t i = from; i < upto; ++i)
      if ((static_cast<unsigned char>(text_[i]) & 0xC0U) != 0x80U) ++count;
    return count;
  }
  void skip_break() {
    if (peek() == '\r' && peek(1) == '\n') ++at_;
    ++at_;
    line_start_ = at_;
    ++line_;
  }
  void skip_line() {
    at_ = end_of_line(at_);
    if (!at_end()) skip_break();
  }

  // Over spaces, comments and empty lines. True when a line ended on the way.
  bool skip_space() {
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
          throw Fault{"E101", "a tab in the indentation", at_, "YAML indents with spaces",
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

  struct Properties {
    std::string anchor;
    std::string tag;
  };

  std::string word_of_property() {
    const std::size_t from = at_;
    while (!at_end() && !blank_at(at_) && !(flow_depth_ > 0 && is_flow_sign(peek()))) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }

  // A value. `least`: the smallest column at which it may stand on a line of its own; `sequence_least`: the
  // same for a list, which may stand under its key without indentation. `compact`: a mapping may begin here.
  Value node(int least, int sequence_least, bool compact, int depth) {
    if (depth > kMaximumDepth)
      throw Fault{
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
    if (peek() == '*') return alias();
    Value value;
    if (is_list) {
      if (!fresh)
        throw Fault{"E101", "not YAML here", at_, "a list begins on a line of its own", {}};
      value = block_sequence(depth);
    } else if (peek() == '|' || peek() == '>') {
      value = block_scalar(least);
    } else if (peek() == '?' && blank_at(at_ + 1)) {
      throw Fault{"E101", "not understood here", at_, "keys are plain words", {}};
    } else if (peek() == '[' || peek() == '{') {
      value = flow(depth);
      if (key_follows())
        throw Fault{"E101", "not understood here", from, "keys are plain words", {}};
    } else if (const auto key = implicit_key()) {
      if (!fresh)
        throw Fault{"E101", "not YAML here", from, "a second `key:` on one line",
                    "put text with a colon in quotes"};
      value = block_mapping(depth);
    } else {
      value = scalar(least, properties);
    }
    return finish(properties, std::move(value), std::move(mark), from);
  }

  void check_tag(const std::string& tag) const {
    if (is_one_of(tag, {"!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq"}))
      return;
    throw Fault{"E101", fmt::format("the tag {} is not followed", tag), at_ - tag.size(),
                tag.find("include") != std::string::npos ? "other files are not included"
                                                         : "only plain values are read",
                "write the value itself"};
  }

  Value finish(const Properties& properties, Value value, Mark mark, std::size_t from) {
    std::size_t upto = std::max(at_, from);
    while (upto > from && (is_blank(text_[upto - 1]) || is_break(text_[upto - 1]))) --upto;
    close(mark, from, upto);
    value.set_mark(std::move(mark));
    if (!properties.anchor.empty()) anchors_[properties.anchor] = value;
    return value;
  }

  Value alias() {
    const std::size_t from = at_++;
    const std::string name = word_of_property();
    const auto found = anchors_.find(name);
    if (found == anchors_.end())
      throw Fault{"E101",
                  fmt::format("no anchor is called \"{}\"", name),
                  from,
                  fmt::format("&{} stands nowhere above", name),
                  {}};
    aliased_ += size_of(found->second);
    if (aliased_ > kMaximumAliased)
      throw Fault{"E103",
                  "aliases that multiply beyond reason",
                  from,
                  fmt::format("more than {} values", kMaximumAliased),
                  {}};
    return found->second;
  }

  // Whether a colon that ends a key comes next.
  bool key_follows() const {
    std::size_t next = at_;
    while (next < text_.size() && is_blank(text_[next])) ++next;
    return next < text_.size() && text_[next] == ':' && blank_at(next + 1);
  }

  // The end of a key that begins here, if one does: `word:` or `"word":` on this line.
  std::optional<std::size_t> implicit_key() {
    const std::size_t from = at_;
    const std::size_t end = end_of_line(at_);
    if (peek() == '"' || peek() == '\'') {
      const char quote = peek();
      std::size_t next = at_ + 1;
      while (next < end && text_[next] != quote)
        next += text_[next] == '\\' && quote == '"' ? 2 : 1;
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

  Value block_sequence(int depth) {
    const int indent = column();
    Value list = Value::array();
    while (!at_end() && column() == indent && peek() == '-' && blank_at(at_ + 1) &&
           !is_marker("---")) {
      ++at_;
      // What follows on the line may be a mapping or list of its own, indented by its column.
      list.items().push_back(node(indent + 1, indent + 1, true, depth + 1));
      skip_space();
      if (!at_end() && column() > indent && line_start_ < at_)
        throw Fault{"E101", "not YAML here", at_, "indented more than the item above", {}};
    }
    return list;
  }

  Value block_mapping(int depth) {
    const int indent = column();
    Value table = Value::table();
    std::vector<Value> merged;
    RepeatedKeys keys;
    while (!at_end() && column() == indent && !is_marker("---") && !is_marker("...")) {
      if (peek() == '-' && blank_at(at_ + 1)) break;
      const auto colon = implicit_key();
      if (!colon) throw Fault{"E101", "not YAML here", at_, "expected `key: value`", {}};
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
        throw Fault{"E101", "not YAML here", at_, "indented unlike what stands above it", {}};
    }
    merge(table, keys, merged);
    return table;
  }

  void add(Value& table, RepeatedKeys& keys, std::vector<Value>& merged, std::string key, Mark mark,
           Value value) {
    if (key == "<<") {
      if (value.is_array())
        merged.insert(merged.end(), value.items().begin(), value.items().end());
      else
        merged.push_back(std::move(value));
      return;
    }
    if (keys.repeats(table, key)) {
      if (problems_.size() < kMostRepetitions)
        problems_.push_back({Severity::kError, "E102", fmt::format("\"{}\" is given twice", key),
                             mark.place(),
                             fmt::format("first on line {}", table.member(key)->key_mark.line),
                             "keep one of the two"});
      return;
    }
    table.members().push_back({std::move(key), std::move(mark), std::move(value)});
  }

  static void merge(Value& table, RepeatedKeys& keys, const std::vector<Value>& merged) {
    for (const Value& source : merged) {
      if (!source.is_table()) continue;
      for (const Value::Member& member : source.members())
        if (!keys.repeats(table, member.key)) table.members().push_back(member);
    }
  }

  // --- scalars ----------------------------------------------------------------------------------------

  Value scalar(int least, const Properties& properties) {
    if (peek() == '"' || peek() == '\'') {
      Value value = quoted();
      if (flow_depth_ == 0) nothing_after();
      return value;
    }
    const char first = peek();
    if (std::string_view("@`%]},").find(first) != std::string_view::npos)
      throw Fault{"E101", "not YAML here", at_, "a plain value cannot begin with this character",
                  "put it in quotes"};
    std::string word = plain_line();
    for (;;) {  // further lines of the same words
      const std::size_t before = at_;
      const std::size_t start_before = line_start_;
      const int line_before = line_;
      const std::size_t ended = end_of_line(at_);
      if (ended >= text_.size() || peek() == '#') break;
      if (!skip_space() || at_end()) break;
      const bool comment = text_.substr(before, at_ - before).find('#') != std::string_view::npos;
      if (comment || (flow_depth_ == 0 && column() < least) || is_marker("---") ||
          is_marker("...") || (flow_depth_ > 0 && (is_flow_sign(peek()) || peek() == ':'))) {
        at_ = before;
        line_start_ = start_before;
        line_ = line_before;
        break;
      }
      if (flow_depth_ == 0 && implicit_key())
        throw Fault{"E101", "not YAML here", at_, "indented unlike what stands above it", {}};
      word += " " + plain_line();
    }
    if (properties.tag == "!!str" || properties.tag == "!") return Value::string(word);
    return plain_value(word);
  }

  std::string plain_line() {
    const std::size_t from = at_;
    const std::size_t end = end_of_line(at_);
    while (at_ < end) {
      if (peek() == '#' && at_ > from && is_blank(text_[at_ - 1])) break;
      if (peek() == ':' &&
          (blank_at(at_ + 1) || (flow_depth_ > 0 && is_flow_sign(text_[at_ + 1])))) {
        if (flow_depth_ == 0)
          throw Fault{"E101", "not YAML here", at_, "a second `key:` on one line",
                      "put text with a colon in quotes"};
        break;
      }
      if (flow_depth_ > 0 && is_flow_sign(peek())) break;
      ++at_;
    }
    std::size_t upto = at_;
    while (upto > from && is_blank(text_[upto - 1])) --upto;
    return std::string(text_.substr(from, upto - from));
  }

  void nothing_after() {
    while (is_blank(peek())) ++at_;
    if (at_end() || is_break(peek()) || peek() == '#') return;
    throw Fault{"E101", "not YAML here", at_, "nothing may follow the closing quote", {}};
  }

  Value quoted() {
    const std::size_t from = at_;
    const char quote = peek();
    ++at_;
    std::string text;
    for (;;) {
      if (at_end()) throw Fault{"E101", "a quote that is never closed", from, "opened here", {}};
      const char c = peek();
      if (c == quote) {
        ++at_;
        if (quote == '\'' && peek() == '\'') {
          text.push_back('\'');
          ++at_;
          continue;
        }
        return Value::string(std::move(text));
      }
      if (c == '\\' && quote == '"') {
        escape(text);
      } else if (is_break(c)) {
        fold(text);
      } else {
        text.push_back(c);
        ++at_;
      }
    }
  }

  // A line's end within quotes is a space; empty lines are line ends.
  void fold(std::string& text) {
    while (!text.empty() && is_blank(text.back())) text.pop_back();
    int breaks = 0;
    while (!at_end() && (is_blank(peek()) || is_break(peek()))) {
      if (is_break(peek())) {
        skip_break();
        ++breaks;
      } else {
        ++at_;
      }
    }
    if (breaks == 1) text.push_back(' ');
    for (int i = 1; i < breaks; ++i) text.push_back('\n');
  }

  void escape(std::string& text) {
    const std::size_t from = at_++;
    const char c = peek();
    ++at_;
    static constexpr std::string_view kLetters = "0abtnvfre \"/\\";
    static constexpr char kMeant[] = {'\0', '\a',   '\b', '\t', '\n', '\v', '\f',
                                      '\r', '\x1b', ' ',  '"',  '/',  '\\'};
    if (const std::size_t found = kLetters.find(c); found != std::string_view::npos) {
      text.push_back(kMeant[found]);
      return;
    }
    if (is_break(c)) {
      --at_;
      skip_break();
      while (is_blank(peek())) ++at_;
      return;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    std::uint32_t point = 0;
    const char* begin = text_.data() + std::min(at_, text_.size());
    const char* end = text_.data() + std::min(at_ + digits, text_.size());
    const auto [stopped, fault] = std::from_chars(begin, end, point, 16);
    if (digits == 0 || fault != std::errc() || stopped != begin + digits || point > 0x10FFFFU)
      throw Fault{"E101", "an escape that YAML does not have", from, "in double quotes", {}};
    at_ += digits;
    append_character(text, point);
  }

  static void append_character(std::string& text, std::uint32_t point) {
    const auto byte = [&](std::uint32_t bits) { text.push_back(static_cast<char>(bits)); };
    if (point < 0x80U) {
      byte(point);
    } else if (point < 0x800U) {
      byte(0xC0U | (point >> 6U));
      byte(0x80U | (point & 0x3FU));
    } else if (point < 0x10000U) {
      byte(0xE0U | (point >> 12U));
      byte(0x80U | ((point >> 6U) & 0x3FU));
      byte(0x80U | (point & 0x3FU));
    } else {
      byte(0xF0U | (point >> 18U));
      byte(0x80U | ((point >> 12U) & 0x3FU));
      byte(0x80U | ((point >> 6U) & 0x3FU));
      byte(0x80U | (point & 0x3FU));
    }
  }

  // `|` keeps line ends, `>` makes spaces of them; `-` and `+` say what becomes of the last ones.
  Value block_scalar(int least) {
    const std::size_t from = at_;
    const bool folded = peek() == '>';
    ++at_;
    char chomp = ' ';
    int indent = 0;
    while (!at_end() && !blank_at(at_)) {
      const char c = peek();
      if (c == '-' || c == '+')
        chomp = c;
      else if (c >= '1' && c <= '9')
        indent = std::max(least - 1, 0) + (c - '0');
      else
        throw Fault{"E101", "not YAML here", from, "expected the text on the next line", {}};
      ++at_;
    }
    skip_line();
    std::string text;
    std::string breaks;
    bool first = true;
    while (!at_end()) {
      std::size_t next = at_;
      while (next < text_.size() && text_[next] == ' ' &&
             (indent == 0 || next - at_ < static_cast<std::size_t>(indent)))
        ++next;
      const int spaces = static_cast<int>(next - at_);
      const std::size_t end = end_of_line(next);
      if (end == next) {  // an empty line
        breaks.push_back('\n');
        at_ = next;
        if (at_end()) break;
        skip_break();
        continue;
      }
      if (indent == 0) indent = std::max(spaces, least);
      if (spaces < indent) break;
      if (first) {
        text += breaks;
      } else if (folded && breaks.size() == 1 && text_[next] != ' ') {
        text.push_back(' ');
      } else if (folded && text_[next] != ' ') {
        text += breaks.substr(1);
      } else {
        text += breaks;
      }
      first = false;
      text += text_.substr(next, end - next);
      breaks = "\n";
      at_ = end;
      if (at_end()) break;
      skip_break();
    }
    if (chomp == '+') text += breaks;
    if (chomp == ' ' && !first) text.push_back('\n');
    return Value::string(std::move(text));
  }

  // --- [ ] and { } -----------------------------------------------------------------------------------

  Value flow(int depth) {
    if (depth > kMaximumDepth)
      throw Fault{
          "E103", fmt::format("nested more than {} deep", kMaximumDepth), at_, "too deep", {}};
    ++flow_depth_;
    Value value = peek() == '[' ? flow_list(at_, depth) : flow_table(at_, depth);
    --flow_depth_;
    return value;
  }

  void need_more(std::size_t from) {
    skip_space();
    if (at_end()) throw Fault{"E101", "a bracket that is never closed", from, "opened here", {}};
  }

  Value flow_value(int depth) {
    Properties properties;
    while (peek() == '&' || peek() == '!') {
      if (peek() == '&') {
        ++at_;
        properties.anchor = word_of_property();
      } else {
        properties.tag = word_of_property();
        check_tag(properties.tag);
      }
      skip_space();
    }
    const std::size_t from = at_;
    Mark mark = mark_here();
    if (peek() == '*') return alias();
    Value value = peek() == '[' || peek() == '{' ? flow(depth + 1) : scalar(0, properties);
    return finish(properties, std::move(value), std::move(mark), from);
  }

  Value flow_list(std::size_t from, int depth) {
    Value list = Value::array();
    ++at_;
    for (;;) {
      need_more(from);
      if (peek() == ']') break;
      const std::size_t item = at_;
      list.items().push_back(flow_value(depth));
      need_more(from);
      if (peek() == ':')
        throw Fault{
            "E101", "not understood here", item, "a list holds values, not `key: value`", {}};
      if (peek() == ',') {
        ++at_;
      } else if (peek() != ']') {
        throw Fault{"E101", "not YAML here", at_, "expected a comma or ]", {}};
      }
    }
    ++at_;
    return list;
  }

  Value flow_table(std::size_t from, int depth) {
    Value table = Value::table();
    std::vector<Value> merged;
    RepeatedKeys keys;
    ++at_;
    for (;;) {
      need_more(from);
      if (peek() == '}') break;
      const std::size_t key_from = at_;
      if (is_flow_sign(peek()) || peek() == ':')
        throw Fault{"E101", "not YAML here", at_, "expected a key", {}};
      Mark mark = mark_here();
      std::string key = peek() == '"' || peek() == '\'' ? quoted().as_string() : plain_line();
      close(mark, key_from, at_);
      need_more(from);
      Value value;
      value.set_mark(mark);
      if (peek() == ':') {
        ++at_;
        need_more(from);
        if (peek() != ',' && peek() != '}') value = flow_value(depth);
      }
      add(table, keys, merged, std::move(key), std::move(mark), std::move(value));
      need_more(from);
      if (peek() == ',') {
        ++at_;
      } else if (peek() != '}') {
        throw Fault{"E101", "not YAML here", at_, "expected a comma or }", {}};
      }
    }
    ++at_;
    merge(table, keys, merged);
    return table;
  }

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int flow_depth_ = 0;
  std::int64_t aliased_ = 0;
  std::map<std::string, Value> anchors_;
  Diagnostics problems_;
  std::size_t counted_upto_ = 0;
  int line_ = 1;
  int counted_line_ = 0;
  int counted_ = 0;
};

}  // namespace

ReadValue read_yaml(std::string_view text, std::string_view source_name) {
  auto source = std::make_shared<Source>(Source{std::string(source_name), std::string(text), 1});
  const auto refuse = [&](const char* code, std::string message) {
    return tl::unexpected(Diagnostics{
        {Severity::kError, code, std::move(message), Place{source->name, 0, 0, {}, 0}, {}, {}}});
  };
  if (text.size() > kMaximumYamlBytes)
    return refuse("E103", fmt::format("{} bytes of YAML, more than {} MiB", text.size(),
                                      kMaximumYamlBytes >> 20));
  if (text.find('\0') != std::string_view::npos) return refuse("E101", "not text: a zero byte");
  YamlReader reader(source);
  try {
    Value root = reader.read();
    if (!reader.problems().empty()) return tl::unexpected(std::move(reader.problems()));
    return root;
  } catch (const Fault& fault) {
    Diagnostics problems{{Severity::kError, fault.code, fault.message, reader.place_of(fault.at),
                          fault.label, fault.help}};
    return tl::unexpected(std::move(problems));
  }
}

}  // namespace steelyard
