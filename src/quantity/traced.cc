#include "quantity/traced.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace steelyard {

namespace {

// Order in which letters are written: batch and sequence first, then widths, then what divides.
int rank_of(const std::string& letter) {
  static const std::string order[] = {"b", "s", "T", "L", "V", "P", "h", "a",
                                      "k", "f", "E", "K", "M", "n", "d"};
  for (std::size_t i = 0; i < std::size(order); ++i)
    if (order[i] == letter) return static_cast<int>(i);
  return 100;
}

bool before(const std::string& a, const std::string& b) {
  const int left = rank_of(a), right = rank_of(b);
  return left != right ? left < right : a < b;
}

}  // namespace

Traced::Traced(std::int64_t constant) : value_(constant) {
  if (constant != 0) terms_.push_back({constant, 1, {}});
}

Traced Traced::symbol(std::string letter, std::int64_t value) {
  return opaque(std::move(letter), value);
}

Traced Traced::opaque(std::string text, Checked value) {
  Traced number;
  number.value_ = value;
  number.terms_.push_back({1, 1, {{std::move(text), 1}}});
  return number;
}

void Traced::collect(std::vector<Term>& terms, Term term) {
  for (Term& known : terms) {
    if (known.factors != term.factors) continue;
    const std::int64_t common = std::lcm(known.divisor, term.divisor);
    known.coefficient =
        known.coefficient * (common / known.divisor) + term.coefficient * (common / term.divisor);
    known.divisor = common;
    const std::int64_t shared = std::gcd(known.coefficient, known.divisor);
    if (shared > 1) {
      known.coefficient /= shared;
      known.divisor /= shared;
    }
    return;
  }
  terms.push_back(std::move(term));
}

Traced operator+(const Traced& a, const Traced& b) {
  Traced sum;
  sum.value_ = a.value_ + b.value_;
  sum.terms_ = a.terms_;
  for (const Traced::Term& term : b.terms_) Traced::collect(sum.terms_, term);
  std::erase_if(sum.terms_, [](const Traced::Term& term) { return term.coefficient == 0; });
  return sum;
}

Traced Traced::written_with(const std::string& letter, std::int64_t times,
                            const std::string& other) const {
  Traced multiple = Traced(times) * opaque(other, 1);
  Traced sum;
  for (const Term& term : terms_) {
    Traced product;
    product.terms_.push_back({term.coefficient, term.divisor, {}});
    for (const auto& [name, exponent] : term.factors) {
      Traced factor;
      factor.terms_.push_back({1, 1, {{name, exponent}}});
      const bool replaced = name == letter && exponent > 0;
      for (int power = 0; power < (replaced ? exponent : 1); ++power)
        product = product * (replaced ? multiple : factor);
    }
    sum = sum + product;
  }
  sum.value_ = value_;
  return sum;
}

Traced operator-(const Traced& a, const Traced& b) { return a + Traced(-1) * b; }

Traced operator*(const Traced& a, const Traced& b) {
  Traced product;
  product.value_ = a.value_ * b.value_;
  for (const Traced::Term& left : a.terms_)
    for (const Traced::Term& right : b.terms_) {
      Traced::Term term{left.coefficient * right.coefficient, left.divisor * right.divisor,
                        left.factors};
      const std::int64_t shared = std::gcd(term.coefficient, term.divisor);
      if (shared > 1) {
        term.coefficient /= shared;
        term.divisor /= shared;
      }
      for (const Traced::Factor& factor : right.factors) {
        auto at =
            std::find_if(term.factors.begin(), term.factors.end(),
                         [&](const Traced::Factor& known) { return known.first == factor.first; });
        if (at == term.factors.end()) {
          term.factors.push_back(factor);
        } else {
          at->second += factor.second;
          if (at->second == 0) term.factors.erase(at);
        }
      }
      std::sort(term.factors.begin(), term.factors.end(),
                [](const auto& x, const auto& y) { return before(x.first, y.first); });
      Traced::collect(product.terms_, std::move(term));
    }
  return product;
}

