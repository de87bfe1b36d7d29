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

}  // namespace
}  // namespace steelyard
