// What LLaMA-Factory's two YAML formats and its flags have in common.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "formats/launch/formats.h"

namespace steelyard {

// Weights of `bits` under an adapter. `double_quantisation` is the path of their key for quantised constants.
void read_quantised_base(ConfigReader& reading, const std::string& bits, const Value& at,
                         std::string_view double_quantisation);
void refuse_freezing(ConfigReader& reading, const Value& at);

// The same keys as flags: `llamafactory-cli train --stage sft ...`, `src/train_bash.py --stage sft ...`. False: it trains nothing.
bool read_llama_factory_flags(const Value& program, std::span<const Value> words, Launch& launch);

}  // namespace steelyard
