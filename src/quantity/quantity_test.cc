#include "quantity/quantity.h"

#include <gtest/gtest.h>

#include <concepts>
#include <limits>

#include "quantity/element_type.h"
#include "quantity/number_format.h"

namespace steelyard {
namespace {

template <class A, class B>
concept CanAdd = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept CanCompare = requires(A a, B b) {
  a < b;
};
template <class A, class B>
concept CanMultiply = requires(A a, B b) {
  a* b;
};

// What must not compile.
static_assert(CanAdd<Bytes, Bytes>);
static_assert(!CanAdd<Bytes, Elements>);
static_assert(!CanAdd<Bytes, Tokens>);
static_assert(!CanAdd<Bytes, int>);
static_assert(!CanAdd<Seconds, Flops>);
static_assert(!CanCompare<Bytes, Elements>);
static_assert(!CanMultiply<Bytes, Bytes>);
static_assert(!CanMultiply<Bytes, double>);
static_assert(!std::constructible_from<Bytes, double>);
static_assert(!std::constructible_from<Bytes, Elements>);
static_assert(!std::constructible_from<Elements, Bytes>);
static_assert(!std::convertible_to<std::int64_t, Bytes>);
static_assert(!std::convertible_to<Bytes, std::int64_t>);
static_assert(!std::constructible_from<Checked, double>);
static_assert(!std::constructible_from<Checked, std::uint64_t>);
static_assert(!std::constructible_from<Ranks, Layers>);
static_assert(!std::convertible_to<std::int64_t, Ranks>);
static_assert(!std::assignable_from<Ranks&, Layers>);
static_assert(!CanAdd<Ranks, Layers>);
static_assert(!CanCompare<Tokens, Layers>);
static_assert(std::convertible_to<Ranks, std::int64_t>);
static_assert(Layers(126) / Ranks(16) == 7);

// What must be true.
static_assert(80_GiB - 81_GiB == Bytes(-(std::int64_t{1} << 30)));
static_assert(bytes_of(Elements(3), ElementType::kBFloat16) == 6_B);
static_assert(bytes_of(Elements(3), ElementType::kNormalFloat4) == 2_B);
static_assert(bytes_of(Elements(8'030'261'248), ElementType::kBFloat16) == Bytes(16'060'522'496));
static_assert(allocated_size(1_B) == 512_B);
static_assert(allocated_size(513_B) == 1024_B);
static_assert(ceil_divide(257, 256) == Checked(2));
static_assert(round_up(4096, 512) == Checked(4096));

TEST(Checked, RefusesToWrapAround) {
  const Checked largest = std::numeric_limits<std::int64_t>::max();
  const Checked smallest = std::numeric_limits<std::int64_t>::min();
  EXPECT_THROW(largest + Checked(1), OverflowError);
  EXPECT_THROW(smallest - Checked(1), OverflowError);
  EXPECT_THROW(largest * Checked(2), OverflowError);
  EXPECT_THROW(round_up(largest, 512), OverflowError);
  EXPECT_THROW(80_GiB * largest, OverflowError);
  EXPECT_THROW(bytes_of(Elements(largest), ElementType::kFloat32), OverflowError);
  EXPECT_EQ((Checked(1'000'000'000) * Checked(1'000'000'000)).value(), 1'000'000'000'000'000'000);
}

TEST(ElementType, HasANameThatReadsBack) {
  for (int i = 0; i <= static_cast<int>(ElementType::kInt4); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(element_type_named(name_of(type)), type);
    EXPECT_GT(bits_of(type), 0);
  }
  EXPECT_FALSE(element_type_named("fp64"));
}

// Figure 26 of the mission: fp32 1/8/23, bf16 1/8/7, fp8 e4m3 1/4/3.
static_assert(*format_of(ElementType::kFloat32) == NumberFormat{8, 23});
static_assert(*format_of(ElementType::kBFloat16) == NumberFormat{8, 7});
static_assert(*format_of(ElementType::kFloat8E4M3) == NumberFormat{4, 3});
static_assert(*format_of(ElementType::kFloat8E5M2) == NumberFormat{5, 2});
static_assert(!format_of(ElementType::kInt8));

TEST(NumberFormat, FillsTheTypesBits) {
  for (auto type : {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16,
                    ElementType::kFloat8E4M3, ElementType::kFloat8E5M2})
    EXPECT_EQ(1 + format_of(type)->exponent_bits + format_of(type)->mantissa_bits, bits_of(type));
}

// Figure 5: weights of 1B parameters in fp32, 16 bits, int8 and int4 are 4, 2, 1 and 0.5 GB.
static_assert(bytes_of(Elements(1'000'000'000), ElementType::kFloat32) == Bytes(4'000'000'000));
static_assert(bytes_of(Elements(1'000'000'000), ElementType::kFloat16) == Bytes(2'000'000'000));
static_assert(bytes_of(Elements(1'000'000'000), ElementType::kInt8) == Bytes(1'000'000'000));
static_assert(bytes_of(Elements(1'000'000'000), ElementType::kInt4) == Bytes(500'000'000));

}  // namespace
}  // namespace steelyard
