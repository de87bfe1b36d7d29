// JSON through nlohmann's event reader. The events carry no places, so each one is found again in the
// text: between two tokens there is only space, commas and colons.
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "document/read.h"
#include "document/repeated_keys.h"

namespace steelyard {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

// Walks the text once, beside the parser, and counts lines and characters.
class Cursor {
 public:
  explicit Cursor(std::shared_ptr<const Source> source)
      : source_(std::move(source)), text_(source_->text) {
    if (text_.starts_with(kByteOrderMark)) position_ = line_start_ = kByteOrderMark.size();
  }

  // The next token, and beyond it. `opening`: only the bracket itself.
  Mark next() {
    while (position_ < text_.size() && is_between(text_[position_])) step();
    Mark mark = here();
    const std::size_t start = position_;
    if (position_ < text_.size() && text_[position_] == '"') {
      skip_string();
    } else if (position_ < text_.size() && is_bracket(text_[position_])) {
      ++position_;
    } else {
      while (position_ < text_.size() && is_word(text_[position_])) ++position_;
    }
    mark.length = characters(start, position_);
    return mark;
  }

  // The place of a byte at or after the last token.
  Mark at(std::size_t byte) {
    while (position_ < byte && position_ < text_.size()) step();
    return here();
  }

 private:
  static bool is_between(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':';
  }
  static bool is_bracket(char c) { return c == '{' || c == '}' || c == '[' || c == ']'; }
  static bool is_word(char c) { return !is_between(c) && !is_bracket(c) && c != '"'; }

  Mark here() const {
    Mark mark;
    mark.source = source_;
    mark.line = line_;
    mark.column =
        counted_ + characters(counted_to_ < line_start_ ? line_start_ : counted_to_, position_) + 1;
    counted_ = mark.column - 1;
    counted_to_ = position_;
    mark.length = 1;
    return mark;
  }
  int characters(std::size_t from, std::size_t to) const {
    int count = 0;
    for (std::size_t i = from; i < to; ++i) count += continues_character(text_[i]) ? 0 : 1;
    return count;
  }
  void step() {
    if (text_[position_] == '\n') {
      ++line_;
      line_start_ = position_ + 1;
      counted_ = 0;
      counted_to_ = line_start_;
    }
    ++position_;
  }
  void skip_string() {
    ++position_;
    while (position_ < text_.size() && text_[position_] != '"')
      position_ += text_[position_] == '\\' ? 2 : 1;
    position_ = std::min(position_ + 1, text_.size());
  }

  std::shared_ptr<const Source> source_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
  // Characters of the current line counted so far: a one-line document is not counted again for each token.
  mutable int counted_ = 0;
  mutable std::size_t counted_to_ = 0;
};

// "syntax error while parsing object - unexpected end of input; expected '}'" -> the last part
std::string expectation(std::string_view what) {
  const std::size_t at = what.rfind("; expected ");
  if (at == std::string_view::npos) return {};
  std::string found(what.substr(at + 11));
  if (found.starts_with("'[', '{', or a literal")) return "expected a value";
  if (found == "string literal") return "expected a key in double quotes";
  if (found == "end of input") return "expected the end of the document";
  return "expected " + found;
}

class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(const std::shared_ptr<const Source>& source) : source_(source), cursor_(source) {
    open_.reserve(8);
  }

