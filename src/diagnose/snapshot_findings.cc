// The rules of the verdict that rest on a history: who was alive, where the failure lies, and what is older than this step.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "diagnose/diagnosis.h"
#include "diagnose/shape_words.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

// What of the live bytes belongs to which topic; the failed request counts, too.
struct Topics {
  std::int64_t logits = 0, scores = 0, autocast = 0, experts = 0, dequantised = 0, gathered = 0;
  std::int64_t activations = 0;  // and temporaries, all of the above but gathered
  std::int64_t states = 0;       // parameters, gradients, master weights, moments
};

std::string gib(std::int64_t bytes) { return print(Bytes(bytes)); }

class SnapshotRules {
 public:
  SnapshotRules(const SnapshotView& view, const DiagnosisQuestion& question,
                std::optional<Bytes> capacity)
      : evidence_(*view.evidence),
        moment_(*view.moment),
        attribution_(*view.attribution),
        question_(question),
        capacity_(capacity ? capacity->value().value() : 0),
        failed_(moment_.kind == DeviceMoment::Kind::kFailure),
        wanted_(failed_ ? moment_.tried : 0),
        whole_(std::max<std::int64_t>(moment_.live + wanted_, 1)) {
    place_ = {evidence_.file,
              moment_.kind == DeviceMoment::Kind::kState
                  ? std::string("the state at the dump")
                  : fmt::format("event {}",
                                print_count(Checked(static_cast<std::int64_t>(moment_.event))))};
  }

  std::vector<Finding> run() {
    sort_topics();
    fragmentation();
    outside();
    kept_from_earlier();
    longer_batch();
    by_part();
    by_topic();
    against_run();
    return std::move(findings_);
  }

 private:
  Finding& add(Cause cause, double certainty, std::string text,
               std::optional<std::int64_t> bytes = {}) {
    Finding finding;
    finding.cause = cause;
    finding.certainty = certainty;
    finding.proof.push_back(
        {std::move(text), bytes ? std::optional(Bytes(*bytes)) : std::nullopt, place_});
    findings_.push_back(std::move(finding));
    return findings_.back();
  }
  std::int64_t pile(Pile pile) const { return attribution_.piles[pile].value().value(); }

  std::optional<Shape> shape(std::int64_t size) const {
    if (question_.job == nullptr) return std::nullopt;
    return shape_of({size - 511, size}, *question_.job);
  }

  // As many blocks of half a weight's bytes as there are such weights, made where the weights are used.
  static bool is_copy_of_weights(const BlockGroup& group,
                                 const std::map<std::int64_t, std::int64_t>& parameters) {
    const auto weights = parameters.find(2 * group.size);
    if (weights == parameters.end() || group.size < (std::int64_t{1} << 16)) return false;
    return group.count * 20 >= weights->second && group.count * 10 <= weights->second * 11;
  }

