// What the two halves of ms-swift share: `swift sft` trains with Hugging Face's Trainer, `megatron sft` with Megatron-core.
//
//   NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size 4 --max_length 8192
#pragma once

#include <string>
#include <string_view>

#include "formats/launch/formats.h"

namespace steelyard {

// sft, pt or rlhf with --rlhf_type: what is trained. `command` is empty where a file alone is read.
void read_swift_method(ConfigReader& reading, std::string_view command);
// NNODES times NPROC_PER_NODE of the environment, or of the file's ENV; nothing where a launcher counted already.
void read_swift_devices(ConfigReader& reading, Launch& launch);
// --lora_rank, --target_modules, --modules_to_save ... of an adapter that `tuner` asks for.
void read_swift_adapter(ConfigReader& reading, const Value* tuner, bool megatron);
// --model, or the names that it had before version 3.
void read_swift_model(ConfigReader& reading);

// `megatron sft`: its flags are Megatron-LM's, with defaults of their own.
// `from_environment`: it starts the processes itself, and no launcher before it.
void read_swift_megatron(const Value& document, Launch& launch, std::string_view command,
                         bool from_environment);

}  // namespace steelyard
