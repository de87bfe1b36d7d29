// Scalars: plain, in quotes, and the blocks behind | and >.
#include <fmt/format.h>

#include <charconv>

#include "document/yaml_reader.h"

namespace steelyard {
Value YamlReader::scalar(int least, const Properties& properties) {
  if (peek() == '"' || peek() == '\'') {
    Value value = quoted();
    if (flow_depth_ == 0) nothing_after();
    return value;
  }
  const char first = peek();
  if (std::string_view("@`%]},").find(first) != std::string_view::npos)
    throw YamlFault{"E101", "not YAML here", at_, "a plain value cannot begin with this character",
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
    if (comment || (flow_depth_ == 0 && column() < least) || is_marker("---") || is_marker("...") ||
        (flow_depth_ > 0 && (is_flow_sign(peek()) || peek() == ':'))) {
      at_ = before;
      line_start_ = start_before;
      line_ = line_before;
      break;
    }
    if (flow_depth_ == 0 && implicit_key())
      throw YamlFault{"E101", "not YAML here", at_, "indented unlike what stands above it", {}};
    word += " " + plain_line();
  }
  if (properties.tag == "!!str" || properties.tag == "!") return Value::string(word);
  return yaml_plain_value(word);
}

std::string YamlReader::plain_line() {
  const std::size_t from = at_;
  const std::size_t end = end_of_line(at_);
  while (at_ < end) {
    if (peek() == '#' && at_ > from && is_blank(text_[at_ - 1])) break;
    if (peek() == ':' && (blank_at(at_ + 1) || (flow_depth_ > 0 && is_flow_sign(text_[at_ + 1])))) {
      if (flow_depth_ == 0)
        throw YamlFault{"E101", "not YAML here", at_, "a second `key:` on one line",
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

Value YamlReader::quoted() {
  const std::size_t from = at_;
  const char quote = peek();
  ++at_;
  std::string text;
  for (;;) {
    if (at_end()) throw YamlFault{"E101", "a quote that is never closed", from, "opened here", {}};
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
void YamlReader::fold(std::string& text) {
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

void YamlReader::escape(std::string& text) {
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
    throw YamlFault{"E101", "an escape that YAML does not have", from, "in double quotes", {}};
  at_ += digits;
  append_character(text, point);
}

void YamlReader::append_character(std::string& text, std::uint32_t point) {
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
Value YamlReader::block_scalar(int least) {
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
      throw YamlFault{"E101", "not YAML here", from, "expected the text on the next line", {}};
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

}  // namespace steelyard