  void sort_topics() {
    topics_.states = pile(Pile::kParameters) + pile(Pile::kGradients) + pile(Pile::kMasterWeights) +
                     pile(Pile::kOptimizerMoments);
    topics_.gathered = pile(Pile::kCommunication);
    topics_.activations = pile(Pile::kActivations) + pile(Pile::kTemporary);
    // Sizes that the loss itself made: a backward temporary of such a size is its gradient.
    std::int64_t largest_parameter = 0;
    std::map<std::int64_t, std::int64_t> parameters;
    for (const BlockGroup& group : attribution_.groups) {
      if (group.role == StackRole::kLoss && group.size >= (std::int64_t{1} << 20))
        loss_sizes_.insert(group.size);
      if (group.pile == Pile::kParameters) parameters[group.size] += group.count;
      if (group.pile == Pile::kParameters)
        largest_parameter = std::max(largest_parameter, group.size);
    }
    const auto take = [&](const BlockGroup& group, std::int64_t bytes) {
      const auto known = shape(group.size);
      const bool activation =
          group.pile == Pile::kActivations || group.pile == Pile::kTemporary || !group.pile;
      if (!activation) return;
      const bool logits = (known && known->kind == ShapeKind::kLogitsShape) ||
                          group.role == StackRole::kLoss || loss_sizes_.count(group.size) > 0 ||
                          loss_sizes_.count(2 * group.size) > 0;
      if (logits)
        topics_.logits += bytes;
      else if ((known && known->kind == ShapeKind::kScoresShape) ||
               (group.origin.softmax && group.role != StackRole::kLoss) ||
               score_sizes_.count(group.size) > 0)
        topics_.scores += bytes;
      else if (group.origin.dequantises)
        topics_.dequantised += bytes;
      else if (group.origin.linear && parameters.count(2 * group.size) > 0 &&
               group.role == StackRole::kForward && 2 * group.count >= parameters[2 * group.size] &&
               group.size < parameters.rbegin()->first + 1)
        topics_.autocast += bytes;
      else if (group.origin.experts)
        topics_.experts += bytes;
    };
    for (const BlockGroup& group : attribution_.groups)
      if (group.origin.softmax && group.role != StackRole::kLoss &&
          group.size >= (std::int64_t{1} << 20))
        score_sizes_.insert(group.size);
    for (const BlockGroup& group : attribution_.groups) take(group, group.total());
    if (wanted_ > 0) {
      BlockGroup asked;
      asked.pile = Pile::kTemporary;
      asked.origin = attribution_.failing;
      asked.role = attribution_.failing.role;
      asked.site = attribution_.failing.site;
      asked.size = wanted_;
      asked.count = 1;
      if (attribution_.part == RunPart::kForward || attribution_.part == RunPart::kLossPart ||
          attribution_.part == RunPart::kBackward) {
        topics_.activations += wanted_;
        take(asked, wanted_);
      }
    }
  }

  void fragmentation() {
    if (!failed_) return;
    const std::int64_t cached = moment_.reserved - moment_.live - moment_.rounding;
    if (cached + moment_.device_free < wanted_ || cached <= 0) return;
    const double share = static_cast<double>(cached) /
                         static_cast<double>(std::max<std::int64_t>(moment_.reserved, 1));
    const double ratio =
        static_cast<double>(cached) / static_cast<double>(std::max<std::int64_t>(wanted_, 1));
    // What is left in segments of other sizes is usual: a twentieth. A tenth, and more than was asked for, is not.
    const double certainty = share >= 0.1 && ratio >= 1.5  ? 0.95
                             : share >= 0.07 && ratio >= 2 ? 0.75
                             : share >= 0.05 && ratio >= 1 ? 0.5
                                                           : 0.3;
    Finding& finding =
        add(Cause::kFragmentation, certainty,
            fmt::format(
                "{} reserved and free, {:.1f} times the {} requested, but the largest gap is {}",
                gib(cached), ratio, gib(wanted_), gib(moment_.largest_gap)),
            cached);
    if (moment_.largest_gap >= wanted_) {
      finding.certainty = 0.3;
      finding.counter.push_back(
          "a gap is large enough: it lies in a pool of another stream or size");
    }
  }

  void outside() {
    if (!failed_ || capacity_ <= 0) return;
    const std::int64_t beside = capacity_ - moment_.reserved - moment_.device_free;
    std::int64_t usual = std::int64_t{3} << 29;
    if (question_.prediction != nullptr && !question_.prediction->ranks.empty() &&
        !question_.prediction->ranks[0].phases.empty())
      usual = question_.prediction->ranks[0].phases[0].runtime.value().value() +
              (std::int64_t{1} << 29);
    if (beside < usual + wanted_ || beside < capacity_ / 8) return;
    add(Cause::kNcclOrContext, beside - usual > capacity_ * 3 / 10 ? 0.94 : 0.8,
        fmt::format("{} of the device are neither free nor reserved by this allocator",
                    gib(beside)),
        beside);
  }

