// A plan whose time is up says the best so far.
#include <gtest/gtest.h>

#include "document/read.h"
#include "plan/plan.h"
#include "plan/question.h"

namespace steelyard {
namespace {

// The time is up as soon as the search has read its first job: no layout was found to fit, and the rule of thumb answers.
TEST(OutOfTime, TheRuleOfThumbAnswersWhereTheSearchFoundNothing) {
  const auto document = read_json(R"({"model": "llama-3.1-70b", "engine": "megatron",)"
                                  R"( "cluster": {"device": "h100-sxm-80gb", "devices": 64}})",
                                  "run");
  const auto question = question_of(*document, serial_help());
  ASSERT_TRUE(question);
  int reads = 0;
  SearchHelp help = serial_help();
  help.read = [&](const Value& run) {
    ++reads;
    return read_job(run);
  };
  help.expired = [&] { return reads > 0; };
  const PlanAnswer cut = plan(*question, {}, help);
  EXPECT_TRUE(cut.result.interrupted);
  EXPECT_EQ(cut.result.best(), nullptr);
  ASSERT_EQ(cut.rows.size(), 1U);
  EXPECT_EQ(cut.rows.front().prediction.verdict, Verdict::kFits);
  const PlanAnswer whole = plan(*question, {}, serial_help());
  ASSERT_FALSE(whole.rows.empty());
  ASSERT_TRUE(whole.rule_of_thumb);
  EXPECT_EQ(cut.rows.front().layout, whole.rule_of_thumb->row.layout);
  EXPECT_LE(whole.rows.front().time.step, cut.rows.front().time.step);
}

}  // namespace
}  // namespace steelyard
