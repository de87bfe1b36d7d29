// What would have helped: the run's own suggestions, priced; without a run the usual change for the cause, not priced.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "diagnose/diagnosis.h"
#include "predict/moves.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

struct UsualFix {
  Cause cause;
  std::string_view key, to, change;
};
// `key` empty: nothing of a run file; the change is for the launch or the code.
constexpr std::array kUsualFixes = {
    UsualFix{Cause::kActivations, "recompute.mode", "full",
             "recompute.mode = full (activation checkpointing)"},
    UsualFix{Cause::kActivations, "training.micro_batch", "1",
             "training.micro_batch = 1, with more accumulation"},
    UsualFix{Cause::kLogits, "training.loss", "chunked", "training.loss = chunked"},
    UsualFix{Cause::kLogits, "training.micro_batch", "1", "training.micro_batch = 1"},
    UsualFix{Cause::kAttentionScores, "training.attention", "flash", "training.attention = flash"},
    UsualFix{Cause::kOptimizerStateFirstStep, "training.optimizer", "adamw8bit",
             "an 8-bit optimizer"},
    UsualFix{Cause::kOptimizerStateFirstStep, "offload.optimizer", "cpu",
             "offload.optimizer = cpu"},
    UsualFix{Cause::kOptimizerTemporaries, "training.optimizer_form", "fused",
             "training.optimizer_form = fused"},
    UsualFix{Cause::kGradients, "", "", "optimizer.zero_grad(set_to_none=True) before forward"},
    UsualFix{Cause::kMasterWeights, "offload.optimizer", "cpu", "offload.optimizer = cpu"},
    UsualFix{Cause::kAutocastCopies, "training.precision", "bf16",
             "16-bit weights in place of autocast"},
    UsualFix{Cause::kParametersReplicated, "parallel.zero_stage", "3", "parallel.zero_stage = 3"},
    UsualFix{Cause::kLoadFullModel, "", "",
             "load in 16 bits on the meta device or CPU, then shard"},
    UsualFix{Cause::kAllGatherOrBucket, "buckets.gather", "50000000",
             "smaller gather buckets or wrapping units"},
    UsualFix{Cause::kFragmentation, "environment.PYTORCH_ALLOC_CONF", "expandable_segments:True",
             "PYTORCH_ALLOC_CONF=expandable_segments:True"},
    UsualFix{Cause::kLeakOrKeptGraph, "", "", "keep loss.item() or loss.detach(), not the loss"},
    UsualFix{Cause::kLongestBatch, "", "", "cap the length at that of the batches that passed"},
    UsualFix{Cause::kMoeImbalance, "experts.capacity_factor", "1.25",
             "experts.capacity_factor = 1.25"},
    UsualFix{Cause::kPipelineFirstStage, "recompute.mode", "full", "recompute.mode = full"},
    UsualFix{Cause::kEvaluationOrGenerationCache, "", "",
             "a smaller evaluation batch; torch.no_grad()"},
    UsualFix{Cause::kFullCheckpointOnRank0, "checkpoint.save", "sharded",
             "checkpoint.save = sharded"},
    UsualFix{Cause::kQuantizationDequant, "recompute.mode", "full", "recompute.mode = full"},
    UsualFix{Cause::kNcclOrContext, "", "", "fewer process groups; a smaller NCCL_BUFFSIZE"},
    UsualFix{Cause::kOtherProcess, "", "",
             "torch.cuda.set_device(local_rank); stop the other process"},
    UsualFix{Cause::kHostMemory, "", "", "fewer data workers; load once for each node"},
    UsualFix{Cause::kSettingIgnored, "", "", "check that the framework's log says the setting"},
    UsualFix{Cause::kHardware, "", "", "exclude the node and have its device tested"},
    UsualFix{Cause::kModelTooLarge, "parallel.zero_stage", "3",
             "shard the states over more devices"},
    UsualFix{Cause::kModelTooLarge, "adapter.method", "lora", "adapter.method = lora"},
};

constexpr std::size_t kMostFixes = 3;