  // Where the step that the moment lies in begins: the first forward after the last optimizer step or backward.
  std::int64_t step_begin() const {
    const auto& events =
        evidence_.history->devices[static_cast<std::size_t>(moment_.device)].events;
    std::int64_t begin = 0;
    bool left = false;
    for (std::size_t index = 0; index < moment_.event && index < parts().size(); ++index) {
      if (events[index].action != RecordedAction::kAlloc) continue;
      const RunPart part = parts()[index];
      if (part == RunPart::kOptimizerStep || part == RunPart::kBackward) left = true;
      if (left && (part == RunPart::kForward || part == RunPart::kEvaluating)) {
        begin = static_cast<std::int64_t>(index);
        left = false;
      }
    }
    return begin;
  }
  const std::vector<RunPart>& parts() const {
    if (parts_.empty())
      parts_ =
          parts_of_events(*evidence_.history, static_cast<std::size_t>(moment_.device), origins());
    return parts_;
  }

  const std::vector<StackOrigin>& origins() const {
    if (origins_.empty()) origins_ = stack_origins(*evidence_.history);
    return origins_;
  }

  void kept_from_earlier() {
    if (moment_.kind == DeviceMoment::Kind::kState) return;
    const std::int64_t begin = step_begin();
    if (begin <= 0) return;
    std::int64_t kept = 0;
    for (const AttributedBlock& one : attribution_.blocks) {
      if (one.block.born < 0 || one.block.born >= begin) continue;
      if (one.role != StackRole::kForward && one.role != StackRole::kLoss) continue;
      kept += one.block.size;
    }
    // In accumulation and pipelines one backward frees all; what outlives an optimizer step is kept.
    if (kept < whole_ / 25 || attribution_.steps_before < 1) return;
    add(Cause::kLeakOrKeptGraph,
        kept >= wanted_ && attribution_.steps_before > 1
            ? 0.96
            : std::min(0.95, 0.75 + static_cast<double>(kept) / static_cast<double>(whole_)),
        fmt::format("{} of forward tensors are older than this step and still alive", gib(kept)),
        kept);
  }

  void longer_batch() {
    if (moment_.kind == DeviceMoment::Kind::kState) return;
    const std::int64_t begin = step_begin();
    if (begin <= 0) return;
    const auto& device = evidence_.history->devices[static_cast<std::size_t>(moment_.device)];
    std::map<std::int32_t, std::int64_t> before;
    std::map<std::int32_t, std::int64_t> now;
    for (std::size_t index = 0; index < moment_.event && index < device.events.size(); ++index) {
      const RecordedEvent& event = device.events[index];
      if (event.action != RecordedAction::kAlloc || event.stack == 0) continue;
      const RunPart part = parts()[index];
      if (part != RunPart::kForward && part != RunPart::kLossPart) continue;
      std::int64_t& largest =
          (static_cast<std::int64_t>(index) < begin ? before : now)[event.stack];
      largest = std::max(largest, event.size);
    }
    std::int64_t compared = 0;
    std::int64_t longer = 0;
    std::int64_t of_experts = 0;
    double growth = 0;
    for (const auto& [stack, size] : now) {
      const auto old = before.find(stack);
      if (old == before.end() || size < (std::int64_t{1} << 16)) continue;
      compared += size;
      if (size * 8 > old->second * 9) {
        longer += size;
        if (origins()[static_cast<std::size_t>(stack)].experts) of_experts += size;
        growth = std::max(growth, static_cast<double>(size) /
                                      static_cast<double>(std::max<std::int64_t>(old->second, 1)));
      }
    }
    if (of_experts > 0 && of_experts * 10 > longer * 7)
      add(Cause::kMoeImbalance, 0.94,
          fmt::format("the experts' lines allocate up to {:.1f} times what they did before; the "
                      "others do not",
                      growth));
    if (compared == 0 || longer * 2 < compared) return;
    add(Cause::kLongestBatch, 0.93,
        fmt::format(
            "the same lines allocate up to {:.1f} times what they did in all {} steps before",
            growth, std::max<std::int64_t>(attribution_.steps_before, 1)));
  }

