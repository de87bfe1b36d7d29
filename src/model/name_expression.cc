#include "model/name_expression.h"

#include <algorithm>
#include <vector>

namespace steelyard {
namespace {

constexpr std::size_t kLongestExpression = 1000;
constexpr std::size_t kLongestName = 300;
constexpr int kDeepestGroup = 30;

using Places = std::vector<bool>;  // of a name: where a match may stand

// One pass over the expression; each part turns the places before it into those behind it.
class Matcher {
 public:
  Matcher(std::string_view expression, std::string_view name)
      : expression_(expression), name_(name) {}

  bool whole() {
    Places start(name_.size() + 1, false);
    start[0] = true;
    const Places end = alternatives(0, expression_.size(), start, 0);
    return !failed_ && end[name_.size()];
  }

 private:
  // The end of the part that begins at `at`: a group, a class, an escaped sign or a letter.
  std::size_t part_end(std::size_t at, std::size_t end) {
    const char c = expression_[at];
    if (c == '\\') return at + 2 <= end ? at + 2 : fail(end);
    if (c == '[') {
      const std::size_t close = expression_.find(']', at + 2);
      return close == std::string_view::npos || close >= end ? fail(end) : close + 1;
    }
    if (c != '(')
      return std::string_view("*+?)]{}|").find(c) == std::string_view::npos ? at + 1 : fail(end);
    int depth = 0;
    for (std::size_t i = at; i < end; ++i) {
      if (expression_[i] == '\\')
        ++i;
      else if (expression_[i] == '(')
        ++depth;
      else if (expression_[i] == ')' && --depth == 0)
        return i + 1;
    }
    return fail(end);
  }

  std::size_t fail(std::size_t end) {
    failed_ = true;
    return end;
  }

  Places alternatives(std::size_t begin, std::size_t end, const Places& from, int depth) {
    Places all(from.size(), false);
    if (depth > kDeepestGroup) failed_ = true;
    std::size_t start = begin;
    for (std::size_t at = begin; !failed_ && at <= end;) {
      if (at == end || expression_[at] == '|') {
        const Places one = sequence(start, at, from, depth);
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = all[i] || one[i];
        start = ++at;
      } else {
        at = part_end(at, end);
        if (at < end && std::string_view("*+?").find(expression_[at]) != std::string_view::npos)
          ++at;
      }
    }
    return all;
  }

  Places sequence(std::size_t begin, std::size_t end, Places from, int depth) {
    for (std::size_t at = begin; !failed_ && at < end;) {
      const std::size_t behind = part_end(at, end);
      const char times = behind < end ? expression_[behind] : ' ';
      if (times == '*' || times == '+') {
        Places all = times == '*' ? from : Places(from.size(), false);
        for (Places next = from;;) {
          next = part(at, behind, next, depth);
          bool grew = false;
          for (std::size_t i = 0; i < all.size(); ++i)
            if (next[i] && !all[i]) all[i] = grew = true;
          if (!grew || failed_) break;
        }
        from = std::move(all);
        at = behind + 1;
      } else if (times == '?') {
        const Places once = part(at, behind, from, depth);
        for (std::size_t i = 0; i < from.size(); ++i) from[i] = from[i] || once[i];
        at = behind + 1;
      } else {
        from = part(at, behind, from, depth);
        at = behind;
      }
    }
    return from;
  }

  Places part(std::size_t begin, std::size_t end, const Places& from, int depth) {
    if (expression_[begin] == '(') {
      std::size_t inner = begin + 1;
      if (expression_.substr(inner).starts_with("?:")) inner += 2;
      return alternatives(inner, end - 1, from, depth + 1);
    }
    Places next(from.size(), false);
    for (std::size_t i = 0; i + 1 < from.size(); ++i)
      if (from[i] && is_meant(begin, end, name_[i])) next[i + 1] = true;
    return next;
  }

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_escaped(char kind, char c) {
    if (kind == 'd') return is_digit(c);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (kind == 'w') return letter || is_digit(c);
    return kind == c;
  }

  bool is_meant(std::size_t begin, std::size_t end, char c) const {
    if (expression_[begin] == '\\') return is_escaped(expression_[begin + 1], c);
    if (expression_[begin] != '[') return expression_[begin] == '.' || expression_[begin] == c;
    std::size_t at = begin + 1;
    const bool without = expression_[at] == '^';
    if (without) ++at;
    bool in = false;
    for (; at + 1 < end; ++at) {
      if (expression_[at] == '\\' && at + 2 < end)
        in = in || is_escaped(expression_[++at], c);
      else if (at + 3 < end && expression_[at + 1] == '-')
        in = in || (expression_[at] <= c && c <= expression_[at + 2]), at += 2;
      else
        in = in || expression_[at] == c;
    }
    return in != without;
  }

  std::string_view expression_;
  std::string_view name_;
  bool failed_ = false;
};

}  // namespace

bool is_name_expression(std::string_view target) {
  return target.find_first_of("\\()[]|+^$?{}") != std::string_view::npos ||
         target.find(".*") != std::string_view::npos;
}

bool matches_name_expression(std::string_view name, std::string_view expression) {
  if (expression.starts_with("^")) expression.remove_prefix(1);
  if (expression.ends_with("$") && !expression.ends_with("\\$")) expression.remove_suffix(1);
  if (expression.size() > kLongestExpression || name.size() > kLongestName) return false;
  return Matcher(expression, name).whole();
}

}  // namespace steelyard
