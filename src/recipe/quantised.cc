#include "recipe/quantised.h"

namespace steelyard {
namespace {

constexpr std::int64_t kBlockOfBlocks = 256;  // its absmax, quantised by quantize_blockwise
constexpr std::int64_t kValuesOfEightBits = 256;

}  // namespace

std::vector<QuantisationConstants> quantisation_constants(ElementType stored,
                                                          bool double_quantisation) {
  constexpr ElementType kWide = ElementType::kFloat32;
  if (stored == ElementType::kInt8)
    return {{"scales of the rows", "quantised.row-scales", kWide, 0, true, 0}};
  if (stored != ElementType::kNormalFloat4) return {};
  const QuantisationConstants code{"values of the code", "quantised.code", kWide, 0, false,
                                   kValuesOfFourBits};
  if (!double_quantisation)
    return {{"largest values of the blocks", "quantised.block-constants", kWide, kQuantisedBlock,
             false, 0},
            code};
  const char* rule = "quantised.double-quantisation";
  return {
      {"largest values of the blocks, 8 bits", rule, ElementType::kInt8, kQuantisedBlock, false, 0},
      {"largest values of their blocks", rule, kWide, kQuantisedBlock * kBlockOfBlocks, false, 0},
      {"offset of the blocks' values", rule, kWide, 0, false, 1},
      {"values of the 8-bit code", rule, kWide, 0, false, kValuesOfEightBits},
      code};
}

std::vector<QuantisationConstants> quantisation_constants_of_torchao(ElementType weight) {
  const char* rule = "quantised.torchao-constants";
  return {{"scales of the blocks, 8 bits", rule, ElementType::kInt8, kQuantisedBlock, false, 0},
          {"scales of their blocks", rule, weight, kQuantisedBlock * kBlockOfBlocks, false, 0},
          {"mean of the scales", rule, weight, 0, false, 1},
          {"values of the code", rule, weight, 0, false, kValuesOfFourBits}};
}

}  // namespace steelyard
