#include "formats/launch/python_calls.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "document/read.h"
#include "formats/launch/mapping.h"

namespace steelyard {
namespace {

constexpr int kDeepest = 24;
constexpr std::size_t kMostCalls = 4'000;
constexpr std::size_t kMostItems = 1'000;
constexpr std::size_t kLargest = std::size_t{4} << 20;

bool begins_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class PythonReader {
 public:
  PythonReader(std::string_view text, std::string_view name)
      : text_(text.substr(0, kLargest)), source_(source_of(name, text_)) {}

  std::vector<PythonCall> calls() {
    read_constants();
    at_ = line_begin_ = spent_ = 0;
    line_ = 1;
    while (at_ < text_.size() && calls_.size() < kMostCalls) {
      skip_space();
      if (at_ >= text_.size()) break;
      if (is_string_here()) {
        read_string();
      } else if (begins_name(text_[at_])) {
        const std::size_t before = at_;
        const Mark mark = mark_here();
        const std::string name = read_dotted();
        if (peek() == '(' && !is_definition(before)) read_call(name, mark, 0);
      } else {
        step();
      }
    }
    return std::move(calls_);
  }

 private:
  // --- letters -------------------------------------------------------------------------------------------
  void step() {
    if (text_[at_] == '\n') {
      ++line_;
      line_begin_ = at_ + 1;
    }
    ++at_;
  }

  // Spaces, comments and ends of lines.
  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\\')
        step();
      else
        return;
    }
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Mark mark_here() const {
    Mark mark;
    mark.source = source_;
    mark.line = line_;
    mark.column = static_cast<int>(std::min<std::size_t>(at_ - line_begin_, 100'000)) + 1;
    return mark;
  }

  // A quote, or one behind the letters of a prefix: r"", f"", b"".
  bool is_string_here() const {
    std::size_t i = at_;
    while (i < text_.size() && i < at_ + 2 &&
           std::string_view("rRbBfFuU").find(text_[i]) != std::string_view::npos)
      ++i;
    return i < text_.size() && (text_[i] == '"' || text_[i] == '\'') &&
           (i == at_ || at_ == 0 || !(begins_name(text_[at_ - 1]) || is_digit(text_[at_ - 1])));
  }

  // Its text; nothing for one whose value is computed (f"", or with escapes that are not read).
  std::optional<std::string> read_string() {
    bool computed = false;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\'') {
      computed = computed || text_[at_] == 'f' || text_[at_] == 'F';
      ++at_;
    }
    if (at_ >= text_.size()) return std::nullopt;
    const char quote = text_[at_];
    const std::string three(3, quote);
    const bool whole = text_.substr(at_).starts_with(three);
    for (int i = 0; i < (whole ? 3 : 1); ++i) ++at_;
    std::string result;
    while (at_ < text_.size()) {
      if (whole ? text_.substr(at_).starts_with(three) : text_[at_] == quote) {
        at_ += whole ? 3 : 1;
        return computed ? std::nullopt : std::optional(std::move(result));
      }
      if (!whole && text_[at_] == '\n') return std::nullopt;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        result.push_back(text_[at_]);
        step();
      }
      result.push_back(text_[at_]);
      step();
    }
    return std::nullopt;
  }

  std::string read_dotted() {
    std::string name;
    while (at_ < text_.size()) {
      while (at_ < text_.size() && (begins_name(text_[at_]) || is_digit(text_[at_])))
        name.push_back(text_[at_++]);
      if (at_ + 1 >= text_.size() || text_[at_] != '.' || !begins_name(text_[at_ + 1])) break;
      name.push_back(text_[at_++]);
    }
    return name;
  }

  // `def train(` and `class Trainer(` call nothing.
  bool is_definition(std::size_t name) const {
    std::size_t end = name;
    while (end > 0 && (text_[end - 1] == ' ' || text_[end - 1] == '\t')) --end;
    const std::string_view before = text_.substr(0, end);
    return before.ends_with("def") || before.ends_with("class");
  }

