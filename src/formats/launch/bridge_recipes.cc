// Megatron-Bridge's recipes by name, as its run_recipe.py starts them (scripts/training, scripts/performance; 0.7).
//
//   torchrun --nproc_per_node 8 scripts/training/run_recipe.py --recipe llama3_8b_pretrain_config -tp 4 model.context_parallel_size=2
//   ... --model llama3_8b --mode pretrain
//
// A recipe is Python. Those for pretraining that only assign are in bridge_recipes.def; any other is refused by its name.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "document/edit_distance.h"
#include "document/read.h"
#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/programs.h"

namespace steelyard {
namespace {

struct BridgeRecipe {
  std::string_view name, text;
};
#define RECIPE(name, text) {name, text},
#define ALIAS(name, target)
constexpr BridgeRecipe kBridgeRecipes[] = {
#include "formats/launch/bridge_recipes.def"
};
#undef RECIPE
#undef ALIAS

struct RecipeAlias {
  std::string_view name, target;
};
#define RECIPE(name, text)
#define ALIAS(name, target) {name, target},
constexpr RecipeAlias kRecipeAliases[] = {
#include "formats/launch/bridge_recipes.def"
};
#undef RECIPE
#undef ALIAS

// run_recipe.py, COMMON_OVERRIDE_FIELDS, with the short names of its flags.
struct OverrideFlag {
  std::string_view name, brief, field;
};
constexpr OverrideFlag kOverrideFlags[] = {
    {"global_batch_size", "gb", "train.global_batch_size"},
    {"micro_batch_size", "mb", "train.micro_batch_size"},
    {"seq_length", "sl", "dataset.seq_length"},
    {"tensor_model_parallel_size", "tp", "model.tensor_model_parallel_size"},
    {"pipeline_model_parallel_size", "pp", "model.pipeline_model_parallel_size"},
    {"context_parallel_size", "cp", "model.context_parallel_size"},
    {"virtual_pipeline_model_parallel_size", "vp", "model.virtual_pipeline_model_parallel_size"},
    {"expert_model_parallel_size", "ep", "model.expert_model_parallel_size"},
    {"expert_tensor_parallel_size", "etp", "model.expert_tensor_parallel_size"},
};

std::optional<Value> bridge_recipe(std::string_view name) {
  for (const RecipeAlias& alias : kRecipeAliases)
    if (alias.name == name) name = alias.target;
  for (const BridgeRecipe& recipe : kBridgeRecipes)
    if (recipe.name == name) {
      ReadValue read = read_json(recipe.text, fmt::format("Megatron-Bridge's {}", name));
      return read ? std::optional(std::move(*read)) : std::nullopt;
    }
  return std::nullopt;
}

std::string nearest_recipe(std::string_view name) {
  std::vector<std::string_view> names;
  for (const BridgeRecipe& recipe : kBridgeRecipes) names.push_back(recipe.name);
  for (const RecipeAlias& alias : kRecipeAliases) names.push_back(alias.name);
  return did_you_mean("recipe", nearest_names(name, names));
}

// What the command says over the recipe: flags, and `section.key=value`, which goes before them.
Value overrides_of_recipe(const ProgramCall& call) {
  Value over = Value::table();
  std::vector<Value> assignments;
  for (std::size_t i = 0; i < call.words.size(); ++i) {
    std::string word = call.words[i].as_string();
    if (!word.starts_with("-")) {
      if (word.find('=') != std::string::npos) assignments.push_back(call.words[i]);
      continue;
    }
    const std::size_t equals = word.find('=');
    Value value = equals == std::string::npos
                      ? i + 1 < call.words.size() ? call.words[i + 1] : Value()
                      : Value::string(word.substr(equals + 1));
    word = word.substr(0, equals);
    word.erase(0, word.find_first_not_of('-'));
    std::replace(word.begin(), word.end(), '-', '_');
    const auto* const flag = std::find_if(
        std::begin(kOverrideFlags), std::end(kOverrideFlags),
        [&](const OverrideFlag& row) { return row.name == word || row.brief == word; });
    if (flag == std::end(kOverrideFlags) || !value.is_string()) continue;
    Value typed = typed_value(value.as_string());
    typed.set_mark(call.words[i].mark());
    set_path(over, flag->field, std::move(typed), call.words[i].place());
  }
  Value laid = Value::table();
  lay_over_assignments(laid, assignments);
  lay_over_document(over, laid);
  return over;
}

// The word behind a flag: `key=value` words may follow it.
std::optional<Value> word_behind(const Value& flags, std::string_view flag) {
  const std::vector<Value> words = words_of(flags.find(flag));
  if (words.empty() || !words.front().is_string()) return std::nullopt;
  return words.front();
}

bool is_bridge_recipe(const ProgramCall& call) {
  return call.name == "run_recipe" || call.name == "nemo";
}

// `nemo llm pretrain --factory llama3_8b trainer.num_nodes=2`: NeMo 2's recipes, also Python.
bool read_nemo2_recipe(const ProgramCall& call, Launch& launch) {
  if (call.words.size() < 2 || call.words[0].as_string() != "llm" ||
      !ours_of("pretrain=|finetune=", call.words[1].as_string()))
    return false;
  launch.into.formats.emplace_back("NeMo 2 recipe");
  const Value flags = read_arguments(call.words.subspan(2)).flags;
  const auto factory = word_behind(flags, "factory");
  const Value none = Value::table();
  ConfigReader reading(none, "nemo2", launch.into);
  reading.unweighed(factory ? *factory : call.program,
                    fmt::format("recipe {}", factory ? word_of(*factory) : "of NeMo 2"),
                    "NeMo 2's recipe is Python: --model and the keys of a run file say the same");
  reading.lacks("model", "the recipe names it, in Python: --model");
  return true;
}

bool read_bridge_recipe(const ProgramCall& call, Launch& launch) {
  if (call.name == "nemo") return read_nemo2_recipe(call, launch);
  const Value& flags = call.arguments.flags;
  auto recipe = word_behind(flags, "recipe");
  // scripts/performance names a benchmark's recipe in parts.
  if (!recipe) recipe = word_behind(flags, "model_recipe_name");
  const auto mode = word_behind(flags, "mode");
  const auto at = recipe ? recipe : word_behind(flags, "model");
  launch.into.formats.emplace_back("Megatron-Bridge recipe");
  const Value none = Value::table();
  ConfigReader reading(none, "megatron-bridge", launch.into);
  if (!at) {
    reading.lacks("model", "--recipe names the recipe");
    return true;
  }
  std::string name = at->as_string();
  if (!recipe) {
    const std::string task = mode ? word_of(*mode) : "pretrain";
    name += fmt::format("_{}_config", task == "lora" || task == "dora" ? "peft" : task);
  }
  auto document = bridge_recipe(name);
  if (!document) {
    reading.unweighed(*at, fmt::format("recipe {}", name),
                      "the recipe is Python, and is not known here");
    const std::string nearest = nearest_recipe(name);
    reading.lacks("model", nearest.empty() ? "the recipe names it, in Python: --model" : nearest);
    return true;
  }
  if (const Value* hub = document->find("hub")) say_model(reading, *hub);
  reading.say("training.method", "pretrain", *at);
  remove_path(*document, "hub");
  lay_over_document(*document, overrides_of_recipe(call));
  read_nemo(*document, launch);
  // The recipe has named the model.
  std::erase_if(launch.into.unsaid,
                [](const Unsaid& one) { return one.key == "model" && one.taken.empty(); });
  return true;
}

}  // namespace

extern const TrainingProgram bridge_recipes_program = {"Megatron-Bridge", is_bridge_recipe,
                                                       read_bridge_recipe, "nemo"};

}  // namespace steelyard
