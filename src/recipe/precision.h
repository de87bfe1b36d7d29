// How wide: the types of parameters, gradients, master weights and of the arithmetic.
//
//   name                        parameters  compute  gradients  accumulated  reduction  master
//   bf16-mixed                  bf16        bf16     bf16       -            bf16       fp32
//   bf16-mixed-fp32-gradients   bf16        bf16     bf16       fp32         fp32       fp32
//   bf16-autocast               fp32        bf16     fp32       -            fp32       -
//
// Engines read these in their own way (FSDP2 stores the fp32 copy as the sharded parameter); see engine/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quantity/element_type.h"

namespace steelyard {

struct Precision {
  std::string name;
  std::string description;
  ElementType parameters = ElementType::kFloat32;
  ElementType compute = ElementType::kFloat32;
  ElementType gradients = ElementType::kFloat32;
  std::optional<ElementType> accumulated_gradients;  // a second, persistent set (figure 3 of the mission: 20 bytes)
  ElementType reduction = ElementType::kFloat32;
  std::optional<ElementType> master;
  bool autocast = false;       // torch.autocast: fp32 weights are cast for each matrix product, casts are kept
  bool loss_scaling = false;   // fp16
  std::string float8_recipe;   // empty, or delayed, tensorwise, rowwise, blockwise, mxfp8
  std::string source;
};

// All known precisions, from data/precisions; the order is that of `steelyard list precisions`.
const std::vector<Precision>& precisions();
const Precision* find_precision(std::string_view name);

}  // namespace steelyard