  // --- values --------------------------------------------------------------------------------------------
  // Past what belongs to the argument that begins here: up to a comma or a closing bracket of its own depth.
  void skip_argument() {
    int depth = 0;
    while (at_ < text_.size()) {
      skip_space();
      if (at_ >= text_.size()) return;
      const char c = text_[at_];
      if (depth == 0 && (c == ',' || c == ')' || c == ']' || c == '}')) return;
      if (is_string_here()) {
        read_string();
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (begins_name(c) && calls_.size() < kMostCalls) {
        const std::size_t before = at_;
        const Mark mark = mark_here();
        const std::string name = read_dotted();
        if (peek() == '(' && !is_definition(before) && nested_ < kDeepest) {
          ++nested_;
          read_call(name, mark, nested_);
          --nested_;
        }
        continue;
      }
      step();
    }
  }

  // Brackets that nobody closes are read to the end again and again: not without bound.
  void spend(std::size_t start) {
    spent_ += at_ - std::min(start, at_);
    if (spent_ > 8 * text_.size() + 1'000'000) at_ = text_.size();
  }

  bool ends_here() {
    const char c = peek();
    return c == ',' || c == ')' || c == ']' || c == '}' || c == '\0';
  }

  // One argument: its value if it is a literal as a whole, else null; the reader stands behind it.
  Value read_argument(int depth) {
    skip_space();
    const Mark mark = mark_here();
    const std::size_t start = at_;
    Value value = read_value(depth);
    if (!ends_here()) {
      skip_argument();
      value = Value();
    }
    value.set_mark(mark);
    spend(start);
    return value;
  }

  Value read_number() {
    std::string digits;
    while (at_ < text_.size() &&
           (is_digit(text_[at_]) || begins_name(text_[at_]) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') &&
             (digits.empty() || digits.back() == 'e' || digits.back() == 'E'))))
      digits.push_back(text_[at_++]);
    Value value = typed_value(digits);
    return value.is_number() ? value : Value();
  }

