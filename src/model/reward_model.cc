#include "model/reward_model.h"

#include "model/modules.h"

namespace steelyard {

Architecture reward_model(const Architecture& decoder) {
  Architecture model = decoder;
  // The head's tensors are the last of their unit; what stands before them keeps its place.
  for (const int index : {decoder.head.bias_index, decoder.head.weight_index})
    if (index >= 0) model.head_parameters.erase(model.head_parameters.begin() + index);
  model.tied_head = false;
  model.final_softcap.reset();
  model.scaled_logits = false;
  model.prediction_layers = 0;
  model.head = add_linear(model.head_parameters, "score", Checked(model.hidden), 1,
                          {.role = TensorRole::kHead});
  return model;
}

}  // namespace steelyard
