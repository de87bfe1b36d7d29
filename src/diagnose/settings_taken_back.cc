#include "diagnose/settings_taken_back.h"

#include <algorithm>

#include "diagnose/diagnosis.h"

namespace steelyard {
namespace {

struct TakenBack {
  SavingSetting setting;
  std::vector<Suggestion::Edit> edits;
  std::string words;
};

TakenBack taken_back(SavingSetting setting, std::string key, std::string from, std::string to) {
  std::string words = key + " = " + from;
  return {setting, {{std::move(key), std::move(from), std::move(to)}}, std::move(words)};
}

bool is_eight_bit(const Optimizer& optimizer) {
  return std::any_of(optimizer.slots.begin(), optimizer.slots.end(), [](const OptimizerSlot& slot) {
    return slot.extent == SlotExtent::kParameter && slot.type && bits_of(*slot.type) <= 8;
  });
}

void add_sharding(const Job& job, std::vector<TakenBack>& all) {
  const std::int64_t ranks = job.parallel.data.value();
  if (ranks < 2) return;
  const bool fsdp = job.engine == Engine::kFsdp1 || job.engine == Engine::kFsdp2;
  if (fsdp && job.parallel.replicate.value() < ranks)
    all.push_back(taken_back(SavingSetting::kSharding, "parallel.replicate",
                             std::to_string(job.parallel.replicate.value()),
                             std::to_string(ranks)));
  else if (!fsdp && job.parallel.zero_stage > 0)
    all.push_back(taken_back(SavingSetting::kSharding, "parallel.zero_stage",
                             std::to_string(job.parallel.zero_stage), "0"));
}

void add_training(const Job& job, std::vector<TakenBack>& all) {
  const Training& training = job.training;
  if (training.loss != LossKernel::kPlain)
    all.push_back(taken_back(SavingSetting::kLossKernel, "training.loss",
                             std::string(name_of(training.loss)), "plain"));
  if (training.attention != AttentionKernel::kEager)
    all.push_back(taken_back(SavingSetting::kAttention, "training.attention",
                             std::string(name_of(training.attention)), "eager"));
  if (training.precision.compute != ElementType::kFloat32)
    all.push_back(taken_back(SavingSetting::kPrecision, "training.precision",
                             training.precision.name, "fp32"));
  if (training.gradient_accumulation > 1) {
    TakenBack one = taken_back(SavingSetting::kAccumulation, "training.gradient_accumulation",
                               std::to_string(training.gradient_accumulation), "1");
    one.edits.push_back({"training.micro_batch", std::to_string(training.micro_batch),
                         std::to_string(training.micro_batch * training.gradient_accumulation)});
    all.push_back(std::move(one));
  }
  if (is_eight_bit(training.optimizer))
    all.push_back(taken_back(SavingSetting::kEightBitOptimizer, "training.optimizer",
                             training.optimizer.name, "adamw"));
}

std::vector<TakenBack> all_taken_back(const Job& job) {
  std::vector<TakenBack> all;
  if (job.recompute.mode != RecomputeMode::kNone)
    all.push_back(taken_back(SavingSetting::kRecomputation, "recompute.mode",
                             std::string(name_of(job.recompute.mode)), "none"));
  if (job.adapter) {
    all.push_back(taken_back(SavingSetting::kAdapter, "adapter", job.adapter->method, ""));
    all.back().words = "adapter.method = " + job.adapter->method;
  }
  add_training(job, all);
  for (const auto& [key, target] : {std::pair{"offload.optimizer", job.offload.optimizer},
                                    std::pair{"offload.parameters", job.offload.parameters},
                                    std::pair{"offload.activations", job.offload.activations}})
    if (target != OffloadTarget::kNone)
      all.push_back(taken_back(SavingSetting::kOffload, key, std::string(name_of(target)), "none"));
  add_sharding(job, all);
  return all;
}

// Neither the flash kernel nor cuDNN's computes in 32 bits: torch takes another then, and which one the device decides.
std::vector<TakenBack> with_kernels_of_32_bits(std::vector<TakenBack> all, const Job& job) {
  if (!takes_16_bits_alone(job.training.attention)) return all;
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (all[i].setting != SavingSetting::kPrecision) continue;
    for (const char* kernel : {"efficient", "eager"}) {
      all.push_back(all[i]);
      all.back().edits.push_back(
          {"training.attention", std::string(name_of(job.training.attention)), kernel});
    }
  }
  return all;
}

}  // namespace

std::vector<RunWithout> runs_without_settings(const DiagnosisQuestion& question) {
  std::vector<RunWithout> runs;
  if (question.job == nullptr || !question.supposed) return runs;
  for (TakenBack& one : with_kernels_of_32_bits(all_taken_back(*question.job), *question.job)) {
    auto job = question.supposed(one.edits);
    if (!job) continue;
    Prediction prediction = estimate(*job);
    if (prediction.ranks.empty()) continue;
    runs.push_back({one.setting, std::move(one.edits), std::move(one.words), std::move(*job),
                    std::move(prediction)});
  }
  return runs;
}

std::int64_t most_allocated(const RankPrediction& rank, Phase phase) {
  std::int64_t most = 0;
  for (const auto* phases : {&rank.phases, &rank.first_step.phases})
    for (const PhasePrediction& one : *phases)
      if (one.phase == phase) most = std::max(most, one.allocated.value().value());
  return most;
}

bool fits_without_pieces(const Prediction& prediction, const RankPrediction& rank) {
  if (rank.phases.empty()) return false;
  const Bytes tensors = std::max(rank.allocated, rank.first_step.allocated);
  return tensors + rank.phases.front().runtime <= prediction.usable;
}

Cause cause_of_missing(const RunWithout& run) {
  return run.setting == SavingSetting::kSharding ? Cause::kParametersReplicated
                                                 : Cause::kSettingIgnored;
}

}  // namespace steelyard
