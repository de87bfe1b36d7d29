// The rules of the verdict for a text that stands beside its run: whether the run as it is configured can have died so, and
// where it cannot, what of it was missing.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "diagnose/expected_requests.h"
#include "diagnose/failure_view.h"
#include "diagnose/run_composition.h"
#include "diagnose/settings_taken_back.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMebiOfText = std::int64_t{1} << 20;

bool holds(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

Phase phase_of_failure(const FailureView& view) {
  switch (view.origin.role) {
    case StackRole::kOptimizer:
    case StackRole::kOptimizerState:
      return Phase::kOptimizer;
    case StackRole::kBackward:
    case StackRole::kThread:
      return Phase::kBackward;
    case StackRole::kLoad:
    case StackRole::kMaster:
      return Phase::kLoad;
    case StackRole::kSave:
      return Phase::kCheckpoint;
    default:
      break;
  }
  if (view.origin.bucket) return Phase::kLoad;
  for (const Phase one :
       {Phase::kLoad, Phase::kForward, Phase::kBackward, Phase::kOptimizer, Phase::kCheckpoint})
    if (view.failure.phase == name_of(one)) return one;
  return Phase::kForward;
}

class AgainstRun {
 public:
  AgainstRun(const FailureView& view, std::vector<Finding>& findings)
      : view_(view),
        findings_(findings),
        job_(*view.question.job),
        index_(rank_index_of(*view.question.prediction, view.failure.rank)),
        rank_(view.question.prediction->ranks[index_]),
        now_(phase_of_failure(view)),
        usable_(view.question.prediction->usable.value().value()) {}

  void run() {
    if (now_ == Phase::kLoad) return loading();
    // Frames that name the cause stand, whatever the run should hold then.
    if (is_decisive(view_.origin) || has_found(Cause::kFullCheckpointOnRank0, 0.7)) return;
    if (!view_.allocated) return composition();
    const std::int64_t most = most_allocated(rank_, now_);
    if (needed() > most + std::max(most / 20, 64 * kMebiOfText)) return more_than_predicted(most);
    if (now_ == Phase::kForward || now_ == Phase::kBackward) {
      first_stage();
      longer_than_others();
      composition();
      in_pieces_by_elimination();
    }
  }

 private:
  std::int64_t needed() const { return view_.allocated.value_or(0) + view_.tried; }
  void add(Cause cause, double certainty, std::string text, std::int64_t bytes) {
    findings_.push_back(proven(cause, certainty, std::move(text), bytes, view_.failure.place));
  }
  bool has_found(Cause cause, double least) const {
    return std::any_of(findings_.begin(), findings_.end(), [&](const Finding& finding) {
      return finding.cause == cause && finding.certainty >= least;
    });
  }
  // Of what the text alone says: at most so sure.
  void doubt(Cause cause, double most) {
    for (Finding& finding : findings_)
      if (finding.cause == cause) finding.certainty = std::min(finding.certainty, most);
  }

  std::int64_t states() const {
    std::int64_t bytes = 0;
    for (const PhasePrediction& phase : rank_.phases)
      for (const Pile one :
           {Pile::kParameters, Pile::kMasterWeights, Pile::kOptimizerMoments, Pile::kGradients})
        if (phase.phase == Phase::kOptimizer) bytes += phase.piles[one].value().value();
    return bytes;
  }

  // Whole on a rank that should have a part, or too large for any rank.
  void loading() {
    if (states() > usable_) {
      doubt(Cause::kLoadFullModel, 0.6);
      doubt(Cause::kAllGatherOrBucket, 0.4);
      // A failed copy of the weights in 32 bits is what did not fit: the states beside it are why nothing else helps.
      add(Cause::kModelTooLarge, view_.origin.role == StackRole::kMaster ? 0.7 : 0.9,
          fmt::format("parameters, gradients and optimizer state need {} of {}",
                      print(Bytes(states())), print(Bytes(usable_))),
          states());
      return;
    }
    const std::int64_t most = most_allocated(rank_, Phase::kLoad);
    if (view_.allocated && needed() > most + most / 10 + 32 * kMebiOfText &&
        view_.origin.role != StackRole::kMaster)
      add(Cause::kLoadFullModel, 0.87,
          fmt::format("{} while the model is loaded, where the run needs {}",
                      print(Bytes(needed())), print(Bytes(most))),
          needed() - most);
  }

  void more_than_predicted(std::int64_t most) {
    if (gradients_in_forward()) return;
    const SizeRange segment = segment_range(view_.tried);
    const auto& own = requests();
    const auto here = nearest_request(own, now_, segment, *view_.allocated);
    const bool ignored = ignored_setting(most, segment, here.has_value());
    std::int64_t largest = 0;
    for (const ExpectedRequest& request : own)
      if (request.phase == now_) largest = std::max(largest, request.segment);
    const bool larger = largest > 0 && segment.low > largest + largest / 8;
    if (larger && job_.parallel.expert.value() > 1) larger_than_any(largest, Cause::kMoeImbalance);
    if (larger && !ignored) return larger_than_any(largest, Cause::kLongestBatch);
    // One that died in its first step has kept nothing of an earlier one.
    const bool first = view_.failure.step && *view_.failure.step < 1;
    const std::int64_t beyond = here ? std::min(here->beyond, needed() - most) : needed() - most;
    const bool in_optimizer = now_ == Phase::kOptimizer;
    add(Cause::kLeakOrKeptGraph,
        first                        ? 0.3
        : ignored                    ? 0.5
        : in_optimizer               ? 0.94
        : in_pieces(needed() - most) ? 0.5
        : !here                      ? 0.6
        : explained_otherwise_       ? 0.74
                                     : 0.82,
        fmt::format("{} allocated and requested in {}, where the run needs {}: something is kept "
                    "from earlier steps",
                    print(Bytes(needed())), name_of(now_), print(Bytes(most))),
        std::max(beyond, needed() - most));
  }

  // The request would have been served from what is reserved and free, and more lies in such pieces than stands there
  // beyond the run: it is the pieces.
  bool in_pieces(std::int64_t beyond) {
    if (view_.cached + view_.free < view_.tried || view_.cached < view_.tried ||
        view_.cached <= beyond)
      return false;
    add(Cause::kFragmentation, 0.74,
        fmt::format("{} in pieces, more than the {} that stand there beyond the run",
                    print(Bytes(view_.cached)), print(Bytes(beyond))),
        view_.cached);
    return true;
  }

  // The run fits, no more is allocated than it needs, and what is free would have served the request.
  void in_pieces_by_elimination() {
    const auto& own = view_.failure.own_process;
    const std::int64_t outside =
        own ? own->value().value() - view_.allocated.value_or(0) - view_.cached : 0;
    const std::int64_t usual = rank_.phases.front().runtime.value().value() + 256 * kMebiOfText;
    if (view_.cached + view_.free < view_.tried || view_.cached * 2 < view_.tried ||
        outside > usual || view_.failure.other_processes ||
        !fits_without_pieces(*view_.question.prediction, rank_))
      return;
    doubt(Cause::kActivations, 0.6);
    add(Cause::kFragmentation, 0.78,
        fmt::format("the run fits and has no more allocated than it needs; {} are reserved and "
                    "free beside {} free on the device: in pieces",
                    print(Bytes(view_.cached)), print(Bytes(view_.free))),
        view_.cached);
  }

  void larger_than_any(std::int64_t largest, Cause cause) {
    // One request that is too large tells a longer batch from a run that is not the configured one in part only.
    add(cause, cause == Cause::kMoeImbalance ? 0.84 : 0.74,
        fmt::format("{} requested at once; the largest request of the run in {} is {}",
                    print(Bytes(view_.tried)), name_of(now_), print(Bytes(largest))),
        view_.tried - largest);
  }

  // The gradients of the step before are there while the next one runs forward.
  bool gradients_in_forward() {
    if (now_ != Phase::kForward) return false;
    std::int64_t here = 0;
    std::int64_t gradients = 0;
    for (const PhasePrediction& phase : rank_.phases) {
      if (phase.phase == now_) here = phase.allocated.value().value();
      gradients = std::max(gradients, phase.piles[Pile::kGradients].value().value());
    }
    const std::int64_t beyond = *view_.allocated - here;
    if (gradients * 10 < *view_.allocated || beyond * 10 < gradients * 6 ||
        beyond > gradients + gradients / 4)
      return false;
    add(Cause::kGradients, 0.84,
        fmt::format("{} allocated where forward needs {}: the difference is the gradients' {}",
                    print(Bytes(*view_.allocated)), print(Bytes(here)), print(Bytes(gradients))),
        beyond);
    return true;
  }

  // What the frames say of a setting: 1 that it is not there, -1 that it is.
  int frames_say_missing(SavingSetting setting) const {
    const StackOrigin& origin = view_.origin;
    const bool forward = origin.role == StackRole::kForward;
    const bool in_layer =
        forward && (frames_say(view_.failure, "mlp") || frames_say(view_.failure, "attn") ||
                    frames_say(view_.failure, "decoder_layer"));
    const bool optimizer =
        origin.role == StackRole::kOptimizer || origin.role == StackRole::kOptimizerState;
    const bool plain_optimizer = optimizer && frames_say(view_.failure, "torch/optim/");
    switch (setting) {
      case SavingSetting::kRecomputation:
        return origin.recomputes ? -1 : in_layer ? 1 : 0;
      case SavingSetting::kAttention:
        return origin.eager ? 1 : origin.fused ? -1 : 0;
      case SavingSetting::kAdapter:
        return origin.adapter ? -1 : in_layer && origin.linear ? 1 : 0;
      case SavingSetting::kEightBitOptimizer:
      case SavingSetting::kOffload:
        return plain_optimizer ? 1 : optimizer ? -1 : 0;
      case SavingSetting::kSharding:
        return frames_say(view_.failure, "nn/parallel/distributed.py") ? 1 : 0;
      default:
        return 0;
    }
  }

  // The run without one of its settings can have died so: the one that the frames name, else the one that is nearest.
  // `own`: the run as it is makes such a request, too.
  bool ignored_setting(std::int64_t most, SizeRange segment, bool own) {
    double best_score = 0;
    std::string best_text;
    Cause best_cause = Cause::kSettingIgnored;
    std::int64_t best_most = 0;
    for (const RunWithout& without : runs_without_settings(view_.question)) {
      const std::size_t index = rank_index_of(without.prediction, view_.failure.rank);
      const std::int64_t then = most_allocated(without.prediction.ranks[index], now_);
      const int said = frames_say_missing(without.setting);
      if (said < 0 || then * 10 < most * 11 || needed() > then + then / 25 + 64 * kMebiOfText)
        continue;
      const auto match =
          nearest_request(expected_requests(without.job, index), now_, segment, *view_.allocated);
      explained_otherwise_ = true;
      // In other types or with whole weights all requests have other sizes: one of the run's own speaks against it.
      const bool changes_sizes = without.setting == SavingSetting::kPrecision ||
                                 without.setting == SavingSetting::kAttention;
      const bool as_much = !own && needed() * 10 >= then * 9;
      if (said == 0 && ((own && changes_sizes) || (!match && !as_much))) continue;
      const double off = match ? static_cast<double>(std::abs(match->beyond)) /
                                     static_cast<double>(std::max<std::int64_t>(needed(), 1))
                               : 1;
      const double score = (said > 0 ? 2 : 0) + (off < 0.012 || as_much ? 1.0
                                                 : off < 0.03           ? 0.6
                                                                        : 0.3);
      if (score < best_score || (score == best_score && then >= best_most)) continue;
      best_score = score;
      best_most = then;
      best_cause = cause_of_missing(without);
      best_text = fmt::format("{} in {} where {} allows {}; without it {} are expected",
                              print(Bytes(needed())), name_of(now_), without.words,
                              print(Bytes(most)), print(Bytes(then)));
    }
    if (best_score == 0) return false;
    const bool replicated = best_cause == Cause::kParametersReplicated;
    add(best_cause,
        replicated          ? (best_score >= 0.9 ? 0.95 : 0.6)
        : best_score >= 2   ? 0.9
        : best_score >= 0.9 ? 0.85
                            : 0.7,
        best_text, needed() - most);
    return best_score >= 0.9;
  }

  // The states are divided, and the gradients are not.
  bool whole_gradients(const Composition& has) const {
    return job_.parallel.data.value() > 1 && has.gradients * 3 > has.all() &&
           has.gradients > has.moments + has.masters;
  }

  void first_stage() {
    const auto& ranks = view_.question.prediction->ranks;
    if (job_.parallel.pipeline.value() < 2 || rank_.pipeline != 0 || ranks.size() < 2) return;
    const Composition here = composition_of(job_, index_, now_);
    if (ranks[0].allocated <= ranks[1].allocated || here.activations * 4 < here.all() ||
        here.logits * 3 > here.activations)
      return;
    add(Cause::kPipelineFirstStage, 0.84,
        fmt::format("stage 1 of {} keeps {} of activations for micro-batches in flight; the next "
                    "needs {} less",
                    job_.parallel.pipeline.value(), print(Bytes(here.activations)),
                    print(ranks[0].allocated - ranks[1].allocated)),
        here.activations);
  }

  // Those of the run as it is, made when first asked for: a step is played for them.
  const std::vector<ExpectedRequest>& requests() const {
    if (!requests_) requests_ = expected_requests(job_, index_);
    return *requests_;
  }

  // Whether a step has passed: the log says so, or the optimizer's state is there. The request is looked for in the run's
  // first step and in a later one: where only one of them has it with as much allocated, that step is the one.
  std::optional<bool> step_passed() const {
    if (view_.failure.step) return *view_.failure.step > 1;
    if (now_ != Phase::kForward) return std::nullopt;
    std::int64_t first = 0;
    for (const PhasePrediction& one : rank_.first_step.phases)
      if (one.phase == now_) first = one.allocated.value().value();
    if (first > 0 && needed() > first + std::max(first / 33, 48 * kMebiOfText)) return true;
    const SizeRange segment = segment_range(view_.tried);
    const auto off = [&](bool first_step) {
      const auto match = nearest_request(requests(), now_, segment, *view_.allocated, first_step);
      return match ? std::abs(match->beyond) : INT64_MAX / 8;
    };
    const std::int64_t of_first = off(true);
    const std::int64_t of_later = off(false);
    const std::int64_t exact = std::max(*view_.allocated / 250, 12 * kMebiOfText);
    if (of_later <= exact && of_first > 3 * of_later + 2 * exact) return true;
    if (of_first <= exact && of_later > 3 * of_first + 2 * exact) return false;
    return std::nullopt;
  }

  // One of this length does not fit even without the optimizer's state, so those that passed were shorter.
  void longer_than_others() {
    if (rank_.first_step.reserved.value().value() == 0 || !step_passed().value_or(false)) return;
    const std::int64_t runtime = rank_.phases.front().runtime.value().value();
    const std::int64_t first_needs = rank_.first_step.reserved.value().value() + runtime;
    const double over = static_cast<double>(first_needs) / static_cast<double>(usable_);
    if (over < 0.98) return;
    const bool proven_too_large = rank_.first_step.allocated.value().value() + runtime > usable_ ||
                                  (over > 1.05 && now_ == Phase::kForward);
    add(Cause::kLongestBatch, proven_too_large ? 0.9 : 0.66,
        fmt::format("steps have passed, though one with batches of {} tokens needs {} of {}",
                    print_count(Checked(job_.training.sequence_length.value())),
                    print(Bytes(first_needs)), print(Bytes(usable_))),
        first_needs - usable_);
    if (!proven_too_large) return;
    // What fills the device then is of the longer batch.
    most_of_parts_ = 0.6;
    for (const Cause part : {Cause::kActivations, Cause::kLogits, Cause::kAttentionScores,
                             Cause::kAutocastCopies, Cause::kFragmentation})
      doubt(part, most_of_parts_);
  }

  void composition() {
    if (now_ != Phase::kForward && now_ != Phase::kBackward) return;
    const Phase fuller = std::max(now_, Phase::kBackward);
    const Composition has = composition_of(job_, index_, fuller);
    const auto say = [&](Cause cause, std::int64_t bytes, double certainty, std::string_view what) {
      add(cause, std::min(certainty, most_of_parts_),
          fmt::format("the run has {} of {} in {}", print(Bytes(bytes)), what, name_of(fuller)),
          bytes);
    };
    const auto share = [&](std::int64_t bytes) {
      return static_cast<double>(bytes) /
             static_cast<double>(std::max<std::int64_t>(has.activations, 1));
    };
    // In forward the logits come last: a failure within the layers is not theirs.
    const bool in_layers = now_ == Phase::kForward && view_.origin.role == StackRole::kForward &&
                           !frames_say(view_.failure, "lm_head");
    const bool in_loss = view_.origin.role == StackRole::kLoss;
    bool special = false;
    // A run that never makes such a request there is not quite the one that died.
    const bool own =
        nearest_request(requests(), now_, segment_range(view_.tried), view_.allocated.value_or(0))
            .has_value();
    if (view_.tried >= 24 * kMebiOfText && !own) most_of_parts_ = std::min(most_of_parts_, 0.66);
    if (share(has.logits) > 0.4 && has.logits * 10 > has.all() && !in_layers) {
      say(Cause::kLogits, has.logits, share(has.logits) > 0.6 || in_loss ? 0.86 : 0.72,
          "logits and their gradients");
      special = true;
    } else if (in_loss) {
      doubt(Cause::kLogits, share(has.logits) > 0.25 ? 0.6 : 0.4);
    }
    if (share(has.scores) > 0.33 && has.scores * 10 > has.all()) {
      say(Cause::kAttentionScores, has.scores, share(has.scores) > 0.5 ? 0.84 : 0.74,
          "attention scores");
      special = true;
    }
    if (share(has.copies) > 0.3 && has.copies * 10 > has.all()) {
      say(Cause::kAutocastCopies, has.copies, share(has.copies) > 0.5 ? 0.86 : 0.76,
          "16-bit copies of weights");
      special = true;
    }
    // Where the run keeps little for backward, a request in forward or backward is not what filled the device.
    if (has.activations * 5 < has.all()) doubt(Cause::kActivations, 0.4);
    if (has.gathered * 3 > has.all())
      say(Cause::kAllGatherOrBucket, has.gathered, has.gathered * 5 > has.all() * 2 ? 0.7 : 0.62,
          "gathered parameters and buckets");
    if (whole_gradients(has))
      say(Cause::kGradients, has.gradients, 0.8, "gradients that every rank has in whole");
    if (has.states * 4 > has.all() * 3)
      say(Cause::kModelTooLarge, has.states, 0.66, "parameters, gradients and optimizer state");
    if (has.activations * 5 > has.all() * 2)
      say(Cause::kActivations, has.activations, special ? 0.45 : 0.6, "activations");
    // Right after the first step the moments are new.
    if (view_.failure.step && *view_.failure.step <= 2 && has.moments * 6 > has.all() &&
        view_.allocated && needed() > rank_.first_step.allocated.value().value())
      say(Cause::kOptimizerStateFirstStep, has.moments, 0.6,
          "optimizer state, new since the first step");
  }

  const FailureView& view_;
  std::vector<Finding>& findings_;
  const Job& job_;
  std::size_t index_;
  const RankPrediction& rank_;
  Phase now_;
  std::int64_t usable_;
  mutable std::optional<std::vector<ExpectedRequest>> requests_;
  bool explained_otherwise_ = false;  // without one of its settings the run needs as much
  double most_of_parts_ = 1;          // how sure a part of what is alive may be as the cause
};

}  // namespace

bool frames_say(const MemoryFailure& failure, std::string_view word) {
  return std::any_of(failure.frames.begin(), failure.frames.end(),
                     [&](const std::string& frame) { return holds(frame, word); });
}

SizeRange segment_range(std::int64_t tried) {
  const std::int64_t printed =
      tried >= (std::int64_t{1} << 30) ? (std::int64_t{1} << 30) / 200 : kMebiOfText / 200;
  return {tried - printed, tried + printed};
}

bool is_decisive(const StackOrigin& origin) {
  return origin.dequantises || origin.role == StackRole::kSave ||
         origin.role == StackRole::kEvaluation;
}

void hold_failure_against_run(const FailureView& view, std::vector<Finding>& findings) {
  const Prediction* prediction = view.question.prediction;
  if (view.question.job == nullptr || prediction == nullptr || prediction->ranks.empty()) return;
  AgainstRun(view, findings).run();
}

}  // namespace steelyard
