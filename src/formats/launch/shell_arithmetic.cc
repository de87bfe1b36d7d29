#include "formats/launch/shell_arithmetic.h"

#include "formats/launch/mapping.h"

namespace steelyard {
namespace {

constexpr int kDeepest = 32;
constexpr std::int64_t kLargest = std::int64_t{1} << 53;

class Arithmetic {
 public:
  Arithmetic(std::string_view text, const Lookup& lookup) : text_(text), lookup_(lookup) {}

  std::optional<std::int64_t> value() {
    const auto result = comparison(0);
    skip();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  using Number = std::optional<std::int64_t>;

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }
  bool sign(std::string_view wanted) {
    skip();
    if (!text_.substr(at_).starts_with(wanted)) return false;
    at_ += wanted.size();
    return true;
  }
  static Number within(std::int64_t number) {
    return number < kLargest && number > -kLargest ? Number(number) : std::nullopt;
  }

  Number comparison(int depth) {
    const Number a = sum(depth);
    if (!a) return a;
    for (const std::string_view word : {"==", "!=", ">=", "<=", ">", "<"}) {
      if (!sign(word)) continue;
      const Number b = sum(depth);
      if (!b) return b;
      if (word == "==") return *a == *b ? 1 : 0;
      if (word == "!=") return *a != *b ? 1 : 0;
      if (word == ">=") return *a >= *b ? 1 : 0;
      if (word == "<=") return *a <= *b ? 1 : 0;
      return (word == ">" ? *a > *b : *a < *b) ? 1 : 0;
    }
    return a;
  }

  Number sum(int depth) {
    Number total = product(depth);
    while (total) {
      const bool plus = sign("+");
      if (!plus && !sign("-")) return total;
      const Number next = product(depth);
      if (!next) return next;
      total = within(plus ? *total + *next : *total - *next);
    }
    return total;
  }

  Number product(int depth) {
    Number total = term(depth);
    while (total) {
      skip();
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      if (c != '*' && c != '/' && c != '%') return total;
      ++at_;
      const Number next = term(depth);
      if (!next || (c != '*' && *next == 0)) return std::nullopt;
      if (c == '*') {
        const double size = static_cast<double>(*total) * static_cast<double>(*next);
        if (size > 9e15 || size < -9e15) return std::nullopt;
        total = within(*total * *next);
      } else {
        total = c == '/' ? *total / *next : *total % *next;
      }
    }
    return total;
  }

  Number term(int depth) {
    if (depth > kDeepest) return std::nullopt;
    if (sign("(")) {
      const Number inner = comparison(depth + 1);
      return sign(")") ? inner : std::nullopt;
    }
    if (sign("-")) {
      const Number inner = term(depth + 1);
      return inner ? within(-*inner) : inner;
    }
    skip();
    const std::size_t from = at_;
    const auto is_word = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view word = text_.substr(from, at_ - from);
    if (word.empty()) return std::nullopt;
    Value value = typed_value(word);
    if (!value.is_integer()) {
      const std::optional<std::string> said = lookup_(word);
      if (!said) return std::nullopt;
      value = typed_value(*said);
    }
    return value.is_integer() ? within(value.as_integer()) : std::nullopt;
  }

  std::string_view text_;
  const Lookup& lookup_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::int64_t> arithmetic(std::string_view expression, const Lookup& lookup) {
  if (expression.size() > 4096) return std::nullopt;
  return Arithmetic(expression, lookup).value();
}

}  // namespace steelyard
