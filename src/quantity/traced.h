// A number that remembers how it was made.
//
//   Traced b = Traced::symbol("b", 1), s = Traced::symbol("s", 8192), f = Traced::symbol("f", 14336), t = Traced::symbol("t", 2);
//   (Traced(2) * b * s * f / t).text()        "2·b·s·f/t"
//   (Traced(2) * b * s * f / t).value()       117440512
//
// Sums collect equal terms, so the kept bytes of a whole layer read "b·s·(16h + 4a + 4k + 8f + 4n + 8)".
// Formulas are templates over their number: with Checked they are fast, with Traced they explain themselves.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quantity/checked.h"

namespace steelyard {

class Traced {
 public:
  Traced() = default;
  Traced(std::int64_t constant);  // NOLINT: literals read as sizes
  static Traced symbol(std::string letter, std::int64_t value);

  Checked checked() const { return value_; }
  std::int64_t value() const { return value_.value(); }
  std::string text() const;  // "2·b·s·f/t", "b·s·(20h + 8)"
  // The same without the factors named: per_unit({"b", "s"}) of "2·b·s·f" is "2f". Empty if a term lacks one of them.
  std::string without(const std::vector<std::string>& letters) const;

  // The same number with one letter written as a multiple of another: "4f" with f = 4h becomes "16h". The caller knows
  // that they are equal.
  Traced written_with(const std::string& letter, std::int64_t times,
                      const std::string& other) const;

  friend Traced operator+(const Traced& a, const Traced& b);
  friend Traced operator-(const Traced& a, const Traced& b);
  friend Traced operator*(const Traced& a, const Traced& b);
  friend Traced operator/(const Traced& a, const Traced& b);  // exact division
  Traced& operator+=(const Traced& other) { return *this = *this + other; }

  // A sub-formula that has no polynomial form, like a rounding: becomes one opaque letter.
  static Traced opaque(std::string text, Checked value);

 private:
  using Factor = std::pair<std::string, int>;  // letter, exponent
  struct Term {
    std::int64_t coefficient = 0;
    std::int64_t divisor = 1;
    std::vector<Factor> factors;  // sorted by letter
  };
  static std::string print(const std::vector<Term>& terms);
  static void collect(std::vector<Term>& terms, Term term);

  Checked value_;
  std::vector<Term> terms_;
};

Traced ceil_divide(const Traced& total, const Traced& size);
Traced round_up(const Traced& total, const Traced& multiple);

// What generic formulas need of both readings.
inline std::int64_t plain(Checked number) { return number.value(); }
inline std::int64_t plain(const Traced& number) { return number.value(); }

}  // namespace steelyard
