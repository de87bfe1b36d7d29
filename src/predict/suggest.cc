// The ways out: changes of the run file that make it fit, cheapest first. Each is tried with the real predictor.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "job/unweighed_model.h"
#include "predict/host_room.h"
#include "predict/moves.h"
#include "predict/prediction.h"

namespace steelyard {

namespace {

// What certainly does not fit needs no simulation to be passed over.
Prediction weighed(const Job& job) {
  Prediction quick = estimate(job);
  return quick.verdict == Verdict::kDoesNotFit ? quick : predict(job);
}

// Some of the moves, applied in the order of the list.
struct Attempt {
  Job job;
  Suggestion suggestion;
  std::vector<std::size_t> applied;
  int price = 0;
  Bytes
      phases{};  // of the fullest rank, all phases together: what a move that does not reach the peak still lowers
  Bytes host{};  // of the fullest machine
};

Bytes sum_of_phases(const Prediction& prediction) {
  Bytes largest{};
  for (const RankPrediction& rank : prediction.ranks) {
    Bytes sum{};
    for (const PhasePrediction& phase : rank.phases) sum += phase.allocated;
    largest = std::max(largest, sum);
  }
  return largest;
}

void apply_words(const Move& move, Suggestion& suggestion) {
  suggestion.change += (suggestion.change.empty() ? "" : " + ") + move.change;
  suggestion.cost += (suggestion.cost.empty() ? "" : "; ") + move.cost;
  if (move.moves_cost_to == "nothing" ||
      suggestion.moves_cost_to.find(move.moves_cost_to) != std::string::npos)
    return;
  suggestion.moves_cost_to += (suggestion.moves_cost_to.empty() ? "" : ", ") + move.moves_cost_to;
}

bool grows_cluster(const Move& move) { return move.moves_cost_to == "devices"; }

// A suggestion that contains another whole one, or the same with more devices, adds nothing.
bool contains_one_of(const std::vector<std::size_t>& applied,
                     const std::vector<std::vector<std::size_t>>& found,
                     const std::vector<Move>& all) {
  return std::any_of(found.begin(), found.end(), [&](const std::vector<std::size_t>& smaller) {
    return std::all_of(smaller.begin(), smaller.end(), [&](std::size_t move) {
      return std::any_of(applied.begin(), applied.end(), [&](std::size_t here) {
        return here == move ||
               (grows_cluster(all[here]) && grows_cluster(all[move]) && here > move);
      });
    });
  });
}

// A change may ask for more of a host that nobody knows: it is offered as tight, unless that is what the run lacks.
bool is_way_out(const Prediction& before, const Prediction& after) {
  return after.verdict == Verdict::kFits ||
         (before.host_verdict == Verdict::kFits && only_host_is_unsure(after));
}

// Whether every move is needed: none can be left out.
bool is_minimal(const Job& job, const Prediction& prediction,
                const std::vector<std::size_t>& applied, const std::vector<Move>& all) {
  for (std::size_t without : applied) {
    Job trial = job;
    std::vector<Suggestion::Edit> edits;
    bool possible = applied.size() > 1;
    for (std::size_t move : applied)
      if (move != without) possible = possible && all[move].apply(trial, edits);
    if (possible && is_way_out(prediction, weighed(trial))) return false;
  }
  return true;
}

// For the tokens of one step of `job`.
std::optional<Seconds> longer_by(const Job& job, const Job& changed) {
  const std::optional<StepTime> before = predict_time(job), after = predict_time(changed);
  if (!before || !after) return std::nullopt;
  const auto tokens = [](const Job& of) {
    return static_cast<double>(of.training.global_batch) *
           static_cast<double>(of.training.sequence_length.value());
  };
  return Seconds(after->step.value() * tokens(job) / tokens(changed) - before->step.value());
}

constexpr std::size_t kWanted = 3;
constexpr std::size_t kMostMoves = 4;
constexpr int kMostWeighings = 400;

}  // namespace

// Uniform-cost search: combinations are weighed in the order of their price, so the first that fit are the cheapest.
std::vector<Suggestion> suggest(const Job& job, const Prediction& prediction) {
  std::vector<Suggestion> found;
  if (prediction.verdict == Verdict::kFits) return found;
  const std::vector<Move> all = moves();
  std::vector<std::vector<std::size_t>> found_sets;
  std::multimap<int, Attempt> waiting;
  waiting.emplace(0, Attempt{job, {}, {}, 0, sum_of_phases(prediction), prediction.host_of_node});
  int weighings = 0;
  while (!waiting.empty() && found.size() < kWanted && weighings < kMostWeighings) {
    Attempt attempt = std::move(waiting.begin()->second);
    waiting.erase(waiting.begin());
    if (!attempt.applied.empty()) {
      if (contains_one_of(attempt.applied, found_sets, all)) continue;
      const Prediction after = weighed(attempt.job);
      ++weighings;
      Suggestion& suggestion = attempt.suggestion;
      const Bytes phases = sum_of_phases(after);
      // The last move bought nothing here, nor where the host lacks memory.
      const bool helps_host =
          prediction.host_verdict != Verdict::kFits && after.host_of_node < attempt.host;
      if (phases >= attempt.phases && !helps_host) continue;
      attempt.phases = phases;
      attempt.host = after.host_of_node;
      const bool way_out = is_way_out(prediction, after);
      if (way_out && after.peak.device >= prediction.peak.device && !helps_host) continue;
      suggestion.saves = prediction.peak.device - after.peak.device;
      suggestion.peak = after.peak.device;
      suggestion.verdict = after.verdict;
      if (way_out) {
        if (!is_minimal(job, prediction, attempt.applied, all)) continue;
        if (suggestion.moves_cost_to.empty()) suggestion.moves_cost_to = "nothing";
        suggestion.costs = longer_by(job, attempt.job);
        found_sets.push_back(attempt.applied);
        found.push_back(suggestion);
        continue;
      }
    }
    if (attempt.applied.size() == kMostMoves) continue;
    const std::size_t first = attempt.applied.empty() ? 0 : attempt.applied.back() + 1;
    for (std::size_t index = first; index < all.size(); ++index) {
      Attempt next = attempt;
      std::vector<Suggestion::Edit> edits;
      if (!all[index].apply(next.job, edits) || unweighed_model(next.job) != nullptr) continue;
      next.suggestion.edits.insert(next.suggestion.edits.end(), edits.begin(), edits.end());
      apply_words(all[index], next.suggestion);
      next.applied.push_back(index);
      next.price += all[index].price;
      waiting.emplace(next.price, std::move(next));
    }
  }
  return found;
}

}  // namespace steelyard
