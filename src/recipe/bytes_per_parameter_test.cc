// Figures 1 to 4 and 8 of the course that the program teaches: what one parameter costs.
#include "recipe/bytes_per_parameter.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

BytesPerParameter bytes(const char* optimizer, const char* precision) {
  return bytes_per_parameter(*find_optimizer(optimizer), *find_precision(precision));
}

TEST(BytesPerParameter, Figure1SinglePrecisionAdamIs16) {
  const auto b = bytes("adam", "fp32");
  EXPECT_EQ(b.parameters, 4);
  EXPECT_EQ(b.gradients, 4);
  EXPECT_EQ(b.master, 0);
  EXPECT_EQ(b.states, 8);
  EXPECT_EQ(b.total(), 16);
  EXPECT_EQ(bytes("adam", "tf32").total(), 16);
  EXPECT_EQ(bytes("adamw", "bf16-autocast").total(), 16);
}

TEST(BytesPerParameter, Figure2MixedPrecisionIs2And2And12) {
  const auto b = bytes("adamw", "bf16-mixed");
  EXPECT_EQ(b.parameters, 2);
  EXPECT_EQ(b.gradients, 2);
  EXPECT_EQ(b.master + b.states, 12);
  EXPECT_EQ(b.total(), 16);
  EXPECT_EQ(bytes("adamw", "fp16-mixed").total(), 16);
}

TEST(BytesPerParameter, Figure3AccumulatedGradientsMake20) {
  const auto b = bytes("adamw", "bf16-mixed-fp32-gradients");
  EXPECT_EQ(b.parameters, 2);
  EXPECT_EQ(b.gradients, 2);
  EXPECT_EQ(b.accumulated_gradients, 4);
  EXPECT_EQ(b.master, 4);
  EXPECT_EQ(b.states, 8);
  EXPECT_EQ(b.total(), 20);
}

TEST(BytesPerParameter, Figure4AnEightBitRecipeIsTen) {
  const auto b = bytes("adamw", "fp8-nanotron");
  EXPECT_EQ(b.parameters, 1);
  EXPECT_EQ(b.gradients, 1);
  EXPECT_EQ(b.accumulated_gradients, 4);
  EXPECT_EQ(b.master, 2);
  EXPECT_EQ(b.states, 2);
  EXPECT_EQ(b.total(), 10);
}

TEST(BytesPerParameter, Figure8ThreeBillionInBf16) {
  const auto b = bytes("adamw", "bf16-mixed");
  constexpr double kParameters = 3;  // billions, so that the answers are in GB
  EXPECT_EQ(kParameters * b.parameters, 6);
  EXPECT_EQ(kParameters * b.gradients, 6);
  EXPECT_EQ(kParameters * b.states, 24);
  EXPECT_EQ(kParameters * b.master, 12);
}

TEST(BytesPerParameter, PureBf16KeepsItsMomentsInBf16) {
  EXPECT_EQ(bytes("adamw", "bf16-pure").total(), 8);
  EXPECT_EQ(bytes("adamw", "bf16-pure").states, 4);
}

TEST(BytesPerParameter, OtherOptimizersOverTheSameWeights) {
  EXPECT_EQ(bytes("sgd", "fp32").total(), 8);
  EXPECT_EQ(bytes("momentum", "fp32").total(), 12);
  EXPECT_EQ(bytes("lion", "bf16-mixed").total(), 12);
  EXPECT_EQ(bytes("muon", "bf16-mixed").total(), 12);
  EXPECT_EQ(bytes("adamw-8bit", "bf16-mixed").states, 2.03125);
  EXPECT_EQ(bytes("adamw-8bit", "bf16-mixed").total(), 6.03125);
  EXPECT_EQ(bytes("lion-8bit", "bf16-mixed").states, 1.015625);
  EXPECT_EQ(bytes("adamw-paged", "bf16-mixed").states, 8);
  EXPECT_EQ(bytes("soap", "fp32").states, 24);
  EXPECT_EQ(bytes("sophia", "fp32").states, 8);
  EXPECT_EQ(bytes("lomo", "bf16-mixed").total(), 2);
}

TEST(BytesPerParameter, EveryPairHasANumber) {
  for (const Optimizer& optimizer : optimizers())
    for (const Precision& precision : precisions()) {
      const double total = bytes_per_parameter(optimizer, precision).total();
      EXPECT_GE(total, 1) << optimizer.name << ' ' << precision.name;
      EXPECT_LE(total, 40) << optimizer.name << ' ' << precision.name;
    }
}

}  // namespace
}  // namespace steelyard
