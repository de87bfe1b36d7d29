// State bytes of each optimizer for three tensors, against numbers worked out by hand.
#include <gtest/gtest.h>

#include "recipe/optimizer.h"

namespace steelyard {
namespace {

ParameterTensor tensor(TensorRole role, std::vector<std::int64_t> shape,
                       std::int64_t head_width = 0) {
  ParameterTensor made;
  made.name = "weight";
  made.role = role;
  made.shape = std::move(shape);
  made.head_width = head_width;
  return made;
}

const ParameterTensor kQuery = tensor(TensorRole::kMatrix, {4096, 4096}, 128);
const ParameterTensor kEmbedding = tensor(TensorRole::kEmbedding, {128256, 4096});
const ParameterTensor kNorm = tensor(TensorRole::kNorm, {4096});

std::int64_t bytes(const char* name, const ParameterTensor& parameter,
                   const std::vector<std::int64_t>& shape,
                   ElementType stepped = ElementType::kFloat32) {
  Bytes total{};
  for (const StateTensor& state : state_tensors(*find_optimizer(name), parameter, shape, stepped))
    total += bytes_of(Elements(state.elements), state.type) * state.count;
  return total.value().value();
}

std::int64_t bytes(const char* name, const ParameterTensor& parameter) {
  return bytes(name, parameter, parameter.shape);
}

constexpr std::int64_t kSquare = 4096LL * 4096;
constexpr std::int64_t kTable = 128256LL * 4096;

struct Row {
  const char* optimizer;
  std::int64_t query, embedding, norm;
};

TEST(StateTensors, TheTable) {
  const Row rows[] = {
      {"sgd", 0, 0, 0},
      {"momentum", 4 * kSquare, 4 * kTable, 4 * 4096},
      {"adam", 8 * kSquare, 8 * kTable, 8 * 4096},
      {"adamw", 8 * kSquare, 8 * kTable, 8 * 4096},
      // Two bytes, and two fp32 scales for 256 elements; an embedding stays in 32 bits.
      {"adamw-8bit", 2 * kSquare + 8 * kSquare / 256, 8 * kTable, 2 * 4096 + 8 * 16},
      {"adamw-paged", 8 * kSquare, 8 * kTable, 8 * 4096},
      {"adamw-paged-8bit", 2 * kSquare + 8 * kSquare / 256, 8 * kTable, 2 * 4096 + 8 * 16},
      // and the root mean square of each
      {"adafactor", 4 * (4096 + 4096 + 1), 4 * (128256 + 4096 + 1), 4 * (4096 + 1)},
      {"lion", 4 * kSquare, 4 * kTable, 4 * 4096},
      {"lion-8bit", kSquare + 4 * kSquare / 256, 4 * kTable, 4096 + 4 * 16},
      {"muon", 4 * kSquare, 8 * kTable, 8 * 4096},
      // Moments, and for each side a gram matrix with its eigenvectors; 128,256 is above 10,000.
      {"soap", 8 * kSquare + 16 * kSquare, 8 * kTable + 8 * kSquare, 8 * 4096},
      // Blocks of 1,024: 16 for the square, 126 x 4 for the table (the last of 256 rows), 4 for the norm.
      {"shampoo", 8 * kSquare + 16 * (8 + 8) * 1024 * 1024,
       8 * kTable + 8LL * 4 * (125 * 1024 * 1024 + 256 * 256) + 8LL * 126 * 4 * 1024 * 1024,
       8 * 4096 + 8 * 4 * 1024 * 1024},
      {"galore", 8 * 128 * 4096 + 4 * 128 * 4096, 8 * kTable, 8 * 4096},
      {"apollo", 8 * 128 * 4096, 8 * kTable, 8 * 4096},
      // 32 heads of 128 rows; the embedding keeps its whole second moment, the norm one value.
      {"adam-mini", 4 * kSquare + 4 * 32, 8 * kTable, 4 * 4096 + 4},
      {"sophia", 8 * kSquare, 8 * kTable, 8 * 4096},
      {"lomo", 0, 0, 0},
  };
  EXPECT_EQ(std::size(rows), optimizers().size());
  for (const Row& row : rows) {
    EXPECT_EQ(bytes(row.optimizer, kQuery), row.query) << row.optimizer;
    EXPECT_EQ(bytes(row.optimizer, kEmbedding), row.embedding) << row.optimizer;
    EXPECT_EQ(bytes(row.optimizer, kNorm), row.norm) << row.optimizer;
  }
}

TEST(StateTensors, EightBitAdamIs203125BytesForEach100000) {
  EXPECT_EQ(bytes("adamw-8bit", kQuery) * 100'000 / kSquare, 203'125);
}

TEST(StateTensors, SmallTensorsStayIn32Bits) {
  const auto below = tensor(TensorRole::kNorm, {4095});
  EXPECT_EQ(bytes("adamw-8bit", below), 8 * 4095);
  EXPECT_EQ(bytes("lion-8bit", below), 4 * 4095);
  // A block that is not full still has its scale.
  EXPECT_EQ(bytes("adamw-8bit", tensor(TensorRole::kNorm, {4097})), 2 * 4097 + 8 * 17);
}

TEST(StateTensors, StatesFollowTheSteppedTypeUnlessTheySayTheirOwn) {
  EXPECT_EQ(bytes("adamw", kQuery, kQuery.shape, ElementType::kBFloat16), 4 * kSquare);
  EXPECT_EQ(bytes("adamw-paged", kQuery, kQuery.shape, ElementType::kBFloat16), 8 * kSquare);
  EXPECT_EQ(bytes("adafactor", kQuery, kQuery.shape, ElementType::kBFloat16), 4 * (8192 + 1));
}

TEST(StateTensors, OnlyLargeStatesArePaged) {
  const auto paged = [](const ParameterTensor& parameter) {
    std::int64_t elements = 0;
    for (const StateTensor& state : state_tensors(*find_optimizer("adamw-paged-8bit"), parameter,
                                                  parameter.shape, ElementType::kBFloat16))
      if (state.paged) elements += state.elements;
    return elements;
  };
  EXPECT_EQ(paged(kQuery), 2 * kSquare);  // the scales are not
  EXPECT_EQ(paged(kNorm), 0);
  EXPECT_EQ(paged(tensor(TensorRole::kMatrix, {100'000})), 200'000);
  EXPECT_EQ(paged(tensor(TensorRole::kMatrix, {99'999})), 0);
}

TEST(StateTensors, AShardCutByRowsIsAMatrix) {
  EXPECT_EQ(bytes("adamw", kQuery, {512, 4096}), kSquare);
  EXPECT_EQ(bytes("adafactor", kQuery, {512, 4096}), 4 * (512 + 4096 + 1));
  EXPECT_EQ(bytes("muon", kQuery, {512, 4096}), kSquare / 2);
}

TEST(StateTensors, AFlatShardHoldsItsShare) {
  const std::vector<std::int64_t> eighth = {kSquare / 8};
  EXPECT_EQ(bytes("adamw", kQuery, eighth), kSquare);
  EXPECT_EQ(bytes("muon", kQuery, eighth), kSquare / 2);
  EXPECT_EQ(bytes("soap", kQuery, eighth), 3 * kSquare);
  EXPECT_EQ(bytes("galore", kQuery, eighth), 12 * 128 * 4096 / 8);
  EXPECT_EQ(bytes("adam-mini", kQuery, eighth), kSquare / 2 + 4 * 4);
  // One dimension has no rows and columns to factor.
  EXPECT_EQ(bytes("adafactor", kQuery, eighth), 4 * (kSquare / 8 + 1));
}

TEST(StateTensors, FusedExpertsAreManyMatrices) {
  const auto experts = tensor(TensorRole::kMatrix, {8, 1024, 512});
  EXPECT_EQ(bytes("adafactor", experts), 4 * (8 * (1024 + 512) + 1));
  EXPECT_EQ(bytes("soap", experts), 8 * 8 * 1024 * 512 + 8 * 8 * (1024 * 1024 + 512 * 512));
  EXPECT_EQ(bytes("galore", experts), 8 * 8 * 128 * 1024 + 4 * 8 * 128 * 512);
}

TEST(StateTensors, ARankIsNeverMoreThanTheMatrixHas) {
  const auto narrow = tensor(TensorRole::kMatrix, {4096, 64});
  EXPECT_EQ(bytes("apollo", narrow), 8 * 64 * 4096);
}

TEST(StateTensors, HugeTensorsEndInAnOverflowError) {
  const auto huge = tensor(TensorRole::kMatrix, {4'000'000'000, 4'000'000'000});
  EXPECT_THROW(bytes("adamw", huge), OverflowError);
}

TEST(StateTensors, AnEmptyShardHasNoStates) {
  for (const Optimizer& optimizer : optimizers())
    EXPECT_EQ(bytes(optimizer.name.c_str(), kQuery, {0}), 0) << optimizer.name;
}

}  // namespace
}  // namespace steelyard
