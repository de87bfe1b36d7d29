#include "predict/suggest.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "predict/host_room.h"
#include "predict/moves.h"
#include "predict/whether_it_fits.h"

namespace steelyard {

namespace {

constexpr std::size_t kWanted = 3;
constexpr std::size_t kMostMoves = 4;
constexpr int kMostWeighings = 400, kMostOfAdapter = 60;

// Some of the moves, applied in the order of the list.
struct Attempt {
  Job job;  // before the last of them
  Suggestion suggestion;
  std::vector<std::size_t> applied;
  std::size_t next = 0;  // the first move that may follow
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
  suggestion.parts.push_back({move.change, move.moves_cost_to});
  suggestion.change += (suggestion.change.empty() ? "" : " + ") + move.change;
  suggestion.cost += (suggestion.cost.empty() ? "" : "; ") + move.cost;
  if (move.moves_cost_to == "nothing" ||
      suggestion.moves_cost_to.find(move.moves_cost_to) != std::string::npos)
    return;
  suggestion.moves_cost_to += (suggestion.moves_cost_to.empty() ? "" : ", ") + move.moves_cost_to;
}

bool grows_cluster(const Move& move) { return move.moves_cost_to == "devices"; }

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

// Uniform-cost search: combinations are weighed in the order of their price, so the first that fit are the cheapest.
class Search {
 public:
  Search(const Job& job, const Prediction& prediction, const Rewritten& rewritten)
      : job_(job), prediction_(prediction), rewritten_(rewritten), moves_(moves()) {
    ordinary_ = moves_.size();
    for (Move& move : adapter_moves()) moves_.push_back(std::move(move));
  }

  std::vector<Suggestion> found() && {
    Attempt start;
    start.job = job_;
    start.phases = sum_of_phases(prediction_);
    start.host = prediction_.host_of_node;
    for (std::size_t move = 0; move < ordinary_; ++move) propose(start, move);
    find(kWanted, kMostWeighings);
    for (std::size_t adapter = ordinary_; adapter < moves_.size(); ++adapter) {
      waiting_.clear();
      propose(start, adapter);
      find(1, kMostOfAdapter);
    }
    return std::move(found_);
  }

 private:
  // The attempt with one more move, to be weighed when its price is due.
  void propose(const Attempt& attempt, std::size_t move) {
    const auto edits = moves_[move].edits(attempt.job);
    if (!edits) return;
    Attempt next = attempt;
    next.suggestion.edits.insert(next.suggestion.edits.end(), edits->begin(), edits->end());
    apply_words(moves_[move], next.suggestion);
    next.applied.push_back(move);
    next.next = move < ordinary_ ? move + 1 : 0;
    next.price += moves_[move].price;
    waiting_.emplace(next.price, std::move(next));
  }

  void find(std::size_t wanted, int most_weighings) {
    const std::size_t enough = found_.size() + wanted;
    weighings_ = 0;
    while (!waiting_.empty() && found_.size() < enough && weighings_ < most_weighings) {
      Attempt attempt = std::move(waiting_.begin()->second);
      waiting_.erase(waiting_.begin());
      if (contains_one_found(attempt.applied) || !try_it(attempt)) continue;
      if (attempt.applied.size() == kMostMoves) continue;
      for (std::size_t move = attempt.next; move < ordinary_; ++move) propose(attempt, move);
    }
  }

  // Whether it is worth another move.
  bool try_it(Attempt& attempt) {
    std::optional<Job> changed = rewritten_(attempt.suggestion.edits);
    if (!changed) return false;
    ++weighings_;
    std::optional<Prediction> after = weighed_or_nothing(*changed);
    if (!after) return false;
    const Bytes phases = sum_of_phases(*after);
    // The last move bought nothing here, nor where the host lacks memory.
    const bool helps_host =
        prediction_.host_verdict != Verdict::kFits && after->host_of_node < attempt.host;
    if (phases >= attempt.phases && !helps_host) return false;
    attempt.phases = phases;
    attempt.host = after->host_of_node;
    attempt.job = std::move(*changed);
    if (!is_way_out(*after)) return true;
    // What is offered has its bytes simulated.
    if (after->estimated) after = predict_fullest(attempt.job);
    if (after->peak.device >= prediction_.peak.device && !helps_host) return false;
    if (!is_minimal(attempt.applied)) return false;
    Suggestion suggestion = attempt.suggestion;
    suggestion.saves = prediction_.peak.device - after->peak.device;
    suggestion.peak = after->peak.device;
    suggestion.verdict = after->verdict;
    if (suggestion.moves_cost_to.empty()) suggestion.moves_cost_to = "nothing";
    suggestion.costs = longer_by(job_, attempt.job);
    found_moves_.push_back(attempt.applied);
    found_.push_back(std::move(suggestion));
    return false;
  }

  // A change may ask for more of a host that nobody knows: it is offered as tight, unless that is what the run lacks.
  bool is_way_out(const Prediction& after) const {
    return after.verdict == Verdict::kFits ||
           (prediction_.host_verdict == Verdict::kFits && only_host_is_unsure(after));
  }

  // A size that no number holds is no way out.
  static std::optional<Prediction> weighed_or_nothing(const Job& job) {
    try {
      return decided_whether_it_fits(job);
    } catch (const OverflowError&) {
      return std::nullopt;
    }
  }

  // A suggestion that contains another whole one, or the same with more devices, adds nothing.
  bool contains_one_found(const std::vector<std::size_t>& applied) const {
    return std::any_of(
        found_moves_.begin(), found_moves_.end(), [&](const std::vector<std::size_t>& smaller) {
          return std::all_of(smaller.begin(), smaller.end(), [&](std::size_t move) {
            return std::any_of(applied.begin(), applied.end(), [&](std::size_t here) {
              return here == move ||
                     (grows_cluster(moves_[here]) && grows_cluster(moves_[move]) && here > move);
            });
          });
        });
  }

  // Whether every move is needed: none can be left out.
  bool is_minimal(const std::vector<std::size_t>& applied) const {
    if (applied.size() == 1) return true;
    return std::none_of(applied.begin(), applied.end(), [&](std::size_t without) {
      const std::optional<Job> trial = without_one(applied, without);
      if (!trial) return false;
      const std::optional<Prediction> after = weighed_or_nothing(*trial);
      return after && is_way_out(*after);
    });
  }
  std::optional<Job> without_one(const std::vector<std::size_t>& applied,
                                 std::size_t without) const {
    std::optional<Job> trial = job_;
    RunEdits edits;
    for (const std::size_t move : applied) {
      if (move == without) continue;
      const auto proposed = moves_[move].edits(*trial);
      if (!proposed) return std::nullopt;
      edits.insert(edits.end(), proposed->begin(), proposed->end());
      trial = rewritten_(edits);
      if (!trial) return std::nullopt;
    }
    return trial;
  }

  const Job& job_;
  const Prediction& prediction_;
  const Rewritten& rewritten_;
  std::vector<Move> moves_;
  std::size_t ordinary_ = 0;  // those behind them are adapters
  std::multimap<int, Attempt> waiting_;
  std::vector<Suggestion> found_;
  std::vector<std::vector<std::size_t>> found_moves_;
  int weighings_ = 0;
};

}  // namespace

std::vector<Suggestion> suggest(const Job& job, const Prediction& prediction,
                                const Rewritten& rewritten) {
  if (prediction.verdict == Verdict::kFits) return {};
  return Search(job, prediction, rewritten).found();
}

}  // namespace steelyard