Traced operator/(const Traced& a, const Traced& b) {
  const Checked quotient = a.value_ / b.value_;
  if (b.terms_.size() != 1)
    return Traced::opaque(fmt::format("({})/({})", a.text(), b.text()), quotient);
  Traced inverse;
  inverse.value_ = 1;
  const Traced::Term& divisor = b.terms_[0];
  Traced::Term term{divisor.divisor, divisor.coefficient, divisor.factors};
  for (auto& factor : term.factors) factor.second = -factor.second;
  inverse.terms_.push_back(std::move(term));
  Traced result = a * inverse;
  result.value_ = quotient;
  return result;
}

namespace {

std::string power(const std::string& letter, int exponent) {
  return exponent == 1 ? letter : fmt::format("{}^{}", letter, exponent);
}

bool is_word(const std::string& letter) { return letter.size() > 1; }

}  // namespace

std::string Traced::print(const std::vector<Term>& terms) {
  if (terms.empty()) return "0";
  // Factors with the same exponent in every term are written once, in front.
  std::vector<Factor> common = terms[0].factors;
  if (terms.size() > 1)
    std::erase_if(common, [&](const Factor& factor) {
      return std::any_of(terms.begin(), terms.end(), [&](const Term& term) {
        return std::find(term.factors.begin(), term.factors.end(), factor) == term.factors.end();
      });
    });
  else
    common.clear();

  auto print_term = [&](const Term& term) {
    std::string above = term.coefficient == 1 ? "" : fmt::format("{}", term.coefficient);
    std::string below = term.divisor == 1 ? "" : fmt::format("/{}", term.divisor);
    for (const Factor& factor : term.factors) {
      if (std::find(common.begin(), common.end(), factor) != common.end()) continue;
      if (factor.second > 0) {
        const bool tight = !above.empty() &&
                           above.find_first_not_of("0123456789-") == std::string::npos &&
                           !is_word(factor.first) && terms.size() > 1;
        above += (above.empty() || tight ? "" : "·") + power(factor.first, factor.second);
      } else {
        below += "/" + power(factor.first, -factor.second);
      }
    }
    return (above.empty() ? "1" : above) + below;
  };

  std::string sum;
  for (const Term& term : terms) {
    std::string text = print_term(term);
    if (sum.empty())
      sum = text;
    else if (text[0] == '-')
      sum += " - " + text.substr(1);
    else
      sum += " + " + text;
  }
  if (common.empty()) return sum;
  std::string front, below;
  for (const Factor& factor : common) {
    if (factor.second > 0)
      front += (front.empty() ? "" : "·") + power(factor.first, factor.second);
    else
      below += "/" + power(factor.first, -factor.second);
  }
  return front.empty() ? fmt::format("({}){}", sum, below)
                       : fmt::format("{}·({}){}", front, sum, below);
}

std::string Traced::text() const { return print(terms_); }

std::string Traced::without(const std::vector<std::string>& letters) const {
  std::vector<Term> rest = terms_;
  for (Term& term : rest)
    for (const std::string& letter : letters) {
      auto at = std::find_if(term.factors.begin(), term.factors.end(), [&](const Factor& factor) {
        return factor.first == letter && factor.second >= 1;
      });
      if (at == term.factors.end()) return "";
      if (--at->second == 0) term.factors.erase(at);
    }
  // Widths in the usual order, the constant last.
  std::stable_sort(rest.begin(), rest.end(), [](const Term& a, const Term& b) {
    if (a.factors.empty() || b.factors.empty()) return !a.factors.empty() && b.factors.empty();
    return before(a.factors.front().first, b.factors.front().first);
  });
  if (rest.size() == 1) {  // "2f", not "2·f", like the sums it stands beside
    rest.push_back({0, 1, {}});
    std::string text = print(rest);
    return text.substr(0, text.rfind(" + "));
  }
  return print(rest);
}

Traced ceil_divide(const Traced& total, const Traced& size) {
  if ((total.checked() % size.checked()).value() == 0) return total / size;
  return Traced::opaque(fmt::format("ceil({} / {})", total.text(), size.text()),
                        ceil_divide(total.checked(), size.checked()));
}

Traced round_up(const Traced& total, const Traced& multiple) {
  if ((total.checked() % multiple.checked()).value() == 0) return total;
  return Traced::opaque(fmt::format("round_up({}, {})", total.text(), multiple.text()),
                        round_up(total.checked(), multiple.checked()));
}

}  // namespace steelyard
