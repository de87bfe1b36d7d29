// The reader behind read_yaml (read.h): block and flow, scalars of every form, anchors and merges; bounded in each.
//
//   YamlReader reader(source);
//   Value root = reader.read();        throws YamlFault where it is no YAML; reader.problems() are what it went on after
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "document/diagnostic.h"
#include "document/read.h"
#include "document/repeated_keys.h"
#include "document/value.h"

namespace steelyard {

struct YamlFault {
  std::string code;
  std::string message;
  std::size_t at = 0;
  std::string label;
  std::string help;
};

inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
inline bool is_break(char c) { return c == '\n' || c == '\r'; }
inline bool is_flow_sign(char c) {
  return c == ',' || c == '[' || c == ']' || c == '{' || c == '}';
}

// true, 8, 1e-5, 0x10, null, or text: what YAML 1.1, as PyYAML reads it, makes of a word without quotes.
Value yaml_plain_value(std::string_view word);

class YamlReader {
 public:
  explicit YamlReader(std::shared_ptr<const Source> source)
      : source_(std::move(source)), text_(source_->text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_start_ = 3;
  }

  Value read();
  Diagnostics& problems() { return problems_; }
  // Keys that stand twice are told there, and the later one counts.
  void take_the_later(Diagnostics* repeated) { repeated_ = repeated; }

  Place place_of(std::size_t at) const;

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
  Mark mark_here();
  // What began there ends here: underlined when that is one line.
  void close(Mark& mark, std::size_t from, std::size_t upto) const {
    if (upto > from && text_.substr(from, upto - from).find('\n') == std::string_view::npos)
      mark.length = characters(from, upto);
  }
  // Asked again and again along one line, which is then not read again and again.
  std::size_t end_of_line(std::size_t from) const {
    if (from < line_from_ || from > line_end_) {
      line_from_ = from;
      line_end_ = std::min(text_.find_first_of("\r\n", from), text_.size());
    }
    return line_end_;
  }
  int characters(std::size_t from, std::size_t upto) const;
  void skip_break();
  void skip_line() {
    at_ = end_of_line(at_);
    if (!at_end()) skip_break();
  }

  bool skip_space();
  struct Properties {
    std::string anchor;
    std::string tag;
  };

  std::string word_of_property() {
    const std::size_t from = at_;
    while (!at_end() && !blank_at(at_) && !(flow_depth_ > 0 && is_flow_sign(peek()))) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }

  Value node(int least, int sequence_least, bool compact, int depth);
  void check_tag(const std::string& tag) const;
  Value finish(const Properties& properties, Value value, Mark mark, std::size_t from);
  Value alias(int depth);
  void spend(std::int64_t values, std::size_t at);
  // Whether a colon that ends a key comes next.
  bool key_follows() const {
    std::size_t next = at_;
    while (next < text_.size() && is_blank(text_[next])) ++next;
    return next < text_.size() && text_[next] == ':' && blank_at(next + 1);
  }

  std::optional<std::size_t> implicit_key();
  Value block_sequence(int depth);
  Value block_mapping(int depth);
  void add(Value& table, RepeatedKeys& keys, std::vector<Value>& merged, std::string key, Mark mark,
           Value value);
  static void merge(Value& table, RepeatedKeys& keys, const std::vector<Value>& merged);
  Value scalar(int least, const Properties& properties);
  std::string plain_line();
  void nothing_after() {
    while (is_blank(peek())) ++at_;
    if (at_end() || is_break(peek()) || peek() == '#') return;
    throw YamlFault{"E101", "not YAML here", at_, "nothing may follow the closing quote", {}};
  }

  Value quoted();
  void fold(std::string& text);
  void escape(std::string& text);
  static void append_character(std::string& text, std::uint32_t point);
  Value block_scalar(int least);
  Value flow(int depth);
  void need_more(std::size_t from) {
    skip_space();
    if (at_end())
      throw YamlFault{"E101", "a bracket that is never closed", from, "opened here", {}};
  }

  Value flow_value(int depth);
  Value flow_list(std::size_t from, int depth);
  Value flow_table(std::size_t from, int depth);
  std::shared_ptr<const Source> source_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int flow_depth_ = 0;
  std::int64_t aliased_ = 0;
  std::int64_t values_ = 0;
  mutable std::size_t line_from_ = 1;  // of the line whose end was looked for last
  mutable std::size_t line_end_ = 0;
  std::map<std::string, Value> anchors_;
  Diagnostics problems_;
  Diagnostics* repeated_ = nullptr;
  std::size_t counted_upto_ = 0;
  int line_ = 1;
  int counted_line_ = 0;
  int counted_ = 0;
};

}  // namespace steelyard
