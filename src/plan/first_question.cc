#include "plan/first_question.h"

#include "predict/prediction.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

struct CheapMove {
  const char* words;
  void (*apply)(Job& job);
};
constexpr CheapMove kCheapMoves[] = {
    {"micro-batch 1",
     [](Job& job) {
       job.training.gradient_accumulation *= job.training.micro_batch;
       job.training.micro_batch = 1;
     }},
    {"full recompute",
     [](Job& job) {
       job.recompute = {};
       job.recompute.mode = RecomputeMode::kFull;
     }},
    {"states over the data ranks",
     [](Job& job) {
       if (job.parallel.data == 1 || job.parallel.zero_stage > 0) return;
       job.parallel.zero_stage = 1;
       if (job.engine == Engine::kDdp) {
         job.engine = Engine::kFsdp2;
         job.parallel.zero_stage = 3;
       }
     }},
    {"8-bit optimizer", [](Job& job) {
       if (job.training.optimizer.name != "adamw" && job.training.optimizer.name != "adam") return;
       if (const Optimizer* eight = find_optimizer("adamw-8bit")) job.training.optimizer = *eight;
     }}};

}  // namespace

std::optional<FirstQuestion> first_question(const Value& run, const SearchHelp& help) {
  const ReadJob job = help.read(run);
  if (!job) return std::nullopt;
  const Prediction prediction = estimate(*job);
  FirstQuestion answer;
  answer.need = prediction.peak.device;
  answer.usable = prediction.usable;
  answer.shared = job->parallel.zero_stage == 3;
  for (const RankPrediction& rank : prediction.ranks) {
    if (rank.rank != prediction.peak.rank) continue;
    for (const PhasePrediction& phase : rank.phases) {
      if (phase.phase != rank.phase) continue;
      const auto pile = [&](Pile which) { return phase.piles[which]; };
      answer.activations = pile(Pile::kActivations) + pile(Pile::kTemporary);
      answer.optimizer = pile(Pile::kMasterWeights) + pile(Pile::kOptimizerMoments);
      answer.replicated = pile(Pile::kParameters) + pile(Pile::kGradients);
    }
  }
  Job all = *job;
  const auto weigh = [&](const Job& changed, std::string words) {
    try {
      const Prediction after = estimate(changed);
      answer.moves.push_back(
          {std::move(words), after.peak.device, after.verdict == Verdict::kFits});
    } catch (const OverflowError&) {
      // A size that no number holds is no move.
    }
  };
  for (const CheapMove& move : kCheapMoves) {
    Job changed = *job;
    move.apply(changed);
    move.apply(all);
    weigh(changed, move.words);
  }
  weigh(all, "all four");
  return answer;
}

}  // namespace steelyard
