// "Largest" and "longest" are what weigh says: at the found value the run is sure to fit, and at the next it is not; and every
// command that asks the same question has the same answer.
#include "plan/extremes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "document/read.h"
#include "plan/furthest.h"
#include "plan/largest_model.h"

namespace steelyard {
namespace {

Value document_of(const std::string& text) {
  auto document = read_json(text, "problem");
  EXPECT_TRUE(document) << text;
  return document ? std::move(*document) : Value::table();
}

// Runs of which everything is said, so that a plan has one layout to choose from.
class Runs {
 public:
  explicit Runs(unsigned seed) : random_(seed) {}
  template <class... Choices>
  auto one_of(Choices... choices) {
    const std::vector<std::common_type_t<Choices...>> all = {choices...};
    return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random_)];
  }
  std::string next(const std::string& model) {
    struct Engine {
      const char* name;
      int stage;
    };
    const Engine engine = one_of(Engine{"ddp", 0}, Engine{"deepspeed", 1}, Engine{"deepspeed", 2},
                                 Engine{"deepspeed", 3}, Engine{"fsdp2", 3}, Engine{"fsdp1", 3});
    return fmt::format(
        R"({{"model": "{}", "engine": "{}", "cluster": {{"device": "{}", "devices": {}}},)"
        R"( "training": {{"sequence_length": {}, "micro_batch": 1, "gradient_accumulation": 1,)"
        R"( "loss": "plain", "optimizer_form": "fused"}},)"
        R"( "parallel": {{"zero_stage": {}, "replicate": 1, "tensor": 1, "context": 1, "pipeline": 1}},)"
        R"( "recompute": {{"mode": "{}"}}}})",
        model, engine.name, one_of("rtx-4090", "a100-sxm-40gb", "a100-sxm-80gb", "h100-sxm-80gb"),
        one_of(1, 2, 4, 8), one_of(1024, 2048, 4096), engine.stage, one_of("none", "full"));
  }

 private:
  std::mt19937 random_;
};

bool is_sure(const Value& run) {
  const ReadJob job = read_job(run);
  return job && is_sure_to_fit(predict(*job));
}

// Whether any layout of what a plan is asked is sure to fit, each weighed as a run of its own: a plan settles in what
// recipe a stack trains (its precision among it) where the run does not say it, so the bare run may be another one.
bool any_is_sure(const Value& run) {
  const auto question = question_of(run, serial_help());
  if (!question) return false;
  const Space space = space_of(*question);
  EXPECT_FALSE(space.empty());
  for (std::uint32_t number = 0; number < space.size(); ++number)
    if (is_sure(run_of(question->run, space.layout(number), space, question->target.model->layers)))
      return true;
  return false;
}

// The run that is answered, weighed as it is said, and what it is at another value.
void expect_weighed_alike(const ExtremeAnswer& answer, KeyId id, const Value& found,
                          const Value& next, const std::string& text) {
  const Value& row = answer.answers.front().row->run;
  EXPECT_TRUE(is_sure(row)) << text;
  EXPECT_TRUE(is_sure(with_key(row, id, found))) << text;
  EXPECT_FALSE(is_sure(with_key(row, id, next))) << text;
}

TEST(Extremes, TheLargestModelFitsAndTheNextDoesNot) {
  Runs runs(1);
  int found = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string text = runs.next("7B");
    const Value run = document_of(text);
    const auto answer = extreme_of(Wanted::kMostParameters, run, {}, serial_help());
    ASSERT_TRUE(answer) << text;
    EXPECT_FALSE(answer->unfinished);
    const auto at = [&](std::int64_t millions) {
      return with_key(run, KeyId::kModel, Value::string(size_words(millions)));
    };
    if (answer->answers.empty()) {
      EXPECT_FALSE(any_is_sure(at(rungs_of_parameters().front()))) << text;
      continue;
    }
    ++found;
    EXPECT_TRUE(any_is_sure(at(answer->answers.front().value))) << text;
    ASSERT_TRUE(answer->next) << text;
    EXPECT_FALSE(any_is_sure(at(*answer->next))) << text;
    expect_weighed_alike(*answer, KeyId::kModel,
                         Value::string(size_words(answer->answers.front().value)),
                         Value::string(size_words(*answer->next)), text);
    EXPECT_LE(*answer->next - answer->answers.front().value, *answer->next / 64 + 1);
  }
  EXPECT_GE(found, 6);
}

