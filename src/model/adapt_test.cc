#include "model/adapt.h"

#include <gtest/gtest.h>

#include "model/catalogue.h"

namespace steelyard {
namespace {

std::shared_ptr<const Architecture> preset(const char* name) {
  Diagnostics problems;
  return find_model(name, Place{}, problems)->architecture;
}

std::int64_t trained(const char* name, std::int64_t rank, std::vector<std::string> targets) {
  AdapterTerms terms;
  terms.rank = rank;
  terms.targets = std::move(targets);
  return count_parameters(*adapt(*preset(name), terms).architecture).trainable;
}

// What PEFT's print_trainable_parameters() says.
TEST(Adapt, CountsWhatIsTrained) {
  EXPECT_EQ(trained("llama-2-7b", 8, {"q_proj", "v_proj"}), 4'194'304);
  EXPECT_EQ(trained("llama-2-7b", 16, {"all-linear"}), 39'976'960);
  EXPECT_EQ(trained("llama-3-8b", 16, {"all-linear"}), 41'943'040);
}

TEST(Adapt, TargetsAreTheEndsOfNames) {
  EXPECT_EQ(trained("llama-2-7b", 8, {"self_attn.q_proj", "*v_proj"}), 4'194'304);
  AdapterTerms terms;
  terms.targets = {"proj", "q_proj"};
  EXPECT_EQ(adapt(*preset("llama-2-7b"), terms).unmatched, std::vector<std::string>{"proj"});
}

// Experts of transformers are tensors, not linear modules: attention alone is left.
TEST(Adapt, ExpertsAreNoLinearModules) {
  EXPECT_EQ(adaptable_modules(*preset("mixtral-8x7b")),
            (std::vector<std::string>{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                      "self_attn.o_proj"}));
}

Adapted beside_experts(const char* name, std::vector<std::string> targets) {
  AdapterTerms terms;
  terms.targets = std::move(targets);
  terms.expert_targets = expert_targets_of(preset(name)->family);
  return adapt(*preset(name), terms);
}

std::int64_t trained_beside_experts(const char* name, std::vector<std::string> targets) {
  return count_parameters(*beside_experts(name, std::move(targets)).architecture).trainable;
}

// Recorded of two layers (truth/records/lora-8-*.json): each layer of the kind has as many.
TEST(Adapt, StackedExpertsHaveAdaptersWherePeftKnowsTheirFormerNames) {
  EXPECT_EQ(trained_beside_experts("mixtral-8x7b", {"all-linear"}), 11'239'552 / 2 * 32);
  EXPECT_EQ(trained_beside_experts("mixtral-8x7b", {"w1", "w2", "w3"}), 10'747'904 / 2 * 32);
  EXPECT_EQ(trained_beside_experts("mixtral-8x7b", {"q_proj", "w2"}), 2'490'368 / 2 * 32);
  EXPECT_EQ(trained_beside_experts("mixtral-8x7b", {"q_proj", "gate"}), 196'736 / 2 * 32);
  EXPECT_EQ(trained_beside_experts("qwen3-30b-a3b", {"all-linear"}), 20'760'576 / 2 * 48);
}

// The names mean the experts alone then: one dense layer and 26 with shared experts have adapters beside attention.
TEST(Adapt, SharedExpertsAndDenseLayersLoseTheirsToTheRoutedOnes) {
  const std::int64_t attention = 131'584, experts = 6'750'208, router = 16'896;
  EXPECT_EQ(trained_beside_experts("deepseek-v2-lite", {"all-linear"}),
            27 * attention + 26 * (experts + router));
  EXPECT_EQ(trained_beside_experts("deepseek-v2-lite", {"gate_proj", "up_proj", "down_proj"}),
            26 * experts);
}

TEST(Adapt, GateAndUpOfExpertsAreOneTensor) {
  EXPECT_EQ(beside_experts("mixtral-8x7b", {"w1", "w2"}).half_of_experts, "w1");
  EXPECT_EQ(beside_experts("mixtral-8x7b", {"w1", "w3"}).half_of_experts, "");
  EXPECT_FALSE(beside_experts("mixtral-8x7b", {"q_proj"}).adapts_experts);
}

TEST(Adapt, PeftLeavesOtherFamiliesExpertsAlone) {
  for (const char* name : {"gpt-oss-20b", "qwen1.5-moe-a2.7b", "qwen3.5-35b-a3b", "llama-3-8b"})
    EXPECT_EQ(expert_targets_of(preset(name)->family), nullptr) << name;
}

}  // namespace
}  // namespace steelyard
