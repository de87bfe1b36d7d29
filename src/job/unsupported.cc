#include "job/unsupported.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "job/pipeline_shape.h"
#include "job/unweighed_model.h"
#include "model/architecture.h"
#include "model/prediction.h"

namespace steelyard {
namespace {

// Keys that are known and do nothing yet: only the value that means "as now" passes.
struct OnlyValue {
  KeyId key;
  int accepted =
      -1;         // the name's index, the count, or a switch; -1: none, the key itself is refused
  int also = -1;  // a second one
};
constexpr std::array kOnlyValues = {
    OnlyValue{KeyId::kPacking, 0, 1},
    OnlyValue{KeyId::kWeightShards},
    OnlyValue{KeyId::kExpertWeightShards},
    OnlyValue{KeyId::kRecomputeBudget, 1},
    OnlyValue{KeyId::kRecomputeDistribute, 0},
    OnlyValue{KeyId::kOffloadLayers},
    OnlyValue{KeyId::kOffloadModules},
    OnlyValue{KeyId::kAdapterSaved},
    OnlyValue{KeyId::kDelayedWeightGradient, 0},
    OnlyValue{KeyId::kOverlapPipeline, 0},
    OnlyValue{KeyId::kWrapPolicy, 0},
    OnlyValue{KeyId::kWrapClasses},
    OnlyValue{KeyId::kWrapMinimum},
    OnlyValue{KeyId::kTypeReduction},
    OnlyValue{KeyId::kTypeTrainable},
    OnlyValue{KeyId::kExpertGrouped, 1},
    OnlyValue{KeyId::kExpertTensorSplit, 1},
    OnlyValue{KeyId::kPipelineMicroBatches},
};

// Things asked for by what the job is.
struct Feature {
  KeyId key;  // where it was asked
  bool (*asked)(const Draft& draft);
  std::string_view what;
  std::string_view help;  // what is weighed instead
};

// Names of a key from this index on have no place in job.h.
bool name_from(const Draft& draft, KeyId key, int first) {
  return draft.settings().name(key).value_or(-1) >= first;
}

constexpr std::array kFeatures = {
    Feature{KeyId::kCudaGraphs,
            [](const Draft& d) {
              return d.job().graphs.of != CudaGraphs::kNone && !captures_graphs(d.job());
            },
            "CUDA graphs of this engine",
            "Megatron's own are weighed: engine = \"megatron\" with zero_stage 0 or 1"},
    Feature{
        KeyId::kKernels,
        [](const Draft& d) {
          return name_from(d, KeyId::kKernels, static_cast<int>(KernelLibrary::kMegatron) + 1);
        },
        "Unsloth's own model code",
        "it patches attention, the loss and the checkpoints of transformers; without it the run "
        "is weighed"},
    Feature{KeyId::kZeroStage,
            [](const Draft& d) {
              const Job& job = d.job();
              return job.parallel.megatron_fsdp && (job.adapter || !job.training.frozen.empty() ||
                                                    multiplies_in_8_bits(job.training.precision) ||
                                                    job.offload.optimizer != OffloadTarget::kNone);
            },
            "Megatron-FSDP with adapters, frozen parts, 8-bit products or an optimizer on the host",
            "Megatron-FSDP is weighed in 16 bits and fp32 on the device; zero_stage = 1, the "
            "distributed optimizer, with these"},
    Feature{
        KeyId::kZeroStage,
        [](const Draft& d) {
          const Parallel& parallel = d.job().parallel;
          // Modules that predict further tokens have the embedding once more.
          const bool tied = d.job().model != nullptr &&
                            (d.job().model->tied_head || !d.job().model->predictions.empty());
          return parallel.megatron_fsdp &&
                 (parallel.virtual_pipeline > 1 || (parallel.pipeline > 1 && tied));
        },
        "Megatron-FSDP with several chunks on a stage, or with a tied head on another",
        "each chunk would have buckets of its own; virtual_pipeline = 1 and a head of its own are "
        "weighed, and zero_stage = 1, the distributed optimizer"},
    Feature{KeyId::kAdapterMethod,
            [](const Draft& d) {
              const Parallel& parallel = d.job().parallel;
              return d.job().adapter && (parallel.tensor > 1 || parallel.pipeline > 1);
            },
            "adapters with tensor or pipeline parallelism",
            "data ranks are weighed, whole (ddp) or divided (fsdp1, fsdp2, deepspeed)"},
    Feature{KeyId::kAdapterMethod,
            [](const Draft& d) {
              const Implementation code = d.job().implementation;
              return d.job().adapter && code != Implementation::kTransformers &&
                     code != Implementation::kTorchtitan && code != Implementation::kLitgpt &&
                     code != Implementation::kTorchtune;
            },
            "adapters of this code",
            "ddp, fsdp1, fsdp2 and deepspeed are weighed with PEFT's, on the code of transformers, "
            "and with LitGPT's and torchtune's on their own"},
    Feature{KeyId::kImplementation,
            [](const Draft& d) {
              const Job& job = d.job();
              if (job.implementation != Implementation::kTorchtune || job.model == nullptr)
                return false;
              const auto is_known = [](const Layer& layer) {
                const auto* attention = std::get_if<GroupedAttention>(&layer.attention);
                return attention != nullptr && !attention->alibi && !attention->sinks &&
                       layer.arrangement == Arrangement::kPreNorm &&
                       std::holds_alternative<DenseMlp>(layer.mlp);
              };
              return job.parallel.tensor > 1 || job.parallel.context > 1 ||
                     job.parallel.pipeline > 1 || job.training.precision.autocast ||
                     (job.adapter && job.adapter->method == "dora") ||
                     job.training.loss == LossKernel::kFusedLinear || job.model->encoder ||
                     job.model->learned_positions ||
                     !std::all_of(job.model->kinds.begin(), job.model->kinds.end(), is_known);
            },
            "torchtune's code here",
            "decoders with norms before dense layers on data ranks alone are weighed, whole (ddp) "
            "or divided (fsdp2), with loss = \"plain\" or \"chunked\", and with LoRA"},
    Feature{KeyId::kPredictionLayers,
            [](const Draft& d) {
              const Job& job = d.job();
              if (job.model == nullptr || d.count_or(KeyId::kPredictionLayers, 0) == 0)
                return false;
              return job.implementation != Implementation::kMegatron || !can_predict(*job.model) ||
                     job.engine != Engine::kMegatron;
            },
            "multi-token prediction of this code, or of this model",
            "engine = \"megatron\" trains it, for decoders without a table of positions"},
    Feature{KeyId::kLoss,
            [](const Draft& d) {
              return d.job().training.loss != LossKernel::kPlain && d.job().parallel.tensor > 1;
            },
            "chunked and fused losses over a divided vocabulary",
            "loss = \"plain\" is weighed with tensor; tensor = 1 with this loss"},
    Feature{KeyId::kVocabulary,
            [](const Draft& d) {
              const Job& job = d.job();
              if (!divides_vocabulary(job) || job.model == nullptr) return false;
              const Architecture& model = *job.model;
              const bool plain_ends = model.final_norm && !model.tied_head &&
                                      !model.head_transform && !model.project_in &&
                                      !model.project_out && !model.final_softcap &&
                                      !model.encoder && model.predictions.empty() && !model.image &&
                                      !model.encoder_part;
              return !plain_ends || job.parallel.tensor > 1 || job.parallel.context > 1 ||
                     job.parallel.megatron_fsdp || job.adapter || job.trains_in_part() ||
                     job.training.loss != LossKernel::kPlain ||
                     job.offload.activations != OffloadTarget::kNone ||
                     !job.buckets.contiguous_gradients;
            },
            "a vocabulary divided over stages here",
            "decoders with a head of their own are weighed, on data ranks and stages, with loss = "
            "\"plain\"; vocabulary = \"stage-ends\" is weighed with all others"},
    Feature{KeyId::kRecomputeMode,
            [](const Draft& d) {
              return name_from(d, KeyId::kRecomputeMode,
                               static_cast<int>(RecomputeMode::kOperators) + 1);
            },
            "this form of recomputation",
            "the command line chooses mode = \"budget\" without recompute.budget; mode = \"block\" "
            "states it"},
    Feature{KeyId::kRecomputeMode,
            [](const Draft& d) {
              const Job& job = d.job();
              if (job.recompute.mode != RecomputeMode::kOperators) return false;
              const bool dense = job.model != nullptr && !some_layer_has<ExpertMlp>(*job.model);
              return !dense || job.parallel.tensor > 1 || job.parallel.context > 1 ||
                     job.parallel.pipeline > 1 || job.adapter ||
                     job.offload.activations != OffloadTarget::kNone || job.recompute.reentrant ||
                     (job.implementation != Implementation::kTransformers &&
                      job.implementation != Implementation::kTorchtitan);
            },
            "recomputation by operator here",
            "dense layers of transformers' and torchtitan's code on data ranks alone are weighed"},
    Feature{
        KeyId::kPrecision,
        [](const Draft& d) {
          const Job& job = d.job();
          if (!multiplies_in_8_bits(job.training.precision)) return false;
          const std::string& recipe = job.training.precision.float8_recipe;
          if (job.engine == Engine::kFsdp2)  // torchao's
            return (recipe != "tensorwise" && recipe != "rowwise") || job.parallel.tensor > 1 ||
                   job.adapter.has_value();
          return job.engine != Engine::kMegatron || recipe == "rowwise";
        },
        "8-bit matrix products of this code",
        "Transformer Engine's are weighed (engine = \"megatron\": delayed, tensorwise, blockwise, "
        "mxfp8), and torchao's (engine = \"fsdp2\": tensorwise, rowwise; without tensor "
        "parallelism "
        "and adapters)"},
    Feature{KeyId::kRecomputeMode,
            [](const Draft& d) {
              return multiplies_in_8_bits(d.job().training.precision) &&
                     d.job().recompute.mode == RecomputeMode::kModules;
            },
            "recomputation of modules around 8-bit products",
            "mode = \"full\" and mode = \"selective\" are weighed"},
};

bool passes(const OnlyValue& row, const Setting& setting) {
  if (row.accepted < 0) return false;
  switch (key_of(row.key).kind) {
    case KeyKind::kName:
      return setting.name == row.accepted || setting.name == row.also;
    case KeyKind::kSwitch:
      return setting.truth == (row.accepted == 1);
    case KeyKind::kCount:
      return setting.count == row.accepted;
    case KeyKind::kNumber:
    case KeyKind::kFraction:
      return setting.number >= row.accepted && setting.number <= row.accepted;
    default:
      return false;
  }
}

}  // namespace

namespace {

// What an import found in somebody's file: each by its name and where it stands.
void refuse_unweighed_keys(Draft& draft) {
  const Setting* setting = draft.settings().find(KeyId::kUnweighed);
  if (setting == nullptr) return;
  const Value& said = setting->member->value;
  for (std::size_t i = 0; i < setting->texts.size(); ++i) {
    const std::string& text = setting->texts[i];
    const std::size_t colon = text.find(": ");
    // A key that an import asks for, and that may have been said since.
    if (const Key* key = find_key_by_path(text.substr(0, colon)); key != nullptr) {
      if (draft.settings().find(key->id) == nullptr)
        draft.refuse_at(said.is_array() ? said.items()[i].place() : said.place(), "E642",
                        fmt::format("{} is not known", key->path),
                        colon == std::string::npos ? "it decides" : text.substr(colon + 2),
                        fmt::format("{} says it", key->flag));
      continue;
    }
    draft.refuse_at(said.is_array() ? said.items()[i].place() : said.place(), "E642",
                    fmt::format("not weighed: {}", text.substr(0, colon)),
                    colon == std::string::npos ? "it changes memory, and its rule is not known here"
                                               : text.substr(colon + 2),
                    "without it the run is weighed");
  }
}

}  // namespace

void refuse_unsupported(Draft& draft) {
  refuse_unweighed_keys(draft);
  for (const OnlyValue& row : kOnlyValues) {
    const Setting* setting = draft.settings().find(row.key);
    if (setting == nullptr || passes(row, *setting)) continue;
    const Key& key = key_of(row.key);
    draft.refuse(row.key, "E320",
                 fmt::format("not weighed yet: {} = {}", key.path, shown(setting->member->value)),
                 "known, without effect in this version",
                 fmt::format("leave it out: {} is what is weighed", key.fallback));
  }
  const auto refuse = [&](KeyId key, std::string_view what, std::string_view help) {
    draft.refuse(key, "E320", fmt::format("not weighed yet: {}", what),
                 "known, not in this version", std::string(help));
  };
  for (const Feature& feature : kFeatures)
    if (feature.asked(draft)) refuse(feature.key, feature.what, feature.help);
  if (const UnweighedModel* row = unweighed_model(draft.job()))
    refuse(row->key, row->what, row->help);
  // A precision that is weighed but for a part of it says which.
  const Precision& precision = draft.job().training.precision;
  if (precision.float8_recipe == "nanotron" && !precision.weighed.empty())
    draft.warn(KeyId::kPrecision, "E320", fmt::format("{} is weighed in part", precision.name),
               precision.weighed);
}

}  // namespace steelyard
