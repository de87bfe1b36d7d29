// The names are those of: axolotl/utils/schemas (config.py, training.py), transformers/training_args.py with trl/trainer/
// sft_config.py and trl/scripts/utils.py, llamafactory/hparams (data_args.py, finetuning_args.py, generating_args.py),
// megatron/training/arguments.py, torchtitan/config/job_config.py, nanotron/config/config.py, deepspeed/runtime/constants.py
// and lr_schedules.py, torchtune/recipes/configs, NeMo's and Megatron-Bridge's training configurations.
#include "formats/launch/carried_concepts.h"

#include <array>
#include <functional>

#include "formats/launch/mapping.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 9> kFormats = {"axolotl",   "trainer",    "llama-factory",
                                                      "megatron",  "torchtitan", "nanotron",
                                                      "deepspeed", "torchtune",  "nemo"};

// A row: the key's path in each of kFormats; empty where it has none. Several names are read, the first is written.
struct Concept {
  std::array<std::string_view, kFormats.size()> paths;
  bool is_schedule = false;  // a word of kSchedules
  bool is_template = false;  // of kTemplates
};

constexpr std::array kConcepts = {
    Concept{{"learning_rate", "learning_rate", "learning_rate", "lr", "optimizer.lr",
             "optimizer.learning_rate_scheduler.learning_rate", "optimizer.params.lr",
             "optimizer.lr", "optimizer.lr|model.optim.lr"}},
    Concept{{"", "", "", "min_lr", "", "optimizer.learning_rate_scheduler.min_decay_lr", "", "",
             "optimizer.min_lr|model.optim.sched.min_lr"}},
    Concept{{"num_epochs", "num_train_epochs", "num_train_epochs", "", "", "", "", "epochs", ""}},
    Concept{{"max_steps", "max_steps", "max_steps", "train_iters", "training.steps",
             "tokens.train_steps", "scheduler.params.total_num_steps", "",
             "train.train_iters|trainer.max_steps"}},
    Concept{{"warmup_steps", "warmup_steps", "warmup_steps", "lr_warmup_iters",
             "lr_scheduler.warmup_steps", "optimizer.learning_rate_scheduler.lr_warmup_steps",
             "scheduler.params.warmup_num_steps", "lr_scheduler.num_warmup_steps",
             "scheduler.lr_warmup_iters|model.optim.sched.warmup_steps"}},
    Concept{{"warmup_ratio", "warmup_ratio", "warmup_ratio", "lr_warmup_fraction", "", "", "", "",
             "scheduler.lr_warmup_fraction"}},
    Concept{{"lr_scheduler", "lr_scheduler_type", "lr_scheduler_type", "lr_decay_style",
             "lr_scheduler.decay_type", "optimizer.learning_rate_scheduler.lr_decay_style", "", "",
             "scheduler.lr_decay_style"},
            true},
    Concept{{"weight_decay", "weight_decay", "weight_decay", "weight_decay",
             "optimizer.weight_decay", "optimizer.weight_decay", "optimizer.params.weight_decay",
             "optimizer.weight_decay", "optimizer.weight_decay|model.optim.weight_decay"}},
    Concept{{"adam_beta1", "adam_beta1", "adam_beta1", "adam_beta1", "optimizer.beta1",
             "optimizer.optimizer_factory.adam_beta1", "", "", "optimizer.adam_beta1"}},
    Concept{{"adam_beta2", "adam_beta2", "adam_beta2", "adam_beta2", "optimizer.beta2",
             "optimizer.optimizer_factory.adam_beta2", "", "", "optimizer.adam_beta2"}},
    Concept{{"adam_epsilon", "adam_epsilon", "adam_epsilon", "adam_eps", "optimizer.eps",
             "optimizer.optimizer_factory.adam_eps", "optimizer.params.eps", "",
             "optimizer.adam_eps"}},
    Concept{{"seed", "seed", "seed", "seed", "training.seed|debug.seed", "general.seed", "", "seed",
             "rng.seed|model.seed"}},
    Concept{{"datasets.0.path", "dataset_name", "", "", "", "", "", "", ""}},
    Concept{{"chat_template", "", "template", "", "", "", "", "", ""}, false, true},
    Concept{{"output_dir", "output_dir", "output_dir", "save", "job.dump_folder",
             "checkpoints.checkpoints_path", "", "output_dir", "checkpoint.save"}},
    Concept{{"logging_steps", "logging_steps", "logging_steps", "log_interval", "metrics.log_freq",
             "logging.iteration_step_info_interval", "steps_per_print", "log_every_n_steps",
             "logger.log_interval|trainer.log_every_n_steps"}},
    Concept{{"save_steps", "save_steps", "save_steps", "save_interval", "checkpoint.interval",
             "checkpoints.checkpoint_interval", "", "", "checkpoint.save_interval"}},
    Concept{{"save_total_limit", "save_total_limit", "save_total_limit", "",
             "checkpoint.keep_latest_k", "", "", "", ""}},
    Concept{{"save_strategy", "save_strategy", "save_strategy", "", "", "", "", "", ""}},
    Concept{{"eval_steps", "eval_steps", "eval_steps", "eval_interval", "",
             "tokens.val_check_interval", "", "", "train.eval_interval"}},
    Concept{{"eval_strategy", "eval_strategy", "eval_strategy", "", "", "", "", "", ""}},
    Concept{{"val_set_size", "", "val_size", "", "", "", "", "", ""}},
    Concept{{"", "model_revision", "model_revision", "", "", "", "", "", ""}},
    Concept{{"tokenizer_config", "", "", "tokenizer_model", "model.tokenizer_path",
             "tokenizer.tokenizer_name_or_path", "", "", ""}},
    Concept{{"wandb_project", "project", "", "wandb_project", "", "general.project", "", "",
             "logger.wandb_project"}},
    Concept{{"wandb_name", "run_name", "run_name", "wandb_exp_name", "", "general.run", "", "",
             "logger.wandb_exp_name"}},
    Concept{{"", "report_to", "report_to", "", "", "", "", "", ""}},
    // Checkpoints of the Trainer's kind alone: no other format reads them.
    Concept{{"resume_from_checkpoint", "resume_from_checkpoint", "resume_from_checkpoint", "", "",
             "", "", "", ""}},
    Concept{{"hub_model_id", "hub_model_id", "hub_model_id", "", "", "", "", "", ""}},
    Concept{
        {"trust_remote_code", "trust_remote_code", "trust_remote_code", "", "", "", "", "", ""}},
    Concept{{"neftune_noise_alpha", "neftune_noise_alpha", "neftune_noise_alpha", "", "", "", "",
             "", ""}},
    Concept{{"dataloader_num_workers", "dataloader_num_workers", "dataloader_num_workers",
             "num_workers", "", "", "", "", ""}},
};

