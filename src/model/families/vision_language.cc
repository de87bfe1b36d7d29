// The language models of Qwen2-VL, Qwen2.5-VL and Qwen3-VL: Qwen's decoders, whose positions have three axes.
#include "model/families/families.h"

namespace steelyard {

Architecture read_qwen2_vl(Config& config) {
  Architecture model = read_qwen2(config);
  model.positions_of_three_axes = true;
  return model;
}

Architecture read_qwen3_vl(Config& config) {
  Architecture model = read_qwen3(config);
  model.positions_of_three_axes = true;
  return model;
}

Architecture read_qwen3_vl_moe(Config& config) {
  Architecture model = read_qwen3_moe(config);
  model.positions_of_three_axes = true;
  return model;
}

}  // namespace steelyard