  Value read_value(int depth) {
    if (depth > kDeepest || at_ >= text_.size()) return {};
    const char c = text_[at_];
    if (is_string_here()) {
      std::optional<std::string> text = read_string();
      while (text && depth > 0 && is_string_here_after_space()) {  // "a" "b" is one
        const auto more = read_string();
        if (more)
          *text += *more;
        else
          text.reset();
      }
      return text ? Value::string(std::move(*text)) : Value();
    }
    if (is_digit(c) || c == '.' ||
        ((c == '-' || c == '+') && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
      return read_number();
    if (c == '[' || c == '(') return read_list(c == '[' ? ']' : ')', depth);
    if (c == '{') return read_dictionary(depth);
    if (!begins_name(c)) return {};
    const Mark mark = mark_here();
    const std::string name = read_dotted();
    if (name == "True") return Value::boolean(true);
    if (name == "False") return Value::boolean(false);
    if (peek() == '(') {
      const std::size_t call = calls_.size();
      read_call(name, mark, depth + 1);
      if (call >= calls_.size()) return {};
      Value table = calls_[call].keywords;
      table.members().insert(table.members().begin(),
                             {std::string(kCallName), mark, Value::string(name)});
      return table;
    }
    if (const auto found = constants_.find(name); found != constants_.end()) return found->second;
    // Of other objects only the script knows what they hold.
    return name.starts_with("torch.") ? Value::string(name.substr(name.rfind('.') + 1)) : Value();
  }

  bool is_string_here_after_space() {
    skip_space();
    return at_ < text_.size() && is_string_here();
  }

  Value read_list(char close, int depth) {
    step();
    Value list = Value::array();
    bool known = true;
    while (peek() != close && at_ < text_.size() && list.items().size() < kMostItems) {
      Value item = read_argument(depth + 1);
      known = known && !item.is_null();
      list.items().push_back(std::move(item));
      if (peek() != ',') break;
      step();
    }
    if (peek() != close) return {};
    step();
    return known ? list : Value();
  }

  Value read_dictionary(int depth) {
    step();
    Value table = Value::table();
    while (peek() != '}' && at_ < text_.size() && table.members().size() < kMostItems) {
      const Mark mark = mark_here();
      const auto key = is_string_here() ? read_string() : std::nullopt;
      if (!key || peek() != ':') return {};
      step();
      Value value = read_argument(depth + 1);
      if (table.member(*key) == nullptr) table.members().push_back({*key, mark, std::move(value)});
      if (peek() != ',') break;
      step();
    }
    if (peek() != '}') return {};
    step();
    return table;
  }

  // Behind the name, at its bracket. The call stands before those inside of it.
  void read_call(const std::string& name, const Mark& mark, int depth) {
    step();
    const std::size_t index = calls_.size();
    calls_.push_back({name, {}, Value::table(), mark});
    calls_[index].keywords.set_mark(mark);
    std::size_t arguments = 0;
    while (peek() != ')' && at_ < text_.size() && depth <= kDeepest && ++arguments <= kMostItems) {
      const std::size_t start = at_;
      const std::size_t start_line = line_begin_;
      const int line = line_;
      const Mark key_mark = mark_here();
      if (text_.substr(at_).starts_with("**") &&
          calls_[index].keywords.member(kMoreKeywords) == nullptr)
        calls_[index].keywords.members().push_back({std::string(kMoreKeywords), key_mark, Value()});
      std::string keyword = begins_name(text_[at_]) && !is_string_here() ? read_dotted() : "";
      const bool named =
          !keyword.empty() && peek() == '=' && at_ + 1 < text_.size() && text_[at_ + 1] != '=';
      if (named) {
        step();
      } else {
        at_ = start;
        line_begin_ = start_line;
        line_ = line;
      }
      Value value = read_argument(depth + 1);
      if (!named)
        calls_[index].positional.push_back(std::move(value));
      else if (calls_[index].keywords.member(keyword) == nullptr)
        calls_[index].keywords.members().push_back({keyword, key_mark, std::move(value)});
      if (peek() != ',') break;
      step();
    }
    skip_argument();
    if (peek() == ')') step();
  }

  // NAME = literal at the beginning of a line; a name that is set twice is none.
  void read_constants() {
    std::set<std::string, std::less<>> often;
    std::size_t begin = 0;
    int line = 1;
    while (begin < text_.size() && spent_ < 8 * text_.size()) {
      const std::size_t end = std::min(text_.find('\n', begin), text_.size());
      at_ = line_begin_ = begin;
      line_ = line;
      if (begins_name(text_[begin])) {
        const std::string name = read_dotted();
        while (at_ < end && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
        if (at_ + 1 < end && text_[at_] == '=' && text_[at_ + 1] != '=' && !often.contains(name)) {
          ++at_;
          while (at_ < end && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
          const std::size_t calls = calls_.size();
          const std::size_t start = at_;
          Value value = read_value(0);
          spend(start);
          while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
          const bool ends = at_ >= text_.size() || text_[at_] == '\n' || text_[at_] == '\r' ||
                            text_[at_] == '#' || text_[at_] == ';';
          const bool is_call = calls_.size() > calls;
          calls_.clear();
          if (constants_.erase(name) > 0 || !ends)
            often.insert(name);
          else if (!value.is_null() && !is_call)
            constants_.emplace(name, std::move(value));
        }
      }
      begin = end + 1;
      ++line;
    }
  }

  std::string_view text_;
  std::shared_ptr<const Source> source_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
  int nested_ = 0;
  std::size_t spent_ = 0;
  std::map<std::string, Value, std::less<>> constants_;
  std::vector<PythonCall> calls_;
};

}  // namespace

std::vector<PythonCall> python_calls(std::string_view text, std::string_view source_name) {
  return PythonReader(text, source_name).calls();
}

std::string notebook_code(std::string_view text) {
  const ReadValue document = read_json(text, "notebook");
  std::string code;
  if (!document || document->find("cells") == nullptr || !document->find("cells")->is_array())
    return code;
  for (const Value& cell : document->find("cells")->items()) {
    const Value* kind = cell.is_table() ? cell.find("cell_type") : nullptr;
    const Value* source = cell.is_table() ? cell.find("source") : nullptr;
    if (kind == nullptr || source == nullptr || word_of(*kind) != "code") continue;
    std::string whole;
    if (source->is_array())
      for (const Value& line : source->items()) whole += word_of(line);
    else
      whole = word_of(*source);
    // %pip and !nvidia-smi are the notebook's own.
    std::string_view rest = whole;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      if (!line.starts_with("%") && !line.starts_with("!")) code += line;
      code += "\n";
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return code;
}

}  // namespace steelyard
