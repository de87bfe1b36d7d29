#include "diagnose/run_composition.h"

namespace steelyard {
namespace {

bool says(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

}  // namespace

bool is_of_logits(const Holding& holding) {
  return holding.owner == "loss" || says(holding.name, "logits");
}

bool is_of_scores(const Holding& holding) {
  return says(holding.owner, "attention") &&
         (says(holding.name, "score") || says(holding.name, "softmax") ||
          says(holding.name, "probabilit"));
}

Composition composition_of(const Job& job, std::size_t rank_index, Phase phase) {
  Composition found;
  for (const Holding& holding : phase_moment(job, rank_index, phase).alive) {
    const std::int64_t bytes = holding.total.value().value();
    if (holding.pile == Pile::kCommunication) {
      found.gathered += bytes;
    } else if (holding.pile == Pile::kActivations || holding.pile == Pile::kTemporary) {
      found.activations += bytes;
      if (is_of_logits(holding)) found.logits += bytes;
      if (is_of_scores(holding)) found.scores += bytes;
      if (holding.rule == "autocast.weight-cast") found.copies += bytes;
    } else {
      found.states += bytes;
      if (holding.pile == Pile::kOptimizerMoments) found.moments += bytes;
      if (holding.pile == Pile::kMasterWeights) found.masters += bytes;
      if (holding.pile == Pile::kGradients) found.gradients += bytes;
    }
  }
  return found;
}

}  // namespace steelyard
