#include "formats/launch/hugging_face.h"

#include <fmt/format.h>

#include <algorithm>

#include "document/read.h"
#include "model/catalogue.h"
#include "model/name_expression.h"
#include "model/stored_quantisation.h"

namespace steelyard {
namespace {

// transformers.training_args.OptimizerNames; the form of torch's own optimizers stands behind the slash.
constexpr std::string_view kOptim =
    "adamw_torch_fused=adamw/fused|adamw_torch=adamw/foreach|adamw_hf=adamw/loop|"
    "adamw_8bit=adamw-8bit/|adamw_bnb_8bit=adamw-8bit/|adamw_torch_8bit=adamw-8bit/"
    "|ao_adamw_8bit=adamw-8bit/|paged_adamw_32bit=adamw-paged/|"
    "paged_adamw=adamw-paged/|paged_adamw_8bit=adamw-paged-8bit/|adafactor=adafactor/|"
    "sgd=sgd/foreach|lion_32bit=lion/|lion=lion/|lion_8bit=lion-8bit/|galore_adamw=galore/|"
    "apollo_adamw=apollo/|lomo=lomo/|muon=muon/";

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

}  // namespace

void warn_of_compile_mode(ConfigReader& reading, std::string_view path) {
  const Value* mode = reading.theirs().at(path);
  if (mode == nullptr) return;
  const std::string word = word_of(*mode);
  if (word == "reduce-overhead" || word == "max-autotune")
    reading.warn(*mode, fmt::format("{} replays CUDA graphs", word),
                 "weighed as compiled alone: without their pools, and with the host's time",
                 "the modes default and max-autotune-no-cudagraphs have none");
}

void read_optim(ConfigReader& reading, std::string_view path) {
  const Value* value = reading.take(path);
  if (value == nullptr) return;
  const std::string name = lower(word_of(*value));
  const auto ours = ours_of(kOptim, name);
  if (!ours)
    return reading.unweighed(*value, fmt::format("{} {}", path, name),
                             "the states of this optimizer are not known here");
  const std::size_t slash = ours->find('/');
  reading.say("training.optimizer", ours->substr(0, slash), *value);
  if (slash + 1 < ours->size())
    reading.say("training.optimizer_form", ours->substr(slash + 1), *value);
}

void write_optim(ConfigWriter& writing, std::string_view path) {
  if (writing.look("training.optimizer") == nullptr) return;
  const std::string optimizer = writing.word("training.optimizer");
  const std::string form = writing.word("training.optimizer_form");
  std::optional<std::string> name;
  if (!form.empty()) name = theirs_of(kOptim, optimizer + "/" + form);
  if (!name) name = theirs_of(kOptim, optimizer + "/");
  if (!name) name = theirs_of(kOptim, optimizer + "/fused");
  if (!name)
    return writing.refuse("training.optimizer",
                          fmt::format("no optim of that name: {}", optimizer));
  writing.put(path, *name, "what is kept for each parameter");
}

void say_model(ConfigReader& reading, const Value& value) {
  const std::string name = word_of(value);
  // Its weights have few bits, which the preset's name would not say.
  if (quantisation_in_name(name)) return reading.say("model", name, value);
  if (const auto preset = preset_of_hub_id(name)) return reading.say("model", *preset, value);
  if (find_preset(name)) return reading.say("model", name, value);
  const bool path = name.starts_with("/") || name.starts_with("./") || name.starts_with("../") ||
                    name.find("${") != std::string::npos;
  if (!path)
    if (const auto like = preset_like(name)) {
      reading.say("model", std::string(*like), value);
      reading.into().unsaid.push_back(
          {"model", std::string(*like),
           fmt::format("{} is taken to have the sizes of this preset", name)});
      return;
    }
  reading.say("model", name, value);
}

Value model_config(const Value& run) {
  const Value* model = run.find("model");
  if (model == nullptr) return {};
  if (model->is_table()) return *model;
  const auto preset = find_preset(word_of(*model));
  if (preset) return preset->config;
  if (const auto name = preset_of_hub_id(word_of(*model)))
    if (const auto other = find_preset(*name)) return other->config;
  return {};
}

std::string model_written(ConfigWriter& writing) {
  const Value* model = writing.take("model");
  if (model == nullptr) return "";
  if (!model->is_string()) {
    writing.refuse("model", "a model in the run file itself has no name there",
                   "write it as config.json in a folder, and name the folder");
    return "";
  }
  const auto preset = find_preset(model->as_string());
  if (!preset) return model->as_string();
  return preset->hub_id.empty() ? preset->name : preset->hub_id;
}

void read_attention(ConfigReader& reading, std::string_view path) {
  const Value* value = reading.take(path);
  if (value == nullptr) return;
  const std::string name = lower(word_of(*value));
  if (name == "eager" || name == "disabled")
    return reading.say("training.attention", "eager", *value);
  if (name.starts_with("flash") || name == "fa2" || name == "fa3")
    return reading.say("training.attention", "flash", *value);
  // sdpa takes the smallest kernel that runs, as an absent key does here.
  if (name == "sdpa" || name == "auto") return;
  if (name == "xformers") return reading.say("training.attention", "efficient", *value);
  reading.warn(*value, fmt::format("{}: \"{}\" is not known", path, name),
               "read as the smallest kernel that runs");
}

void write_attention(ConfigWriter& writing, std::string_view path, ContextBy context) {
  const std::string attention = writing.word("training.attention");
  if (attention.empty()) return;
  // Trainer divides sequences with SDPA attention alone (transformers 5, trainer.py, _prepare_context_parallel_inputs).
  const bool divided = context == ContextBy::kSdpa &&
                       writing.look_count("parallel.context", 1) > 1 &&
                       writing.look_word("parallel.context_method") != "ulysses" &&
                       writing.look_word("engine") != "deepspeed";
  if (divided && attention == "eager")
    writing.refuse("training.attention", "Trainer divides sequences with SDPA attention alone",
                   "--attention flash");
  writing.put(
      path,
      divided                ? "sdpa"
      : attention == "flash" ? "flash_attention_2"
      : attention == "eager" ? "eager"
                             : "sdpa",
      divided ? "its kernels pass keys and values between the ranks" : "the attention kernel");
}

void read_clip(ConfigReader& reading, std::string_view path, bool clips_by_default) {
  const Value* value = reading.take(path);
  if (value == nullptr || word_of(*value) == "auto") {
    if (clips_by_default)
      reading.take_default("training.gradient_clip", Value::number(1.0),
                           fmt::format("{} clips by 1.0", reading.format()));
    return;
  }
  const Value number = value->is_string() ? typed_value(value->as_string()) : *value;
  if (!number.is_number())
    return reading.refuse(*value, fmt::format("{} is not a number", path), "expected a number");
  if (number.as_number() <= 0)
    reading.say("training.gradient_clip", Value::boolean(false), *value);
  else
    reading.say("training.gradient_clip", Value::number(number.as_number()), *value);
}

std::optional<double> clip_norm(ConfigWriter& writing) {
  const Value* clip = writing.take("training.gradient_clip");
  if (clip == nullptr) return std::nullopt;
  if (clip->is_bool()) return clip->as_bool() ? 1.0 : 0.0;
  return clip->is_number() ? clip->as_number() : 0.0;
}

void write_clip(ConfigWriter& writing, std::string_view path) {
  if (const auto norm = clip_norm(writing))
    writing.put(path, Value::number(*norm), "gradients are clipped to this norm; 0: not");
}

HalfPrecision half_precision(ConfigWriter& writing) {
  const std::string precision = writing.word("training.precision", "fp32");
  const std::string engine = writing.look_word("engine");
  const bool whole = engine == "ddp" || engine.empty();
  if (precision == "fp32" || precision == "tf32") return {"no", "float32"};
  if (precision == "bf16-pure") return {"no", "bfloat16"};
  if (precision == "bf16-autocast") return {"bf16", "float32"};
  if (precision == "fp16-autocast" && whole) return {"fp16", "float32"};
  if (precision == "bf16-mixed" && !whole) return {"bf16", "float32"};
  if (precision == "fp16-mixed" && !whole) return {"fp16", "float32"};
  if (precision == "bf16-mixed-fp32-gradients" && engine == "deepspeed") return {"bf16", "float32"};
  writing.refuse("training.precision",
                 fmt::format("a Trainer with {} has no precision {}",
                             engine.empty() ? "ddp" : engine, precision),
                 whole ? "bf16-autocast, fp16-autocast, bf16-pure and fp32 are what it has" : "");
  return {"no", "float32"};
}

void read_targets(ConfigReader& reading, std::string_view path, std::string_view all) {
  const Value* value = reading.take(path);
  if (value == nullptr) return;
  if (value->is_string() && (value->as_string() == all || value->as_string() == "all-linear" ||
                             value->as_string() == "all"))
    return reading.say("adapter.target_modules", "all-linear", *value);
  // A string is one regular expression to PEFT; names and commas alone are a list of somebody's own parser.
  if (value->is_string() && is_name_expression(value->as_string()))
    return reading.say("adapter.target_modules", *value, *value);
  Value list = Value::array();
  if (value->is_array()) {
    list = *value;
  } else {
    std::string_view text = value->is_string() ? std::string_view(value->as_string()) : "";
    while (!text.empty()) {
      const std::size_t end = std::min(text.find(','), text.size());
      std::string_view item = text.substr(0, end);
      while (item.starts_with(" ")) item.remove_prefix(1);
      if (!item.empty()) list.items().push_back(Value::string(std::string(item)));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  if (list.items().size() == 1 && word_of(list.items().front()) == "all-linear")
    return reading.say("adapter.target_modules", "all-linear", *value);
  reading.say("adapter.target_modules", std::move(list), *value);
}

void write_targets(ConfigWriter& writing, std::string_view path, std::string_view all) {
  const Value* targets = writing.take("adapter.target_modules");
  if (targets == nullptr) return;
  if (targets->is_string() && targets->as_string() == "all-linear")
    writing.put(path, all, "modules that get an adapter");
  else if (targets->is_string() && !is_name_expression(targets->as_string()))
    writing.put(path, Value::array({*targets}), "modules that get an adapter");
  else
    writing.put(path, *targets, "modules that get an adapter");
}

void take_peft_defaults(ConfigWriter& writing) {
  if (writing.look_word("adapter.type") == "fp32") writing.take("adapter.type");
  writing.take("adapter.upcast");
}

void take_trl_defaults(ConfigWriter& writing) {
  const std::string base = writing.look_word("adapter.base");
  const bool few = base == "nf4" || base == "int8";
  if (few && writing.look_word("adapter.type") == "bf16") writing.take("adapter.type");
  take_peft_defaults(writing);
}

void read_deepspeed_key(ConfigReader& reading, Launch& launch, std::string_view path) {
  const Value* value = reading.take(path);
  if (value == nullptr || value->is_bool()) return;
  if (value->is_table()) return read_deepspeed(*value, launch);
  const auto problems = static_cast<std::ptrdiff_t>(launch.into.problems.size());
  const auto text = named_file(launch, *value);
  if (!text) {
    // What the file says is not known; who runs is, and the rest is read.
    launch.into.problems.erase(launch.into.problems.begin() + problems, launch.into.problems.end());
    reading.say("engine", "deepspeed", *value);
    reading.lacks("parallel.zero_stage",
                  fmt::format("{} says it, and is not here", word_of(*value)));
    return reading.warn(*value, fmt::format("cannot read {}", word_of(*value)),
                        "ZeRO's stage, offload and precision stand in it, and are not known",
                        "--zero-stage and --precision say them, or give the file");
  }
  {
    ReadValue document = read_json(
        text->as_string(), text->mark().source ? text->mark().source->name : word_of(*value));
    if (!document) {
      for (Diagnostic& problem : document.error())
        launch.into.problems.push_back(std::move(problem));
      return;
    }
    if (!is_too_large(*document, launch.into)) read_deepspeed(*document, launch);
  }
}

}  // namespace steelyard