  void by_part() {
    if (moment_.kind == DeviceMoment::Kind::kState) return by_state();
    const StackRole role = attribution_.failing.role;
    const std::string site =
        attribution_.failing.site.empty() ? "" : " at " + attribution_.failing.site;
    switch (attribution_.part) {
      case RunPart::kLoading:
        if (role == StackRole::kMaster)
          add(Cause::kMasterWeights, 0.9,
              fmt::format("{} requested for 32-bit copies of the weights{}", gib(wanted_), site),
              wanted_);
        add(Cause::kLoadFullModel, 0.86,
            fmt::format("{} {} while the model is loaded{}", gib(moment_.live),
                        failed_ ? "were live" : "live at the peak", site),
            moment_.live);
        break;
      case RunPart::kSaving:
        add(Cause::kFullCheckpointOnRank0, 0.92,
            fmt::format("{} requested in saving{}", gib(wanted_), site), wanted_);
        break;
      case RunPart::kEvaluating:
        add(Cause::kEvaluationOrGenerationCache, 0.92,
            fmt::format("the {} lies in evaluation or generation{}", failed_ ? "failure" : "peak",
                        site),
            wanted_);
        break;
      case RunPart::kOptimizerStep:
        optimizer_step(role, site);
        break;
      default:
        break;
    }
  }

  // Without a history the places of the live blocks are all there is.
  void by_state() {
    std::int64_t loaded = 0;
    std::int64_t served = 0;
    for (const BlockGroup& group : attribution_.groups) {
      if (group.role == StackRole::kLoad) loaded += group.total();
      if (group.role == StackRole::kEvaluation || group.origin.cache) served += group.total();
    }
    if (loaded * 5 > whole_ * 4)
      add(Cause::kLoadFullModel, 0.92,
          fmt::format("{} of {} were made while the model was loaded", gib(loaded), gib(whole_)),
          loaded);
    if (served * 10 > whole_)
      add(Cause::kEvaluationOrGenerationCache, 0.84,
          fmt::format("{} made in evaluation or generation are kept", gib(served)), served);
  }

  void optimizer_step(StackRole role, const std::string& site) {
    const std::int64_t moments = pile(Pile::kOptimizerMoments);
    const bool makes_state =
        role == StackRole::kOptimizerState || (!attribution_.moments_before_history &&
                                               !attribution_.state_made_in_history && moments > 0);
    const bool first = attribution_.steps_before == 0 && !attribution_.moments_before_history;
    std::int64_t temporary = wanted_;
    for (const BlockGroup& group : attribution_.groups)
      if (group.role == StackRole::kOptimizer && group.pile == Pile::kTemporary)
        temporary += group.total();
    if (role == StackRole::kOptimizerState || (first && makes_state))
      add(Cause::kOptimizerStateFirstStep, 0.94,
          fmt::format("{} of optimizer state made in the first step, and {} more requested{}",
                      gib(moments), gib(wanted_), site),
          moments);
    if (role == StackRole::kOptimizer && temporary > moments / 100)
      add(Cause::kOptimizerTemporaries, failed_ ? (first && makes_state ? 0.7 : 0.88) : 0.7,
          fmt::format("{} of temporaries in the optimizer's step{}", gib(temporary), site),
          temporary);
  }

