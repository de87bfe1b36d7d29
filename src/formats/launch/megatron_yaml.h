// Megatron-LM's --yaml-cfg, which stands for all flags: megatron/training/yaml_arguments.py.
//
//   language_model: {num_layers: 24, hidden_size: 1024, activation_func: swiglu, num_moe_experts: null}
//   model_parallel: {tensor_model_parallel_size: 2, bf16: true}
//   micro_batch_size: 2
#pragma once

#include "document/value.h"

namespace steelyard {

bool is_megatron_yaml(const Value& document);
// The same as flags of Megatron-LM, each where the document says it.
Value flags_of_megatron_yaml(const Value& document);

}  // namespace steelyard
