// How a floating-point type spends its bits: one sign, the exponent (range), the mantissa
// (precision).
//
//   fp32 1/8/23    tf32 1/8/10    bf16 1/8/7    fp16 1/5/10    e4m3 1/4/3    e5m2 1/5/2
#pragma once

#include <optional>

#include "quantity/element_type.h"

namespace steelyard {

struct NumberFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  friend constexpr bool operator==(NumberFormat, NumberFormat) = default;
};

// tf32 is no storage type: values lie in memory as fp32 and the matrix unit reads 10 mantissa bits.
constexpr NumberFormat kTensorFloat32 = {8, 10};

// Nothing for integers and table types (nf4).
constexpr std::optional<NumberFormat> format_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat64:
      return NumberFormat{11, 52};
    case ElementType::kFloat32:
      return NumberFormat{8, 23};
    case ElementType::kBFloat16:
      return NumberFormat{8, 7};
    case ElementType::kFloat16:
      return NumberFormat{5, 10};
    case ElementType::kFloat8E4M3:
      return NumberFormat{4, 3};
    case ElementType::kFloat8E5M2:
      return NumberFormat{5, 2};
    case ElementType::kInt64:
    case ElementType::kInt32:
    case ElementType::kInt16:
    case ElementType::kInt8:
    case ElementType::kBool:
    case ElementType::kNormalFloat4:
    case ElementType::kInt4:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace steelyard
