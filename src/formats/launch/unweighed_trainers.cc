// Trainers that are known by name and not weighed, one row each: what starts them, what their files say, and why.
//
//   xtuner train llama2_7b_qlora_alpaca_e3 --deepspeed deepspeed_zero2
//   error[E642]: not weighed: XTuner           its configuration is Python ...
//
// What launches them is read all the same, and a model's name where their file has one; nothing is read with another
// framework's meaning.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/launch/arguments.h"
#include "formats/launch/hugging_face.h"
#include "formats/launch/programs.h"

namespace steelyard {
namespace {

constexpr std::string_view kJax =
    "JAX plans memory ahead by a compiler of its own: weigh its model under a PyTorch engine for a "
    "first idea";
constexpr std::string_view kGenerates =
    "an engine that generates samples holds memory of its own beside training: weigh its model as "
    "fine-tuning";
constexpr std::string_view kPython =
    "its configuration is Python, which is not run here: --model and the keys of a run file say "
    "the same";
constexpr std::string_view kOwnCode =
    "its model code is its own, and its rules are not known here: weigh a model of the same sizes";

constexpr std::string_view kDiffusion = "a model of diffusion, which is not a transformer of words";

struct UnweighedTrainer {
  std::string_view name;
  std::string_view programs;  // parts of a script's path or module: "levanter.main|train_lm"
  std::string_view
      documents;  // keys that its files have, all of them: "policy.model_name+policy.dtensor_cfg|..."
  std::string_view model;  // the key that names one of the hub
  std::string_view why;
};
constexpr std::array kTrainers = {
    UnweighedTrainer{"MaxText", "MaxText/|MaxText.|maxtext.|maxtext/",
                     "base_emb_dim|per_device_batch_size+max_target_length|"
                     "per_device_batch_size+remat_policy",
                     "", kJax},
    UnweighedTrainer{
        "levanter", "levanter.|levanter/|train_lm.py",
        "trainer.num_train_steps+trainer.train_batch_size|trainer.mp+trainer.num_train_steps", "",
        kJax},
    UnweighedTrainer{"EasyLM", "EasyLM.", "", "", kJax},
    UnweighedTrainer{"NeMo RL",
                     "examples/run_grpo|examples/run_sft|examples/run_dpo|examples/run_rm|"
                     "examples/run_distillation|nemo_rl",
                     "policy.model_name+policy.train_micro_batch_size|"
                     "policy.model_name+policy.train_global_batch_size|policy.dtensor_cfg|"
                     "policy.megatron_cfg",
                     "policy.model_name", kGenerates},
    UnweighedTrainer{"OLMo", "olmo_core|olmo/|OLMo|scripts/train.py",
                     "device_train_microbatch_size+model.d_model|"
                     "global_train_batch_size+device_train_microbatch_size+run_name",
                     "", kOwnCode},
    UnweighedTrainer{
        "llm-foundry", "llmfoundry|composer",
        "device_train_microbatch_size|train_loader+max_seq_len|fsdp_config+train_loader",
        "model.pretrained_model_name_or_path", kOwnCode},
    UnweighedTrainer{"XTuner", "xtuner", "", "", kPython},
    UnweighedTrainer{"ColossalAI", "colossalai", "", "", kOwnCode},
    UnweighedTrainer{"align-anything", "align_anything.", "train_cfgs+model_cfgs",
                     "model_cfgs.model_name_or_path", kOwnCode},
    UnweighedTrainer{"open_lm", "open_lm.main|open_lm/main", "", "", kOwnCode},
    UnweighedTrainer{"Primus", "primus/|primus.", "modules.pre_trainer|modules.post_trainer", "",
                     kOwnCode},
    UnweighedTrainer{"a script of Diffusers",
                     "train_dreambooth|train_controlnet|train_text_to_image|train_textual|"
                     "train_unconditional|train_instruct_pix2pix|train_custom_diffusion|"
                     "train_t2i_adapter|train_lcm|train_flux|train_sdxl|train_cogvideox",
                     "", "", kDiffusion},
    UnweighedTrainer{"SkyRL", "skyrl", "", "", kGenerates},
    UnweighedTrainer{"prime-rl", "prime_rl", "", "", kGenerates},
    UnweighedTrainer{"AReaL", "areal.|areal/", "", "", kGenerates},
    UnweighedTrainer{"trlx", "trlx", "", "", kGenerates},
    UnweighedTrainer{"Unsloth's own command", "unsloth-cli|unsloth_cli|unsloth", "", "", kPython},
};

// Any of `alternatives` ("a+b|c") of which `holds` is true for every part.
template <class Holds>
bool any_holds(std::string_view alternatives, const Holds& holds) {
  while (!alternatives.empty()) {
    const std::size_t bar = std::min(alternatives.find('|'), alternatives.size());
    std::string_view all = alternatives.substr(0, bar);
    bool every = !all.empty();
    while (!all.empty() && every) {
      const std::size_t plus = std::min(all.find('+'), all.size());
      every = holds(all.substr(0, plus));
      all.remove_prefix(std::min(plus + 1, all.size()));
    }
    if (every) return true;
    alternatives.remove_prefix(std::min(bar + 1, alternatives.size()));
  }
  return false;
}

const UnweighedTrainer* trainer_of(const Value& document) {
  const auto* const found =
      std::find_if(kTrainers.begin(), kTrainers.end(), [&](const UnweighedTrainer& one) {
        return any_holds(one.documents,
                         [&](std::string_view key) { return document.at(key) != nullptr; });
      });
  return found == kTrainers.end() ? nullptr : found;
}

const UnweighedTrainer* trainer_of(const ProgramCall& call) {
  const std::string& path = call.program.as_string();
  const auto* const found =
      std::find_if(kTrainers.begin(), kTrainers.end(), [&](const UnweighedTrainer& one) {
        return any_holds(one.programs, [&](std::string_view part) {
          return path.starts_with(part) || path.find("/" + std::string(part)) != std::string::npos;
        });
      });
  return found == kTrainers.end() ? nullptr : found;
}

void read_unweighed(const UnweighedTrainer& trainer, const Value& document, Launch& launch,
                    const Value& at) {
  ConfigReader reading(document, "unweighed", launch.into);
  launch.into.formats.push_back(fmt::format("{} configuration", trainer.name));
  if (const Value* model = trainer.model.empty() ? nullptr : reading.take(trainer.model);
      model != nullptr && model->is_string())
    say_model(reading, *model);
  reading.unweighed(at, trainer.name, trainer.why);
  reading.carry_rest();
}

bool is_unweighed_document(const Value& document) { return trainer_of(document) != nullptr; }

void read_unweighed_document(const Value& document, Launch& launch) {
  if (const UnweighedTrainer* trainer = trainer_of(document))
    read_unweighed(*trainer, document, launch, document);
}

bool is_unweighed_program(const ProgramCall& call) { return trainer_of(call) != nullptr; }

bool read_unweighed_program(const ProgramCall& call, Launch& launch) {
  const UnweighedTrainer* trainer = trainer_of(call);
  if (trainer == nullptr) return false;
  // Its own command does other things, too: xtuner convert, colossalai check.
  static constexpr std::string_view kTrains = "train|run|pretrain|finetune|sft";
  if ((call.name == "xtuner" || call.name == "colossalai" || call.name == "unsloth") &&
      (call.words.empty() || !ours_of(kTrains, call.words.front().as_string())))
    return false;
  Value document = Value::table();
  document.set_mark(call.program.mark());
  read_unweighed(*trainer, document, launch, call.program);
  return true;
}

}  // namespace

extern const TrainingProgram unweighed_trainers_program = {
    "trainers that are not weighed", is_unweighed_program, read_unweighed_program,
    "xtuner|composer|colossalai|unsloth"};
extern const DocumentFormat unweighed_trainers_document = {
    "unweighed", "a trainer that is not weighed", is_unweighed_document, read_unweighed_document};

}  // namespace steelyard
