// In how many bits a checkpoint's own weights are stored, where that is fewer than 16: `quantization_config` of its config.json,
// or what its name says.
//
//   {"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_use_double_quant": true}    nf4, twice
//   unsloth/Meta-Llama-3.1-8B-bnb-4bit                                                           nf4, twice
//   TheBloke/Llama-2-7B-GPTQ                                                                     gptq: not weighed
//
// transformers loads such weights as they are, whatever the script asks for beside it (quantizers/auto.py,
// AutoHfQuantizer.merge_quantization_configs).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "document/value.h"
#include "quantity/element_type.h"

namespace steelyard {

struct StoredQuantisation {
  std::string method;  // "bitsandbytes", "gptq", "fp8", as the config says it
  std::optional<ElementType>
      type;            // of the matrices; absent: a method whose bytes are not known here
  bool twice = false;  // the constants of nf4 are quantised, too
  // Trained in 16 bits all the same: transformers makes those of it before it trains (gpt-oss, Mxfp4Config's dequantize).
  bool comes_back = false;
};

// Nothing where the weights have 16 bits or more.
std::optional<StoredQuantisation> stored_quantisation(const Value& config);
// Where the first word of a quantisation begins in a name ("llama-2-7b-gptq": 11); npos: there is none.
std::size_t quantisation_word_in(std::string_view name);
std::optional<StoredQuantisation> quantisation_in_name(std::string_view model);

}  // namespace steelyard
