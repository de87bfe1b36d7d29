#include "report/plan_unfinished.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(PlanUnfinished, SaysWhoseTheLayoutIs) {
  SearchCounts counts;
  counts.layouts = counts.not_asked = 1'000;
  EXPECT_EQ(unfinished_words(counts, false, false),
            "not finished: 0 of 1,000 layouts asked, none of them fits yet; --seconds N searches "
            "for longer");
  EXPECT_EQ(unfinished_words(counts, false, true),
            "not finished: 0 of 1,000 layouts asked, the layout shown is the rule of thumb's; "
            "--seconds N searches for longer");
  counts.not_asked = 400;
  counts.fits = 2;
  EXPECT_EQ(unfinished_words(counts, true, true),
            "not finished: 600 of at least 1,000 layouts asked, the best so far; those left may be "
            "faster; "
            "--seconds N searches for longer");
}

}  // namespace
}  // namespace steelyard
