#include "quantity/traced.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

const Traced kBatch = Traced::symbol("b", 1), kSequence = Traced::symbol("s", 8);
const Traced kHidden = Traced::symbol("h", 16), kWidth = Traced::symbol("f", 64);

TEST(Traced, RemembersHowItWasMade) {
  const Traced size = Traced(2) * kBatch * kSequence * kWidth;
  EXPECT_EQ(size.value(), 1024);
  EXPECT_EQ(size.text(), "2·b·s·f");
  EXPECT_EQ(size.without({"b", "s"}), "2f");
}

TEST(Traced, CollectsLikeTerms) {
  const Traced kept = Traced(2) * kBatch * kSequence * kHidden + kBatch * kSequence * kHidden;
  EXPECT_EQ(kept.without({"b", "s"}), "3h");
}

TEST(Traced, WritesOneLetterAsAMultipleOfAnother) {
  const Traced kept = kBatch * kSequence * (Traced(4) * kWidth + Traced(14) * kHidden + Traced(16));
  const Traced short_form = kept.written_with("f", 4, "h");
  EXPECT_EQ(short_form.without({"b", "s"}), "30h + 16");
  EXPECT_EQ(short_form.value(), kept.value());
}

TEST(Traced, LeavesDivisorsAsTheyAreWritten) {
  const Traced share = kWidth / Traced::symbol("t", 2);
  EXPECT_EQ(share.written_with("t", 2, "u").text(), share.text());
  EXPECT_EQ(share.written_with("f", 4, "h").text(),
            (Traced(4) * kHidden / Traced::symbol("t", 2)).text());
}

TEST(Traced, PrintsSumsWithWhatAllTermsShareInFront) {
  const Traced heads = Traced::symbol("n", 4), ranks = Traced::symbol("t", 2);
  EXPECT_EQ((kBatch * kSequence * (Traced(20) * kHidden + Traced(8))).text(), "b·s·(20h + 8)");
  EXPECT_EQ((kBatch * kSequence * (kHidden + heads) / ranks).text(), "b·s·(h + n)/t");
  EXPECT_EQ((kHidden + kWidth).text(), "h + f");
  EXPECT_EQ((kHidden * kHidden).text(), "h^2");
  EXPECT_EQ((Traced(2) * kHidden / ranks).text(), "2·h/t");
  EXPECT_EQ((Traced(1) / kHidden * kHidden).text(), "1");
  EXPECT_EQ(Traced().text(), "0");
  EXPECT_EQ(Traced(7).text(), "7");
}

TEST(Traced, LettersHaveOneOrderHoweverTheyAreMultiplied) {
  EXPECT_EQ((kWidth * kSequence * Traced(2) * kHidden * kBatch).text(),
            (kBatch * kHidden * Traced(2) * kWidth * kSequence).text());
  EXPECT_EQ((kWidth * kSequence * kBatch).text(), "b·s·f");
}

TEST(Traced, TermsThatCancelAreGone) {
  const Traced difference = kHidden + kWidth - kHidden;
  EXPECT_EQ(difference.text(), "f");
  EXPECT_EQ(difference.value(), kWidth.value());
  EXPECT_EQ((kHidden - kHidden).text(), "0");
  EXPECT_EQ((kHidden - Traced(2) * kWidth).text(), "h - 2f");
}

TEST(Traced, FractionsOfOneTermAddUp) {
  const Traced ranks = Traced::symbol("t", 2);
  EXPECT_EQ((kHidden / Traced(4) + kHidden / Traced(4)).text(), "h/2");
  EXPECT_EQ((kHidden / Traced(4) + Traced(3) * kHidden / Traced(4)).text(), "h");
  EXPECT_EQ((kHidden / ranks + kHidden / ranks).text(), "2·h/t");
}

TEST(Traced, WithoutWantsTheLettersInEveryTerm) {
  EXPECT_EQ((kBatch * kHidden + kSequence * kWidth).without({"b"}), "");
  EXPECT_EQ((kBatch * kBatch * kHidden).without({"b"}), "b·h");
  EXPECT_EQ(kHidden.without({}), "h");
}

TEST(Traced, RoundingUpIsAFormulaOnlyWhereItRounds) {
  EXPECT_EQ(ceil_divide(kWidth, kHidden).text(), "f/h");
  const Traced odd = ceil_divide(Traced::symbol("V", 50'257), Traced::symbol("t", 8));
  EXPECT_EQ(odd.value(), 6'283);
  EXPECT_EQ(odd.text(), "ceil(V / t)");
  EXPECT_EQ((odd * kHidden).value(), 6'283 * 16);
  EXPECT_EQ(round_up(kWidth, Traced(32)).text(), "f");
  EXPECT_EQ(round_up(kHidden, Traced(128)).value(), 128);
  EXPECT_EQ(round_up(kHidden, Traced(128)).text(), "round_up(h, 128)");
}

// Both readings of one formula are one formula.
TEST(Traced, ValuesAreThoseOfCheckedNumbers) {
  const auto formula = [](auto b, auto s, auto f, auto t) {
    return (b * s * f * 2 + b * s * 8) / t + ceil_divide(f, t) * 3;
  };
  for (const std::int64_t t : {1, 2, 4, 8}) {
    const Checked plain_value = formula(Checked(3), Checked(8), Checked(64), Checked(t));
    EXPECT_EQ(formula(Traced::symbol("b", 3), kSequence, kWidth, Traced::symbol("t", t)).checked(),
              plain_value);
  }
}

TEST(Traced, RefusesToWrapAround) {
  const Traced large = Traced::symbol("V", std::int64_t{1} << 40);
  EXPECT_THROW(large * large, OverflowError);
  EXPECT_THROW(Traced(INT64_MAX) * Traced(2), OverflowError);
  EXPECT_THROW(Traced(INT64_MAX) + Traced(1), OverflowError);
}

}  // namespace
}  // namespace steelyard
