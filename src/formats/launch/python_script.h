// A training script or notebook in Python: scanned for the well-known calls, never run.
//
//   model, tokenizer = FastLanguageModel.from_pretrained(model_name="unsloth/Llama-3.2-1B", max_seq_length=2048,
//                                                        load_in_4bit=True)
//   model = FastLanguageModel.get_peft_model(model, r=16, target_modules=["q_proj", "v_proj"])
//   trainer = SFTTrainer(model=model, args=SFTConfig(per_device_train_batch_size=2, bf16=True))
//
// is read as Trainer's arguments are. What is computed there is asked for.
#pragma once

#include <string_view>

#include "formats/launch/formats.h"

namespace steelyard {

bool is_python_file(std::string_view name);
// Whether it has one of those calls: a trainer's arguments, or a model that is loaded to be trained.
bool is_training_script(std::string_view text, std::string_view name);
void read_python_script(std::string_view text, std::string_view name, Launch& launch);

}  // namespace steelyard