  bool null() override { return put(Value(), cursor_.next()); }
  bool boolean(bool truth) override { return put(Value::boolean(truth), cursor_.next()); }
  bool number_integer(number_integer_t number) override {
    return put(Value::integer(number), cursor_.next());
  }
  bool number_unsigned(number_unsigned_t number) override {
    if (number > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      return put(Value::number(static_cast<double>(number)), cursor_.next());
    return put(Value::integer(static_cast<std::int64_t>(number)), cursor_.next());
  }
  bool number_float(number_float_t number, const string_t&) override {
    return put(Value::number(number), cursor_.next());
  }
  bool string(string_t& text) override {
    return put(Value::string(std::move(text)), cursor_.next());
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& text) override {
    Open& table = open_.back();
    const Mark mark = cursor_.next();
    if (table.keys.repeats(table.value, text)) {
      if (is_full(problems_, Severity::kError))
        count_problem(problems_, Severity::kError);
      else
        add_problem(problems_, {Severity::kError, "E102",
                                fmt::format("the key \"{}\" is given twice in one table", text),
                                mark.place(), "given again here", "keep one of the two"});
    }
    table.key = std::move(text);
    table.key_mark = mark;
    return true;
  }
  bool start_object(std::size_t) override { return open(Value::table()); }
  bool start_array(std::size_t) override { return open(Value::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();
    const std::size_t offset = byte > 0 ? byte - 1 : 0;
    const bool ended = offset >= source_->text.size();
    Diagnostic problem{Severity::kError, "E101", {}, {}, expectation(what), {}};
    if (error.id == 406) {
      problem.message = "a number that no 64-bit float can hold";
      problem.place = cursor_.next().place();
      problem.label = "too large";
    } else if (ended) {
      problem.message = "the JSON ends before it is complete";
      problem.place = cursor_.at(source_->text.size()).place();
      if (!open_.empty())
        problem.help =
            fmt::format("\"{}\" opened at line {}, column {} is not closed; is the file cut off?",
                        open_.back().value.is_table() ? '{' : '[', open_.back().value.mark().line,
                        open_.back().value.mark().column);
    } else {
      problem.place = cursor_.at(offset).place();
      if (what.find("invalid string") != std::string_view::npos) {
        problem.message = "a string that is not closed or not UTF-8";
      } else if (what.find("invalid literal") != std::string_view::npos) {
        problem.message = "not JSON here";
        if (problem.label.empty()) problem.label = "expected a value";
      } else {
        problem.message = "not JSON here";
      }
    }
    problems_.insert(problems_.begin(), std::move(problem));
    return false;
  }

  Value root;
  Diagnostics& problems() { return problems_; }

 private:
  struct Open {
    Value value;
    std::string key;  // the key that waits for its value
    Mark key_mark;
    RepeatedKeys keys;
  };

  bool open(Value value) {
    const Mark mark = cursor_.next();
    value.set_mark(mark);
    if (open_.size() >= static_cast<std::size_t>(kMaximumDepth)) {
      problems_.insert(problems_.begin(), {Severity::kError,
                                           "E103",
                                           fmt::format("nested more than {} deep", kMaximumDepth),
                                           mark.place(),
                                           "too deep",
                                           {}});
      return false;
    }
    open_.push_back({std::move(value), {}, {}, {}});
    return true;
  }
  bool close() {
    cursor_.next();
    Value done = std::move(open_.back().value);
    open_.pop_back();
    Mark mark = done.mark();
    return put(std::move(done), std::move(mark));
  }
  bool put(Value value, Mark mark) {
    if (++values_ > kMaximumValues) {
      problems_.insert(problems_.begin(), {Severity::kError,
                                           "E103",
                                           fmt::format("more than {} values", kMaximumValues),
                                           mark.place(),
                                           "one too many",
                                           {}});
      return false;
    }
    value.set_mark(std::move(mark));
    if (open_.empty()) {
      root = std::move(value);
      return true;
    }
    Open& parent = open_.back();
    if (parent.value.is_table()) {
      parent.value.members().push_back(
          {std::move(parent.key), std::move(parent.key_mark), std::move(value)});
    } else {
      parent.value.items().push_back(std::move(value));
    }
    return true;
  }

  std::shared_ptr<const Source> source_;
  Cursor cursor_;
  std::vector<Open> open_;
  std::int64_t values_ = 0;
  Diagnostics problems_;
};

}  // namespace

ReadValue read_json(std::string_view text, std::string_view source_name) {
  const auto source = source_of(source_name, text);
  if (text.size() > kMaximumDocumentBytes) {
    return tl::unexpected(Diagnostics{{Severity::kError,
                                       "E103",
                                       fmt::format("{} bytes of JSON, more than {} MiB",
                                                   text.size(), kMaximumDocumentBytes >> 20),
                                       Place{source->name, 0, 0, {}, 0},
                                       {},
                                       {}}});
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return tl::unexpected(Diagnostics{
        {Severity::kError, "E101", "the JSON is empty", Place{source->name, 0, 0, {}, 0}, {}, {}}});
  }
  Builder builder(source);
  try {
    nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder);
  } catch (const std::exception& fault) {
    builder.problems().push_back(
        {Severity::kError, "E101", fault.what(), Place{source->name, 0, 0, {}, 0}, {}, {}});
  }
  if (!builder.problems().empty()) return tl::unexpected(std::move(builder.problems()));
  return std::move(builder.root);
}

}  // namespace steelyard
