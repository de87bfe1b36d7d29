// What a run can die of: one row a cause, with what proves it, what must be checked first, and what decides.
//
//   optimizer_state_first_step   "optimizer state, made in the first step"
//     proof       the peak lies inside the first optimizer step; two blocks for each parameter, never freed
//     counter     the moments were there before
//     experiment  half the batch and length: the peak stays
//
// `steelyard explain optimizer_state_first_step` prints a row; docs/diagnose.md has them all.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace steelyard {

enum class Cause : std::uint8_t {
  kHealthy,
  kNotMemory,
  kActivations,
  kLogits,
  kAttentionScores,
  kOptimizerStateFirstStep,
  kOptimizerTemporaries,
  kGradients,
  kMasterWeights,
  kAutocastCopies,
  kParametersReplicated,
  kLoadFullModel,
  kAllGatherOrBucket,
  kFragmentation,
  kLeakOrKeptGraph,
  kLongestBatch,
  kMoeImbalance,
  kPipelineFirstStage,
  kEvaluationOrGenerationCache,
  kFullCheckpointOnRank0,
  kQuantizationDequant,
  kNcclOrContext,
  kOtherProcess,
  kHostMemory,
  kSettingIgnored,
  kHardware,
  kModelTooLarge
};

struct CauseFacts {
  Cause cause;
  std::string_view name;   // as JSON has it: "optimizer_state_first_step"
  std::string_view title;  // as the first line of the screen has it: "the optimizer's state"
  std::string_view what;   // a sentence
  std::string_view proof, counter, experiment, remedy;
};

std::span<const CauseFacts> causes();
const CauseFacts& facts_of(Cause cause);
const CauseFacts* find_cause(std::string_view name);

}  // namespace steelyard