  void by_topic() {
    const RunPart part = attribution_.part;
    if (part != RunPart::kForward && part != RunPart::kLossPart && part != RunPart::kBackward &&
        part != RunPart::kUnknown)
      return;
    const auto share = [&](std::int64_t bytes) {
      return static_cast<double>(bytes) /
             static_cast<double>(std::max<std::int64_t>(topics_.activations, 1));
    };
    const auto special = [&](Cause cause, std::int64_t bytes, double least,
                             const std::string& text) {
      if (share(bytes) < least || bytes * 12 < whole_) return;
      add(cause, std::min(0.9, 0.62 + 0.35 * share(bytes)), text, bytes);
    };
    special(Cause::kLogits, topics_.logits, 0.4,
            fmt::format("{} of logits, their copies and gradients alive or requested",
                        gib(topics_.logits)));
    special(Cause::kAttentionScores, topics_.scores, 0.35,
            fmt::format("{} of attention scores alive or requested", gib(topics_.scores)));
    special(Cause::kAutocastCopies, topics_.autocast, 0.35,
            fmt::format("{} of 16-bit copies of weights, half the size of 32-bit ones",
                        gib(topics_.autocast)));
    special(Cause::kQuantizationDequant, topics_.dequantised, 0.3,
            fmt::format("{} made by dequantising weights", gib(topics_.dequantised)));
    special(Cause::kMoeImbalance, topics_.experts, 0.5,
            fmt::format("{} of the experts' tensors", gib(topics_.experts)));
    if (topics_.gathered * 4 > whole_)
      add(Cause::kAllGatherOrBucket,
          topics_.gathered > topics_.activations
              ? std::min(0.9,
                         0.5 + static_cast<double>(topics_.gathered) / static_cast<double>(whole_))
              : 0.45,
          fmt::format("{} of gathered parameters and buckets", gib(topics_.gathered)),
          topics_.gathered);
    const double of_all = static_cast<double>(topics_.activations) / static_cast<double>(whole_);
    if (topics_.activations * 4 > whole_)
      add(Cause::kActivations, std::min(0.85, 0.45 + 0.4 * of_all),
          fmt::format("{} of {} are activations and temporaries of this step",
                      gib(topics_.activations), gib(whole_)),
          topics_.activations);
    // The first step passed with as much: since then the optimizer has its state.
    const std::int64_t moments = pile(Pile::kOptimizerMoments);
    if (failed_ && attribution_.steps_before == 1 && attribution_.state_made_in_history &&
        moments * 6 > whole_)
      add(Cause::kOptimizerStateFirstStep, moments > topics_.activations ? 0.8 : 0.58,
          fmt::format("step 1 passed; since then {} of optimizer state stand there", gib(moments)),
          moments);
    if (topics_.states * 100 > whole_ * 75)
      add(Cause::kModelTooLarge,
          std::min(0.9, static_cast<double>(topics_.states) / static_cast<double>(whole_)),
          fmt::format("{} of {} are parameters, gradients and optimizer state", gib(topics_.states),
                      gib(whole_)),
          topics_.states);
    const std::int64_t gradients = pile(Pile::kGradients);
    if (gradients * 5 > whole_ * 2 &&
        gradients > pile(Pile::kParameters) + pile(Pile::kOptimizerMoments))
      add(Cause::kGradients, 0.9,
          fmt::format("{} of {} are gradients", gib(gradients), gib(whole_)), gradients);
    else if ((part == RunPart::kForward || part == RunPart::kLossPart) && gradients * 8 > whole_ &&
             (question_.job == nullptr || question_.job->training.gradient_accumulation == 1) &&
             attribution_.steps_before >= 1)
      add(Cause::kGradients, 0.87,
          fmt::format("{} of gradients are alive during forward", gib(gradients)), gradients);
  }

