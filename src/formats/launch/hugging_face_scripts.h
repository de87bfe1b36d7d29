// Scripts that are known by name and have dataclasses of their own beside TrainingArguments: QLoRA's, FastChat's, LLaVA's,
// LMFlow's, and PEFT's examples. Each says what its own flags and their defaults mean.
//
//   python qlora.py --model_name_or_path huggyllama/llama-7b --bf16          4 bits and an adapter of rank 64: its defaults
#pragma once

#include "formats/launch/programs.h"

namespace steelyard {

bool is_hugging_face_script(const ProgramCall& call);
bool read_hugging_face_script(const ProgramCall& call, Launch& launch);

// What a script trains by its name, with TRL's and others' spellings: "run_dpo" -> dpo. Said; a loss that is not known here is
// refused by the script's name.
void say_method_of_script(std::string_view name, const Value& program, Launch& launch);

// Flags that Trainer's reader left, of a program that is not known, and that say what is trained or in which bytes: refused by
// name, because a run without them is another.
void refuse_flags_of_others(Launch& launch);

}  // namespace steelyard
