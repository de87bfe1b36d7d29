#include "formats/launch/megatron_precision.h"

#include <fmt/format.h>

namespace steelyard {
namespace {

constexpr std::string_view kRecipes =
    "delayed=fp8-delayed|tensorwise=fp8-tensorwise|blockwise=fp8-blockwise|mxfp8=mxfp8";

// --use-precision-aware-optimizer: fp32 where a flag is absent.
constexpr Row kAware[] = {
    {"main_params_dtype", "types.master", "fp32=fp32|fp16=fp16", "", "fp32"},
    {"exp_avg_dtype", "types.first_moment", "fp32=fp32|bf16=bf16|fp16=fp16|fp8=fp8", "", "fp32"},
    {"exp_avg_sq_dtype", "types.second_moment", "fp32=fp32|bf16=bf16|fp16=fp16|fp8=fp8", "",
     "fp32"},
};

}  // namespace

void read_megatron_precision(ConfigReader& reading) {
  const Value* brain = reading.on("bf16");
  const Value* half = reading.on("fp16");
  const Value* eight = reading.take("fp8_format");
  const Value* narrow = reading.on("grad_reduce_in_bf16");
  // validate_args: gradients are accumulated in fp32 unless the optimizer wants them in bf16.
  const Value* wanted = reading.take("main_grads_dtype");
  if (narrow == nullptr && wanted != nullptr && word_of(*wanted) == "bf16") narrow = wanted;
  const Value* single = reading.on("accumulate_allreduce_grads_in_fp32");
  if (eight != nullptr) {
    const std::string recipe = reading.word("fp8_recipe").value_or("delayed");
    reading.say("training.precision", ours_of(kRecipes, recipe).value_or("fp8-delayed"), *eight);
    if (const Value* gathered = reading.on("fp8_param_gather"))
      reading.say("types.parameters", "fp8", *gathered);
    if (narrow != nullptr) reading.say("types.gradients", "bf16", *narrow);
  } else if (brain != nullptr) {
    reading.say("training.precision", "bf16-mixed-fp32-gradients", *brain);
    if (narrow != nullptr) reading.say("types.gradients", "bf16", *narrow);
  } else if (half != nullptr) {
    reading.say("training.precision", "fp16-mixed", *half);
    if (single != nullptr)
      reading.refuse(*single, "fp16 with gradients accumulated in fp32",
                     "these types together are not weighed");
  } else {
    reading.take_default("training.precision", Value::string("fp32"),
                         "Megatron-LM computes in fp32 unless told");
  }
  if (reading.on("use_precision_aware_optimizer") == nullptr) return;
  reading.rows(kAware);
}

void write_megatron_precision(ConfigWriter& writing) {
  const std::string precision = writing.word("training.precision", "bf16-mixed-fp32-gradients");
  // Its gradients are accumulated in fp32 whatever mixed precision is called, unless types.gradients says otherwise.
  const bool narrow = writing.look_word("types.gradients") == "bf16";
  if (precision == "bf16-mixed-fp32-gradients" || precision == "bf16-mixed") {
    writing.put("bf16", Value::boolean(true));
    if (writing.word("types.gradients", "") == "bf16")
      writing.put("grad_reduce_in_bf16", Value::boolean(true), "gradients of 16 bits");
  } else if (precision == "fp16-mixed") {
    writing.put("fp16", Value::boolean(true));
  } else if (const auto recipe = theirs_of(kRecipes, precision)) {
    writing.put("bf16", Value::boolean(true));
    writing.put("fp8_format", "hybrid");
    writing.put("fp8_recipe", *recipe);
    if (writing.word("types.parameters", "") == "fp8")
      writing.put("fp8_param_gather", Value::boolean(true));
    if (writing.word("types.gradients", "") == "bf16")
      writing.put("grad_reduce_in_bf16", Value::boolean(true));
  } else if (precision != "fp32") {
    writing.refuse("training.precision", fmt::format("Megatron-LM has no precision {}", precision));
  }
  bool aware = false;
  for (const Row& row : kAware) aware = aware || writing.look(row.ours) != nullptr;
  if (!aware) return;
  writing.put("use_precision_aware_optimizer", Value::boolean(true),
              "types of what the optimizer keeps");
  if (narrow) writing.put("main_grads_dtype", "bf16");
  writing.rows(kAware);
}

}  // namespace steelyard