  // What the run should have had at this moment.
  void against_run() {
    if (question_.job == nullptr || question_.prediction == nullptr ||
        question_.prediction->ranks.empty())
      return;
    const Job& job = *question_.job;
    const RankPrediction& rank =
        question_.prediction->ranks[rank_index_of(*question_.prediction, evidence_.rank)];
    std::int64_t parameters = 0;
    std::int64_t activations = 0;
    for (const PhasePrediction& phase : rank.phases) {
      parameters = std::max(parameters, phase.piles[Pile::kParameters].value().value());
      if (phase.phase == Phase::kForward || phase.phase == Phase::kBackward)
        activations = std::max(activations, phase.piles[Pile::kActivations].value().value());
    }
    const std::int64_t measured = pile(Pile::kParameters);
    if (job.cluster.devices > 1 && !job.adapter && measured > 2 * parameters &&
        measured * 8 > whole_ && parameters > 0)
      add(Cause::kParametersReplicated, 0.93,
          fmt::format("{} of parameters where the layout has {} on a rank", gib(measured),
                      gib(parameters)),
          measured);
    // States alone do not fit: it would have died of them sooner or later.
    std::int64_t states = 0;
    for (const PhasePrediction& phase : rank.phases)
      for (const Pile one : {Pile::kParameters, Pile::kMasterWeights, Pile::kOptimizerMoments})
        if (phase.phase == Phase::kOptimizer) states += phase.piles[one].value().value();
    const std::int64_t usable = question_.prediction->usable.value().value();
    if (states > usable && attribution_.part != RunPart::kSaving &&
        attribution_.part != RunPart::kEvaluating)
      add(Cause::kModelTooLarge, attribution_.part == RunPart::kLoading ? 0.9 : 0.7,
          fmt::format("the run's states alone need {} of {}", gib(states), gib(usable)), states);
    ignored_setting(activations);
    // Of a pipeline the first stage holds the most micro-batches in flight.
    const bool first = rank.pipeline == 0 && question_.prediction->ranks.size() > 1;
    if (first &&
        question_.prediction->ranks[0].allocated > question_.prediction->ranks[1].allocated &&
        topics_.activations * 4 > whole_ && topics_.logits * 3 < topics_.activations)
      add(Cause::kPipelineFirstStage, 0.88,
          fmt::format("stage 1 of {} holds {} of activations; the next needs {} less at its peak",
                      job.parallel.pipeline.value(), gib(topics_.activations),
                      print(question_.prediction->ranks[0].allocated -
                            question_.prediction->ranks[1].allocated)),
          topics_.activations);
  }

  void ignored_setting(std::int64_t predicted) {
    const std::int64_t measured = pile(Pile::kActivations);
    const RunPart part = attribution_.part;
    if (!question_.rewritten || measured * 10 < predicted * 14 || measured * 10 < whole_ ||
        (part != RunPart::kForward && part != RunPart::kLossPart && part != RunPart::kBackward))
      return;
    for (const Suggestion::Edit& edit : settings_that_save(*question_.job)) {
      const auto other = question_.rewritten({edit});
      if (!other) continue;
      const Prediction without = estimate(*other);
      if (without.ranks.empty()) continue;
      std::int64_t expected = 0;
      for (const PhasePrediction& phase : without.ranks[0].phases)
        expected = std::max(expected, phase.piles[Pile::kActivations].value().value());
      // At a failure in forward not all of it is there yet: more than the setting allows is enough.
      const bool explains = measured <= expected + expected / 10 && expected > 2 * predicted;
      if (!explains) continue;
      add(Cause::kSettingIgnored, 0.94,
          fmt::format("{} of activations: {} = {} allows {}, without it {} are expected",
                      gib(measured), edit.key, edit.from, gib(predicted), gib(expected)),
          measured);
      return;
    }
  }

  const Evidence& evidence_;
  const DeviceMoment& moment_;
  const Attribution& attribution_;
  const DiagnosisQuestion& question_;
  std::int64_t capacity_ = 0;
  bool failed_ = false;
  std::int64_t wanted_ = 0, whole_ = 0;
  EvidencePlace place_;
  Topics topics_;
  std::set<std::int64_t> loss_sizes_, score_sizes_;
  mutable std::vector<RunPart> parts_;
  mutable std::vector<StackOrigin> origins_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> findings_of_snapshot(const SnapshotView& view,
                                          const DiagnosisQuestion& question,
                                          std::optional<Bytes> capacity) {
  if (!view.moment->consistent) return {};
  return SnapshotRules(view, question, capacity).run();
}

}  // namespace steelyard
