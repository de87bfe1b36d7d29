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

}  // namespace
}  // namespace steelyard
