// What the states of a model cost, before activations: the table that every course starts with.
//
//   7b   7.00 B parameters (a stated guess)
//
//   bytes for each parameter     weights  gradients  master  moments  sum     GB
//     fp32                             4          4       -        8   16    112
//     bf16-mixed                       2          2       4        8   16    112
//
//   on one device, GB   data ranks   ddp  zero 1  zero 2  zero 3
//                                8   112    38.5   26.25      14
//
// A rule of thumb, said as such: `weigh` counts tensors, buffers and activations instead.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "recipe/optimizer.h"
#include "recipe/precision.h"
#include "report/style.h"

namespace steelyard {

struct ModelStatesQuestion {
  std::string model;  // as written
  std::int64_t parameters = 0;
  bool guessed = false;
  const Precision* precision = nullptr;  // of the second table
  const Optimizer* optimizer = nullptr;
  std::int64_t tensor = 1, pipeline = 1;  // ranks that divide the model itself
  std::vector<std::int64_t> data_ranks;   // rows of the second table
};

std::string model_states_text(const ModelStatesQuestion& question, const Style& style);
nlohmann::ordered_json json_of(const ModelStatesQuestion& question);

}  // namespace steelyard