// Of each format: its word, and the word that all of them are compared by.
struct Words {
  std::string_view format;
  std::string_view words;
};
constexpr std::string_view kTransformers =
    "cosine=cosine|linear=linear|constant=constant|inverse_sqrt=inverse_sqrt|"
    "warmup_stable_decay=wsd|constant_with_warmup=constant_with_warmup|polynomial=polynomial|"
    "cosine_with_restarts=cosine_with_restarts|cosine_with_min_lr=cosine_with_min_lr";
constexpr std::string_view kMegatron =
    "cosine=cosine|linear=linear|constant=constant|inverse-square-root=inverse_sqrt|WSD=wsd";
constexpr std::array kSchedules = {
    Words{"axolotl", kTransformers},
    Words{"trainer", kTransformers},
    Words{"llama-factory", kTransformers},
    Words{"megatron", kMegatron},
    Words{"nemo", kMegatron},
    Words{"torchtitan", "cosine=cosine|linear=linear"},
    Words{"nanotron", "cosine=cosine|linear=linear"},
};
constexpr std::array kTemplates = {
    Words{"axolotl",
          "alpaca=alpaca|chatml=chatml|llama3=llama3|gemma=gemma|qwen_25=qwen|qwen3=qwen3|"
          "phi_3=phi|cohere=cohere|mistral_v2v3=mistral"},
    Words{"llama-factory",
          "alpaca=alpaca|chatml=chatml|llama3=llama3|gemma=gemma|qwen=qwen|qwen3=qwen3|phi=phi|"
          "cohere=cohere|mistral=mistral"},
};

template <std::size_t kCount>
std::string_view words_of(const std::array<Words, kCount>& all, std::string_view format) {
  for (const Words& words : all)
    if (words.format == format) return words.words;
  return {};
}

