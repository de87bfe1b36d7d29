// Every file of data/optimizers and data/precisions is read, named, explained and sourced.
#include <gtest/gtest.h>

#include <set>

#include "data/embedded.h"
#include "recipe/optimizer.h"
#include "recipe/precision.h"

namespace steelyard {
namespace {

template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

TEST(RecipeData, OptimizersInTheOrderOfTheList) {
  const std::vector<std::string> expected = {
      "sgd",         "momentum",         "adam",      "adamw",  "adamw-8bit",
      "adamw-paged", "adamw-paged-8bit", "adafactor", "lion",   "lion-8bit",
      "muon",        "shampoo",          "soap",      "galore", "adam-mini",
      "sophia",      "apollo",           "lomo"};
  EXPECT_EQ(names_of(optimizers()), expected);
}

TEST(RecipeData, PrecisionsInTheOrderOfTheList) {
  const std::vector<std::string> expected = {
      "fp32",        "tf32",          "fp16-mixed",    "bf16-mixed",  "bf16-mixed-fp32-gradients",
      "bf16-pure",   "bf16-autocast", "fp16-autocast", "fp8-delayed", "fp8-tensorwise",
      "fp8-rowwise", "fp8-blockwise", "mxfp8",         "fp8-nanotron"};
  EXPECT_EQ(names_of(precisions()), expected);
}

TEST(RecipeData, EveryOptimizerIsExplainedAndSourced) {
  for (const Optimizer& optimizer : optimizers()) {
    EXPECT_FALSE(optimizer.source.empty()) << optimizer.name;
    EXPECT_FALSE(optimizer.description.empty()) << optimizer.name;
    std::set<std::string> names;
    for (const OptimizerSlot& slot : optimizer.slots) {
      EXPECT_FALSE(slot.reason.empty()) << optimizer.name << ' ' << slot.name;
      EXPECT_TRUE(names.insert(slot.name).second) << optimizer.name << ' ' << slot.name;
      EXPECT_GT(slot.count, 0) << optimizer.name << ' ' << slot.name;
      const bool low_rank =
          slot.extent == SlotExtent::kLowRank || slot.extent == SlotExtent::kProjector;
      EXPECT_TRUE(!low_rank || optimizer.rank > 0) << optimizer.name << ' ' << slot.name;
    }
    EXPECT_TRUE(optimizer.only_form.empty() || optimizer.only_form == "fused" ||
                optimizer.only_form == "loop")
        << optimizer.name;
  }
}

TEST(RecipeData, EveryPrecisionIsExplainedAndSourced) {
  for (const Precision& precision : precisions()) {
    EXPECT_FALSE(precision.source.empty()) << precision.name;
    EXPECT_FALSE(precision.description.empty()) << precision.name;
    const bool narrow = bits_of(precision.compute) == 8;
    EXPECT_EQ(narrow, !precision.float8_recipe.empty()) << precision.name;
    // What is not weighed is said.
    EXPECT_EQ(narrow, !precision.weighed.empty()) << precision.name;
  }
}

TEST(RecipeData, FoundByNameAsListed) {
  for (const Optimizer& optimizer : optimizers()) {
    const Optimizer* found = find_optimizer(optimizer.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found, find_optimizer(optimizer.name));
    EXPECT_EQ(found->slots.size(), optimizer.slots.size());
  }
  for (const Precision& precision : precisions())
    ASSERT_NE(find_precision(precision.name), nullptr);
  EXPECT_EQ(optimizers().size(), embedded_files_in("optimizers").size());
  EXPECT_EQ(precisions().size(), embedded_files_in("precisions").size());
  for (const char* name : {"", "adamx", "../runtime", "/adamw", "adamw.json", "AdamW "}) {
    EXPECT_EQ(find_optimizer(name), nullptr) << name;
    EXPECT_EQ(find_precision(name), nullptr) << name;
  }
}

TEST(RecipeData, StepTemporariesOfAdam) {
  const Optimizer& adamw = *find_optimizer("adamw");
  EXPECT_EQ(adamw.foreach_list_of_second_moment, 1);
  EXPECT_EQ(adamw.loop_largest_tensor, 2);
  EXPECT_TRUE(adamw.step_on_device_when_fused);
  EXPECT_EQ(find_optimizer("adamw-8bit")->only_form, "fused");
  EXPECT_FALSE(find_optimizer("adamw-8bit")->keeps_master);
  EXPECT_TRUE(find_optimizer("lomo")->fused_into_backward);
}

TEST(RecipeData, EightBitCopiesOfWeights) {
  EXPECT_EQ(find_precision("fp8-delayed")->float8_copy_hopper, 2);
  EXPECT_EQ(find_precision("fp8-delayed")->float8_copy_blackwell, 1);
  EXPECT_EQ(find_precision("fp8-blockwise")->float8_copy_hopper, 2 + 8.0 / 16384);
  EXPECT_EQ(find_precision("mxfp8")->float8_copy_blackwell, 2.0625);
  EXPECT_EQ(find_precision("bf16-mixed")->float8_copy_hopper, 0);
}

}  // namespace
}  // namespace steelyard
