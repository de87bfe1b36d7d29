#include "formats/launch/axolotl_precision.h"

namespace steelyard {

// resolve_dtype (utils/config/__init__.py): bf16 and bfloat16 load 16 bits of weights, fp16, float16 and a base of 8 bits others,
// whatever mixed precision does with them.
void read_axolotl_precision(ConfigReader& reading, Launch& launch) {
  const Value& document = reading.theirs();
  const auto set = [](Value& value, const char* word, const Value& at) {
    value = Value::string(word);
    value.set_mark(at.mark());
  };
  const Value* brain = reading.take("bf16");
  const Value* half = reading.on("fp16");
  const Value* pure = reading.on("bfloat16");
  const Value* pure_half = reading.on("float16");
  reading.on("float32");
  const bool says_auto = brain != nullptr && word_of(*brain) == "auto";
  const bool by_default = brain == nullptr && half == nullptr && pure == nullptr &&
                          pure_half == nullptr && document.find("float32") == nullptr;
  const bool mixes = (brain != nullptr && !says_auto && truth_of(*brain).value_or(true)) ||
                     (says_auto && half == nullptr) || by_default;
  const Value& at = brain != nullptr ? *brain : document;
  if (mixes) set(launch.mixed, "bf16", at);
  if (!mixes && half != nullptr) set(launch.mixed, "fp16", *half);
  if (!mixes && pure_half != nullptr) set(launch.load, "float16", *pure_half);
  if (pure != nullptr) set(launch.load, "bfloat16", *pure);
  // Beside an adapter autocast computes, whatever the frozen weights are.
  if (!mixes || reading.has("adapter.method")) return;
  set(launch.load, "bfloat16", at);
  const Value* engine = reading.said("engine");
  // Its own fully_shard does not widen what was loaded (monkeypatch/accelerate/fsdp2.py); Accelerate's FSDP1 does.
  if (engine != nullptr && word_of(*engine) == "fsdp2")
    reading.say("training.precision", "bf16-pure", at);
}

// Without flash attention or Cut Cross Entropy a model that is trained whole keeps these in fp32 (loaders/model.py,
// _configure_embedding_dtypes); FSDP and DeepSpeed give all of it one type.
void warn_of_wide_ends(ConfigReader& reading, const Launch& launch) {
  const Value* engine = reading.said("engine");
  if (engine != nullptr || reading.has("adapter.method") || launch.load.is_null()) return;
  const Value* attention = reading.theirs().find("attn_implementation");
  const std::string kernel = attention == nullptr ? "" : word_of(*attention);
  const Value* said = reading.said("training.attention");
  const bool casts = (!kernel.empty() && kernel != "eager" && kernel != "sdpa") ||
                     (said != nullptr && word_of(*said) != "eager");
  const Value* loss = reading.said("training.loss");
  if (casts || (loss != nullptr && word_of(*loss) == "cut")) return;
  reading.warn(launch.load, "the embedding, the head and norms are trained in fp32",
               "weighed in bf16, which is less",
               "attn_implementation: flash_attention_2 has them in 16 bits");
}

}  // namespace steelyard
