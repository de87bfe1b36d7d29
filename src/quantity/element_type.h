// The types that tensors are made of, and the one place where elements become bytes.
//
//   name    sign/exponent/mantissa   bits
//   fp64    1/11/52                  64 (what some engines take norms in; nothing is trained in it)
//   fp32    1/8/23                   32
//   tf32    1/8/10                   32 in memory (the matrix unit reads 19 of them)
//   bf16    1/8/7                    16
//   fp16    1/5/10                   16
//   e4m3    1/4/3                     8      e5m2 1/5/2   8
//   int8    -                         8      nf4, int4 -  4
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "quantity/quantity.h"

namespace steelyard {

enum class ElementType : std::uint8_t {
  kFloat32,
  kBFloat16,
  kFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kBool,
  kNormalFloat4,
  kInt4,
  kFloat64
};

constexpr std::int64_t bits_of(ElementType type) {
  switch (type) {
    case ElementType::kInt64:
    case ElementType::kFloat64:
      return 64;
    case ElementType::kFloat32:
    case ElementType::kInt32:
      return 32;
    case ElementType::kBFloat16:
    case ElementType::kFloat16:
    case ElementType::kInt16:
      return 16;
    case ElementType::kFloat8E4M3:
    case ElementType::kFloat8E5M2:
    case ElementType::kInt8:
    case ElementType::kBool:
      return 8;
    case ElementType::kNormalFloat4:
    case ElementType::kInt4:
      return 4;
  }
  return 0;
}
// Where a fraction of a byte is no harm: in times.
constexpr double bytes_each(ElementType type) { return static_cast<double>(bits_of(type)) / 8; }

// Codes that mean numbers only together with constants kept beside them.
constexpr bool is_quantised(ElementType type) {
  return type == ElementType::kInt8 || type == ElementType::kNormalFloat4 ||
         type == ElementType::kInt4;
}

constexpr std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "fp32";
    case ElementType::kBFloat16:
      return "bf16";
    case ElementType::kFloat16:
      return "fp16";
    case ElementType::kFloat8E4M3:
      return "e4m3";
    case ElementType::kFloat8E5M2:
      return "e5m2";
    case ElementType::kInt64:
      return "int64";
    case ElementType::kInt32:
      return "int32";
    case ElementType::kInt16:
      return "int16";
    case ElementType::kInt8:
      return "int8";
    case ElementType::kBool:
      return "bool";
    case ElementType::kNormalFloat4:
      return "nf4";
    case ElementType::kInt4:
      return "int4";
    case ElementType::kFloat64:
      return "fp64";
  }
  return "";
}

constexpr std::optional<ElementType> element_type_named(std::string_view name) {
  for (auto type : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16,
                    ElementType::kFloat8E4M3, ElementType::kFloat8E5M2, ElementType::kInt64,
                    ElementType::kInt32, ElementType::kInt16, ElementType::kInt8,
                    ElementType::kBool, ElementType::kNormalFloat4, ElementType::kInt4})
    if (name_of(type) == name) return type;
  return std::nullopt;
}

// Sub-byte types round the whole tensor up to a byte, as their packed storage does.
constexpr Bytes bytes_of(Elements count, ElementType type) {
  const std::int64_t bits = bits_of(type);
  if (bits >= 8) return Bytes(count.value() * Checked(bits / 8));
  return Bytes(ceil_divide(count.value() * Checked(bits), 8));
}

}  // namespace steelyard
