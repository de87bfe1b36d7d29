#include "report/run_file_text.h"

#include <gtest/gtest.h>

#include "document/read.h"

namespace steelyard {
namespace {

constexpr std::string_view kRun =
    "# one node\n"
    "model = \"llama-3.1-8b\"  # the preset\n"
    "\n"
    "[training]\n"
    "micro_batch = 1    # each device\n"
    "precision = \"bf16-mixed\"\n"
    "\n"
    "[parallel]\n"
    "data = 8\n";

std::string edited(const std::vector<KeyEdit>& edits) {
  const ReadValue before = read_toml(kRun, "run.toml");
  return edited_run_file(kRun, *before, edits);
}

TEST(EditedRunFile, ChangesOneValueAndKeepsTheRest) {
  std::string expected(kRun);
  expected.replace(expected.find("micro_batch = 1"), 15, "micro_batch = 2");
  EXPECT_EQ(edited({{"training.micro_batch", Value::integer(2)}}), expected);
}

TEST(EditedRunFile, ChangesATextWithItsQuotes) {
  std::string expected(kRun);
  expected.replace(expected.find("bf16-mixed"), 10, "fp32");
  EXPECT_EQ(edited({{"training.precision", Value::string("fp32")}}), expected);
}

TEST(EditedRunFile, TakesTheLastWordOfAKey) {
  std::string expected(kRun);
  expected.replace(expected.find("micro_batch = 1"), 15, "micro_batch = 128");
  expected.insert(expected.find("\n[parallel]"), "loss = \"chunked\"\n");
  EXPECT_EQ(edited({{"training.micro_batch", Value::integer(64)},
                    {"training.loss", Value::string("fused")},
                    {"training.micro_batch", Value::integer(128)},
                    {"training.loss", Value::string("chunked")}}),
            expected);
}

TEST(EditedRunFile, PutsANewKeyAtTheEndOfItsSection) {
  std::string expected(kRun);
  expected.insert(expected.find("\n[parallel]"), "loss = \"chunked\"\n");
  EXPECT_EQ(edited({{"training.loss", Value::string("chunked")}}), expected);
}

TEST(EditedRunFile, AddsASectionThatWasMissing) {
  EXPECT_EQ(edited({{"recompute.mode", Value::string("full")}}),
            std::string(kRun) + "\n[recompute]\nmode = \"full\"\n");
}

TEST(RunFileText, ReadsBackAsItself) {
  const ReadValue read = read_toml(kRun, "run.toml");
  const std::string text = run_file_text(*read);
  EXPECT_EQ(run_file_text(*read_toml(text, "again.toml")), text);
}

}  // namespace
}  // namespace steelyard
