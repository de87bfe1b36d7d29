// The rules of the verdict that rest on a history: who was alive, where the failure lies, and what is older than this step.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "diagnose/diagnosis.h"
#include "diagnose/snapshot_facts.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

std::string gib(std::int64_t bytes) { return print(Bytes(bytes)); }

class SnapshotRules {
 public:
  SnapshotRules(const SnapshotView& view, const DiagnosisQuestion& question,
                std::optional<Bytes> capacity)
      : facts_{*view.evidence, *view.moment, *view.attribution, question},
        evidence_(facts_.evidence),
        moment_(facts_.moment),
        attribution_(facts_.attribution),
        question_(question) {
    facts_.capacity = capacity ? capacity->value().value() : 0;
    facts_.failed = moment_.kind == DeviceMoment::Kind::kFailure;
    facts_.wanted = facts_.failed ? moment_.tried : 0;
    facts_.whole = std::max<std::int64_t>(moment_.live + facts_.wanted, 1);
    facts_.place = {
        evidence_.file,
        moment_.kind == DeviceMoment::Kind::kState
            ? std::string("the state at the dump")
            : fmt::format("event {}",
                          print_count(Checked(static_cast<std::int64_t>(moment_.event))))};
  }

  std::vector<Finding> run() {
    facts_.topics = topics_of(facts_);
    fragmentation();
    outside();
    kept_from_earlier();
    longer_batch();
    by_part();
    add_topic_findings(facts_, findings_);
    hold_snapshot_against_run(facts_, findings_);
    return std::move(findings_);
  }

 private:
  Finding& add(Cause cause, double certainty, std::string text,
               std::optional<std::int64_t> bytes = {}) {
    findings_.push_back(facts_.found(cause, certainty, std::move(text), bytes));
    return findings_.back();
  }
  std::int64_t pile(Pile one) const { return facts_.pile(one); }

  void fragmentation() {
    if (!facts_.failed) return;
    const std::int64_t cached = moment_.reserved - moment_.live - moment_.rounding;
    if (cached + moment_.device_free < facts_.wanted || cached <= 0) return;
    const double share = static_cast<double>(cached) /
                         static_cast<double>(std::max<std::int64_t>(moment_.reserved, 1));
    const double ratio =
        static_cast<double>(cached) / static_cast<double>(std::max<std::int64_t>(facts_.wanted, 1));
    // What is left in segments of other sizes is usual: a twentieth. A tenth, and more than was asked for, is not.
    const double certainty = share >= 0.1 && ratio >= 1.5  ? 0.95
                             : share >= 0.07 && ratio >= 2 ? 0.75
                             : share >= 0.05 && ratio >= 1 ? 0.5
                                                           : 0.3;
    Finding& finding =
        add(Cause::kFragmentation, certainty,
            fmt::format(
                "{} reserved and free, {:.1f} times the {} requested, but the largest gap is {}",
                gib(cached), ratio, gib(facts_.wanted), gib(moment_.largest_gap)),
            cached);
    if (moment_.largest_gap >= facts_.wanted) {
      finding.certainty = 0.3;
      finding.counter.push_back(
          "a gap is large enough: it lies in a pool of another stream or size");
    }
  }

  void outside() {
    if (!facts_.failed || facts_.capacity <= 0) return;
    const std::int64_t beside = facts_.capacity - moment_.reserved - moment_.device_free;
    std::int64_t usual = std::int64_t{3} << 29;
    if (question_.prediction != nullptr && !question_.prediction->ranks.empty() &&
        !question_.prediction->ranks[0].phases.empty())
      usual = question_.prediction->ranks[0].phases[0].runtime.value().value() +
              (std::int64_t{1} << 29);
    if (beside < usual + facts_.wanted || beside < facts_.capacity / 8) return;
    add(Cause::kNcclOrContext, beside - usual > facts_.capacity * 3 / 10 ? 0.94 : 0.8,
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
    facts_.earlier = kept;
    if (kept < facts_.whole / 25 || attribution_.steps_before < 1) return;
    add(Cause::kLeakOrKeptGraph,
        kept >= facts_.wanted && attribution_.steps_before > 1
            ? 0.96
            : std::min(0.95, 0.75 + static_cast<double>(kept) / static_cast<double>(facts_.whole)),
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
    // The script's own line copies, beside the model's steps, parameters that were gathered for it.
    if (facts_.failed && role == StackRole::kOther && facts_.topics.gathered * 3 > facts_.whole)
      add(Cause::kFullCheckpointOnRank0, 0.92,
          fmt::format("{} of gathered parameters, and a copy of them requested{}",
                      gib(facts_.topics.gathered), site),
          facts_.wanted);
    switch (attribution_.part) {
      case RunPart::kLoading:
        if (role == StackRole::kMaster)
          add(Cause::kMasterWeights, 0.9,
              fmt::format("{} requested for 32-bit copies of the weights{}", gib(facts_.wanted),
                          site),
              facts_.wanted);
        add(Cause::kLoadFullModel, 0.86,
            fmt::format("{} {} while the model is loaded{}", gib(moment_.live),
                        facts_.failed ? "were live" : "live at the peak", site),
            moment_.live);
        break;
      case RunPart::kSaving:
        add(Cause::kFullCheckpointOnRank0, 0.96,
            fmt::format("{} requested in saving{}", gib(facts_.wanted), site), facts_.wanted);
        break;
      case RunPart::kEvaluating:
        add(Cause::kEvaluationOrGenerationCache, 0.96,
            fmt::format("the {} lies in evaluation or generation{}",
                        facts_.failed ? "failure" : "peak", site),
            facts_.wanted);
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
    if (loaded * 5 > facts_.whole * 4)
      add(Cause::kLoadFullModel, 0.92,
          fmt::format("{} of {} were made while the model was loaded", gib(loaded),
                      gib(facts_.whole)),
          loaded);
    if (served * 10 > facts_.whole)
      add(Cause::kEvaluationOrGenerationCache, 0.84,
          fmt::format("{} made in evaluation or generation are kept", gib(served)), served);
  }

  void optimizer_step(StackRole role, const std::string& site) {
    const std::int64_t moments = pile(Pile::kOptimizerMoments);
    const bool makes_state =
        role == StackRole::kOptimizerState || (!attribution_.moments_before_history &&
                                               !attribution_.state_made_in_history && moments > 0);
    const bool first = attribution_.steps_before == 0 && !attribution_.moments_before_history;
    std::int64_t temporary = facts_.wanted;
    for (const BlockGroup& group : attribution_.groups)
      if (group.role == StackRole::kOptimizer && group.pile == Pile::kTemporary)
        temporary += group.total();
    if (role == StackRole::kOptimizerState || (first && makes_state))
      add(Cause::kOptimizerStateFirstStep, 0.94,
          fmt::format("{} of optimizer state made in the first step, and {} more requested{}",
                      gib(moments), gib(facts_.wanted), site),
          moments);
    if (role == StackRole::kOptimizer && temporary > moments / 100)
      add(Cause::kOptimizerTemporaries, facts_.failed ? (first && makes_state ? 0.7 : 0.88) : 0.7,
          fmt::format("{} of temporaries in the optimizer's step{}", gib(temporary), site),
          temporary);
  }

  SnapshotFacts facts_;
  const Evidence& evidence_;
  const DeviceMoment& moment_;
  const Attribution& attribution_;
  const DiagnosisQuestion& question_;
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
