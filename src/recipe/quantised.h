// What stands beside weights of 4 and 8 bits, so that they mean numbers (bitsandbytes functional.py, nn/modules.py).
//
//   nf4, a matrix of n weights           n/2 bytes
//     largest value of each 64           4 n/64            or, quantised once more: n/64 + 4 n/16384 + 4 + 1024
//     the sixteen values of the code     64
//   int8, [out, in]                      out·in bytes
//     scale of each row                  4 out
#pragma once

#include <cstdint>
#include <vector>

#include "quantity/element_type.h"

namespace steelyard {

constexpr std::int64_t kQuantisedBlock = 64;    // quantize_4bit, blocksize
constexpr std::int64_t kValuesOfFourBits = 16;  // get_4bit_type

// One tensor of constants: one for each `block` weights, or one for each row, or `count` of them.
struct QuantisationConstants {
  const char* name = "";
  const char* rule = "";
  ElementType type = ElementType::kFloat32;
  std::int64_t block = 0;
  bool by_row = false;
  std::int64_t count = 0;
};

std::vector<QuantisationConstants> quantisation_constants(ElementType stored,
                                                          bool double_quantisation);
// torchao's NF4Tensor: scales of the blocks in 8 bits, theirs in the weight's own 16 (torchao/dtypes/nf4tensor.py).
std::vector<QuantisationConstants> quantisation_constants_of_torchao(ElementType weight);

}  // namespace steelyard