TEST(Extremes, TheLongestSequenceFitsAndTheNextDoesNot) {
  Runs runs(2);
  for (int i = 0; i < 6; ++i) {
    const std::string text = runs.next("llama-3.2-1b");
    const Value run = document_of(text);
    const auto answer = extreme_of(Wanted::kLongestSequence, run, {}, serial_help());
    ASSERT_TRUE(answer) << text;
    if (answer->answers.empty() || !answer->next) continue;
    const auto at = [&](std::int64_t length) {
      return with_key(run, KeyId::kSequenceLength, Value::integer(length));
    };
    EXPECT_TRUE(any_is_sure(at(answer->answers.front().value))) << text;
    EXPECT_FALSE(any_is_sure(at(*answer->next))) << text;
    expect_weighed_alike(*answer, KeyId::kSequenceLength,
                         Value::integer(answer->answers.front().value),
                         Value::integer(*answer->next), text);
  }
}

// In fp32 under autocast, as plan has DDP train, the states and buckets of 1.24 B parameters alone fill 24 GB.
TEST(Extremes, ThereIsNoMicroBatchWhereNoLayoutFits) {
  const Value run = document_of(
      R"({"model": "llama-3.2-1b", "engine": "ddp", "cluster": {"device": "rtx-4090", "devices": 2},)"
      R"( "training": {"sequence_length": 2048}})");
  const auto answer = extreme_of(Wanted::kLargestMicroBatch, run, {}, serial_help());
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->answers.empty());
  EXPECT_FALSE(any_is_sure(with_key(run, KeyId::kMicroBatch, Value::integer(1))));
}

// Open layouts: no single one of them is sure to fit at the next value.
TEST(Extremes, TheLargestMicroBatchIsThatOfSomeLayout) {
  const Value run = document_of(
      R"({"model": "llama-3.2-1b", "engine": "ddp", "cluster": {"device": "a100-sxm-40gb", "devices": 2},)"
      R"( "training": {"sequence_length": 2048}})");
  const auto answer = extreme_of(Wanted::kLargestMicroBatch, run, {}, serial_help());
  ASSERT_TRUE(answer);
  ASSERT_FALSE(answer->answers.empty());
  ASSERT_TRUE(answer->next);
  EXPECT_EQ(*answer->next, answer->answers.front().value + 1);
  EXPECT_TRUE(is_sure_to_fit(answer->answers.front().row->prediction));
}

TEST(Extremes, SweepAndPlanAgree) {
  const Value run = document_of(
      R"({"model": "7B", "engine": "deepspeed", "cluster": {"device": "a100-sxm-80gb", "devices": 8},)"
      R"( "training": {"sequence_length": 2048, "micro_batch": 1, "gradient_accumulation": 1,)"
      R"( "loss": "plain", "optimizer_form": "fused"}, "parallel": {"zero_stage": 3},)"
      R"( "recompute": {"mode": "none"}})");
  const auto weigh_by = [](Prediction (*by)(const Job&)) {
    return [by](const Value& asked) {
      Weighed weighed;
      ReadJob job = read_job(asked);
      if (!job) return weighed;
      weighed.prediction = by(*job);
      weighed.job = std::move(*job);
      return weighed;
    };
  };
  const LargestModelAnswer swept = largest_models(run, {8}, weigh_by(predict), weigh_by(estimate));
  ASSERT_TRUE(swept.problems.empty());
  const auto planned = extreme_of(Wanted::kMostParameters, run, {}, serial_help());
  ASSERT_TRUE(planned);
  ASSERT_FALSE(planned->answers.empty());
  EXPECT_EQ(swept.curves.back().points.front().size, size_words(planned->answers.front().value));
}

// Out of time it says so, and does not say that nothing fits.
TEST(Extremes, WithoutTimeItIsUnfinished) {
  SearchHelp help = serial_help();
  help.expired = [] { return true; };
  const Value run =
      document_of(R"({"model": "llama-3.2-1b", "cluster": {"device": "h100", "devices": 8}})");
  const auto answer = extreme_of(Wanted::kLongestSequence, run, {}, help);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->unfinished);
  EXPECT_TRUE(answer->answers.empty());
}

}  // namespace
}  // namespace steelyard
