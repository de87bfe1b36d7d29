// How wide: the types of parameters, gradients, master weights and of the arithmetic.
//
//   name                        parameters  compute  gradients  accumulated  reduction  master
//   bf16-mixed                  bf16        bf16     bf16       -            bf16       fp32
//   bf16-mixed-fp32-gradients   bf16        bf16     bf16       fp32         fp32       fp32
//   bf16-autocast               fp32        bf16     fp32       -            fp32       -
//
// Engines read these in their own way (FSDP2 stores the fp32 copy as the sharded parameter).
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
  std::optional<ElementType> accumulated_gradients;  // a second, persistent set: 20 bytes in all
  ElementType reduction = ElementType::kFloat32;
  std::optional<ElementType> master;
  bool autocast = false;        // fp32 weights are cast for each matrix product, the casts are kept
  bool loss_scaling = false;    // fp16
  bool short_products = false;  // tf32: products of fp32 factors read 10 bits of their mantissa
  std::string float8_recipe;  // empty, or delayed, tensorwise, rowwise, blockwise, mxfp8, nanotron
  std::optional<ElementType> moments;  // narrower than what is stepped; absent: not narrower
  // Bytes of 8-bit copies for each weight of a matrix product, alive from its forward to its
  // backward, beside `parameters`. Hopper also keeps the transposed copy; Blackwell multiplies
  // without it. 0: no copies.
  double float8_copy_hopper = 0;
  double float8_copy_blackwell = 0;
  // The oldest device whose products these are; 0: any, or, of AMD's, none that is known.
  struct RunsFrom {
    int sm = 0,
        sm_below = 0;  // NVIDIA's compute capability times ten, and one that is too new; 0: none is
    int gfx = 0;       // AMD's, a hexadecimal number
    std::string reason, source;
  } runs_from;
  std::string weighed;  // what of this precision is weighed and what is not; empty: all of it
  std::string source;
};

// Products of 8-bit factors in code that keeps everything else in 16 bits (Transformer Engine, torchao).
inline bool multiplies_in_8_bits(const Precision& precision) {
  return !precision.float8_recipe.empty() && precision.float8_recipe != "nanotron";
}

// All known precisions, from data/precisions; the order is that of `steelyard list precisions`.
const std::vector<Precision>& precisions();
const Precision* find_precision(std::string_view name);

// What the optimizer updates: the master copy, where there is one and the optimizer uses it.
ElementType stepped_type(const Precision& precision, bool optimizer_keeps_master);
// The type of states whose slot names none: `moments`, else the stepped type. For state_tensors().
ElementType state_type(const Precision& precision, bool optimizer_keeps_master);

}  // namespace steelyard