std::size_t index_of(std::string_view format) {
  std::size_t index = 0;
  while (index < kFormats.size() && kFormats[index] != format) ++index;
  return index;
}

// Through tables and lists; a list has one item here, or several things are meant.
const Value* value_at(const Value& table, std::string_view path) {
  const Value* here = &table;
  while (here != nullptr && !path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view part = path.substr(0, dot);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    if (here->is_array())
      here = part == "0" && here->items().size() == 1 ? here->items().data() : nullptr;
    else
      here = here->find(part);
  }
  return here;
}

std::string_view first_of(std::string_view paths) { return paths.substr(0, paths.find('|')); }

// The value as the other format says it; null: it has no word for it.
Value moved_value(const Concept& what, const Value& value, std::string_view from,
                  std::string_view to) {
  if (value.is_table() || value.is_null()) return {};
  if (what.is_schedule || what.is_template) {
    const std::string_view mine =
        what.is_schedule ? words_of(kSchedules, from) : words_of(kTemplates, from);
    const std::string_view theirs =
        what.is_schedule ? words_of(kSchedules, to) : words_of(kTemplates, to);
    const auto common = ours_of(mine, word_of(value));
    const auto word = common ? theirs_of(theirs, *common) : std::nullopt;
    return word ? Value::string(*word) : Value();
  }
  // PyYAML reads 2e-4 as text; others need the number.
  if (value.is_string()) return typed_value(value.as_string());
  return value;
}

}  // namespace

std::vector<MovedConcept> concepts_for(const Value& run, std::string_view format) {
  std::vector<MovedConcept> moved;
  const Value* carried = run.find("carried");
  const std::size_t to = index_of(format);
  if (carried == nullptr || !carried->is_table() || to == kFormats.size()) return moved;
  for (const Concept& what : kConcepts) {
    const std::string_view path = first_of(what.paths[to]);
    if (path.empty()) continue;
    for (std::size_t from = 0; from < kFormats.size(); ++from) {
      const Value* own = from == to ? nullptr : carried->find(kFormats[from]);
      if (own == nullptr) continue;
      std::string_view names = what.paths[from];
      bool found = false;
      while (!names.empty() && !found) {
        const std::string_view name = first_of(names);
        names.remove_prefix(std::min(names.size(), name.size() + 1));
        const Value* value = value_at(*own, name);
        if (value == nullptr) continue;
        Value word = moved_value(what, *value, kFormats[from], format);
        if (word.is_null()) continue;
        found = true;
        std::string key = "carried." + std::string(kFormats[from]) + "." + std::string(name);
        moved.push_back({std::string(path), std::move(word), std::move(key)});
      }
      if (found) break;
    }
  }
  return moved;
}

std::vector<LeftBehind> left_behind(const Value& run,
                                    const std::set<std::string, std::less<>>& formats,
                                    const std::set<std::string, std::less<>>& brought) {
  std::vector<LeftBehind> all;
  const Value* carried = run.find("carried");
  if (carried == nullptr || !carried->is_table()) return all;
  for (const Value::Member& own : carried->members()) {
    if (formats.count(own.key) > 0 || !own.value.is_table()) continue;
    LeftBehind left{own.key, {}};
    const std::function<void(const Value&, const std::string&)> visit =
        [&](const Value& table, const std::string& path) {
          for (const Value::Member& member : table.members()) {
            const std::string inner = path.empty() ? member.key : path + "." + member.key;
            if (member.value.is_table() && !member.value.members().empty()) {
              visit(member.value, inner);
              continue;
            }
            const std::string key = "carried." + own.key + "." + inner;
            const auto near = brought.lower_bound(key);
            if (near != brought.end() && *near == key) continue;
            // "datasets.0.path" brings one key of a list, and what else its items say is left.
            if (near != brought.end() && near->starts_with(key + ".0.")) {
              const std::string kept = near->substr(key.size() + 3);
              if (member.value.is_array() && !member.value.items().empty() &&
                  member.value.items()[0].is_table())
                for (const Value::Member& other : member.value.items()[0].members())
                  if (other.key != kept) left.keys.push_back(inner + ".0." + other.key);
              continue;
            }
            left.keys.push_back(inner);
          }
        };
    visit(own.value, "");
    if (!left.keys.empty()) all.push_back(std::move(left));
  }
  return all;
}

}  // namespace steelyard