std::int64_t plain_bytes(Bytes bytes) { return bytes.value().value(); }

Fix unpriced(const UsualFix& usual) {
  Fix fix;
  if (!usual.key.empty()) fix.edits = {{std::string(usual.key), "", std::string(usual.to)}};
  fix.change = std::string(usual.change);
  return fix;
}

// As `weigh` proposes it, where it does: a smaller micro-batch keeps the global batch.
RunEdits edits_of(const UsualFix& usual, const Job& job) {
  for (const Move& move : moves())
    if (auto edits = move.edits(job);
        edits && edits->front().key == usual.key && edits->front().to == usual.to)
      return std::move(*edits);
  return {{std::string(usual.key), "", std::string(usual.to)}};
}

// What fits comes first; what was not weighed is the cause's own remedy, and stays before what does not fit.
int order_of(const Fix& fix) {
  if (fix.verdict.empty() || fix.verdict == name_of(Verdict::kFits)) return 0;
  return fix.verdict == name_of(Verdict::kTight) ? 1 : 2;
}

// The same edit weighed: how much lower the peak is, and how much longer the step.
std::optional<Fix> priced(const DiagnosisQuestion& question, const UsualFix& usual) {
  if (!question.rewritten || usual.key.empty()) return std::nullopt;
  const RunEdits edits = edits_of(usual, *question.job);
  const auto job = question.rewritten(edits);
  if (!job) return std::nullopt;
  const Prediction after = estimate(*job);
  Fix fix;
  fix.edits = edits;
  fix.change = std::string(usual.change);
  fix.saves = question.prediction->peak.device - after.peak.device;
  // Of fragmentation a prediction knows nothing: the change helps although the predicted peak stays.
  if (plain_bytes(*fix.saves) <= 0)
    return usual.cause == Cause::kFragmentation ? std::optional(unpriced(usual)) : std::nullopt;
  fix.verdict = std::string(name_of(after.verdict));
  const auto before_time = predict_time(*question.job);
  const auto after_time = predict_time(*job);
  if (before_time && after_time)
    fix.costs = Seconds(after_time->step.value() - before_time->step.value());
  return fix;
}

}  // namespace

void add_fixes(const DiagnosisQuestion& question, Diagnosis& diagnosis) {
  if (diagnosis.findings.empty() || diagnosis.verdict == Cause::kNotMemory) return;
  const Cause cause = diagnosis.verdict;
  for (const UsualFix& usual : kUsualFixes) {
    if (usual.cause != cause || diagnosis.fixes.size() >= kMostFixes) continue;
    if (question.job != nullptr && question.prediction != nullptr && !usual.key.empty()) {
      if (auto fix = priced(question, usual)) diagnosis.fixes.push_back(std::move(*fix));
      continue;
    }
    diagnosis.fixes.push_back(unpriced(usual));
  }
  if (question.job != nullptr && question.prediction != nullptr && question.rewritten &&
      question.prediction->verdict != Verdict::kFits)
    for (const Suggestion& suggestion :
         suggest(*question.job, *question.prediction, question.rewritten)) {
      if (diagnosis.fixes.size() >= kMostFixes) break;
      const bool known =
          std::any_of(diagnosis.fixes.begin(), diagnosis.fixes.end(), [&](const Fix& fix) {
            return !fix.edits.empty() && !suggestion.edits.empty() &&
                   fix.edits[0].key == suggestion.edits[0].key;
          });
      if (known) continue;
      diagnosis.fixes.push_back({suggestion.edits,
                                 suggestion.change,
                                 {},
                                 suggestion.saves,
                                 suggestion.costs,
                                 std::string(name_of(suggestion.verdict))});
    }
  std::stable_sort(diagnosis.fixes.begin(), diagnosis.fixes.end(),
                   [](const Fix& a, const Fix& b) { return order_of(a) < order_of(b); });
  if (question.lines)
    for (Fix& fix : diagnosis.fixes)
      if (!fix.edits.empty()) fix.lines = question.lines(fix.edits);
}

}  // namespace steelyard
