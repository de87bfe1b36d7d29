// What stacks on Hugging Face's Trainer have in common: optimizers, precision, models, adapters.
//
//   optim: paged_adamw_8bit        optimizer = "adamw-paged-8bit"
//   bf16: true                     precision = "bf16-autocast" under DDP, "bf16-mixed" under FSDP; so for fp16
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/launch/formats.h"

namespace steelyard {

// `optim` in Hugging Face's names, and back.
void read_optim(ConfigReader& reading, std::string_view path);
void write_optim(ConfigWriter& writing, std::string_view path);

// A hub id, a path or a preset: said as the preset's name where it is one.
void say_model(ConfigReader& reading, const Value& value);
// The hub id or path of the run's model; a problem when it is neither.
std::string model_written(ConfigWriter& writing);
// Its config.json, of a preset or a table; null when only a path is known.
Value model_config(const Value& run);

void read_attention(ConfigReader& reading, std::string_view path);
// Whose kernels pass keys and values between the ranks of a divided sequence.
enum class ContextBy : std::uint8_t { kOwn, kSdpa };
void write_attention(ConfigWriter& writing, std::string_view path,
                     ContextBy context = ContextBy::kOwn);
void read_clip(ConfigReader& reading, std::string_view path, bool clips_by_default);
// The norm that the run clips to, 0 when it does not; nothing when it does not say.
std::optional<double> clip_norm(ConfigWriter& writing);
void write_clip(ConfigWriter& writing, std::string_view path);

// What mixed precision and load type the run's precision means for its engine.
struct HalfPrecision {
  std::string mixed;  // "bf16", "fp16", "no"
  std::string load;   // "float32", "bfloat16"
};
HalfPrecision half_precision(ConfigWriter& writing);

// Names of targets: "all-linear" in PEFT.
void write_targets(ConfigWriter& writing, std::string_view path, std::string_view all);
void read_targets(ConfigReader& reading, std::string_view path, std::string_view all);

// What PEFT decides by itself: adapters in fp32, and what is upcast beside a quantised base.
void take_peft_defaults(ConfigWriter& writing);
// And what TRL does beside it: adapters beside weights of few bits are bf16.
void take_trl_defaults(ConfigWriter& writing);

// torch.compile's modes that replay CUDA graphs: a warning, and the mode stays unread.
void warn_of_compile_mode(ConfigReader& reading, std::string_view path);

// `deepspeed: file.json` or a mapping.
void read_deepspeed_key(ConfigReader& reading, Launch& launch, std::string_view path);

}  // namespace steelyard
