// Which of the live bytes are logits, attention scores, copies of weights and the like, and whether one of them is the cause.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "diagnose/shape_words.h"
#include "diagnose/snapshot_facts.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

std::string in_gib(std::int64_t bytes) { return print(Bytes(bytes)); }

class TopicSorting {
 public:
  explicit TopicSorting(const SnapshotFacts& facts) : facts_(facts) {}

  SnapshotTopics run() {
    topics_.states = facts_.pile(Pile::kParameters) + facts_.pile(Pile::kGradients) +
                     facts_.pile(Pile::kMasterWeights) + facts_.pile(Pile::kOptimizerMoments);
    topics_.gathered = facts_.pile(Pile::kCommunication);
    topics_.activations = facts_.pile(Pile::kActivations) + facts_.pile(Pile::kTemporary);
    look_at_sizes();
    for (const BlockGroup& group : facts_.attribution.groups) {
      if (group.role == StackRole::kGather && !group.origin.reduces &&
          group.pile == Pile::kParameters)
        topics_.gathered += group.total();
      take(group, group.total());
    }
    take_failed_request();
    return topics_;
  }

 private:
  // Sizes that the loss itself made: a backward temporary of such a size is its gradient.
  void look_at_sizes() {
    for (const BlockGroup& group : facts_.attribution.groups) {
      const bool large = group.size >= (std::int64_t{1} << 20);
      if (group.role == StackRole::kLoss && large) loss_sizes_.insert(group.size);
      if (group.origin.softmax && group.role != StackRole::kLoss && large)
        score_sizes_.insert(group.size);
      if (group.pile == Pile::kParameters) parameters_[group.size] += group.count;
      if (group.origin.linear && group.role == StackRole::kForward)
        linear_outputs_[group.size] += group.count;
    }
  }

  std::optional<Shape> shape(std::int64_t size) const {
    if (facts_.question.job == nullptr) return std::nullopt;
    return shape_of({size - 511, size}, *facts_.question.job);
  }

  // Half a weight's bytes, made where weights are used: of at least half of those that have that size, and once for each.
  // More than there are weights are outputs that happen to be as large.
  bool is_copy_of_weight(const BlockGroup& group) const {
    const auto weights = parameters_.find(2 * group.size);
    if (group.role != StackRole::kForward || weights == parameters_.end()) return false;
    // As many as there are weights of that size, of many: no product's output does that by chance.
    if (group.count == weights->second && group.count >= 8) return true;
    if (!group.origin.linear) return false;
    const auto alive = linear_outputs_.find(group.size);
    return 2 * group.count >= weights->second && alive != linear_outputs_.end() &&
           alive->second <= weights->second;
  }

  void take(const BlockGroup& group, std::int64_t bytes) {
    if (group.pile && group.pile != Pile::kActivations && group.pile != Pile::kTemporary) return;
    const auto known = shape(group.size);
    const bool of_loss = group.role == StackRole::kLoss;
    if ((known && known->kind == ShapeKind::kLogitsShape) || of_loss ||
        loss_sizes_.count(group.size) > 0 || loss_sizes_.count(2 * group.size) > 0)
      topics_.logits += bytes;
    else if ((known && known->kind == ShapeKind::kScoresShape) || group.origin.softmax ||
             score_sizes_.count(group.size) > 0)
      topics_.scores += bytes;
    else if (group.origin.dequantises)
      topics_.dequantised += bytes;
    else if (is_copy_of_weight(group))
      topics_.autocast += bytes;
    else if (group.origin.experts)
      topics_.experts += bytes;
  }

  void take_failed_request() {
    if (facts_.wanted == 0 || !facts_.in_pass()) return;
    BlockGroup asked;
    asked.pile = Pile::kTemporary;
    asked.origin = facts_.attribution.failing;
    asked.role = facts_.attribution.failing.role;
    asked.site = facts_.attribution.failing.site;
    asked.size = facts_.wanted;
    asked.count = 1;
    topics_.activations += facts_.wanted;
    take(asked, facts_.wanted);
  }

  const SnapshotFacts& facts_;
  SnapshotTopics topics_;
  std::map<std::int64_t, std::int64_t> parameters_;      // how many of each size
  std::map<std::int64_t, std::int64_t> linear_outputs_;  // and of what products made
  std::set<std::int64_t> loss_sizes_, score_sizes_;
};

// One kind of tensor that is a good part of all activations.
void add_special(const SnapshotFacts& facts, std::vector<Finding>& findings) {
  const SnapshotTopics& topics = facts.topics;
  const auto special = [&](Cause cause, std::int64_t bytes, double least, std::string text) {
    const double share = static_cast<double>(bytes) /
                         static_cast<double>(std::max<std::int64_t>(topics.activations, 1));
    if (share < least || bytes * 12 < facts.whole) return;
    findings.push_back(
        facts.found(cause, std::min(0.9, 0.62 + 0.35 * share), std::move(text), bytes));
  };
  special(Cause::kLogits, topics.logits, 0.4,
          fmt::format("{} of logits, their copies and gradients alive or requested",
                      in_gib(topics.logits)));
  special(Cause::kAttentionScores, topics.scores, 0.35,
          fmt::format("{} of attention scores alive or requested", in_gib(topics.scores)));
  special(Cause::kAutocastCopies, topics.autocast, 0.35,
          fmt::format("{} of 16-bit copies of weights, half the size of 32-bit ones",
                      in_gib(topics.autocast)));
  special(Cause::kQuantizationDequant, topics.dequantised, 0.3,
          fmt::format("{} made by dequantising weights", in_gib(topics.dequantised)));
  special(Cause::kMoeImbalance, topics.experts, 0.5,
          fmt::format("{} of the experts' tensors", in_gib(topics.experts)));
  if (topics.gathered * 4 > facts.whole)
    findings.push_back(
        facts.found(Cause::kAllGatherOrBucket,
                    topics.gathered > topics.activations
                        ? std::min(0.9, 0.5 + static_cast<double>(topics.gathered) /
                                                  static_cast<double>(facts.whole))
                        : 0.45,
                    fmt::format("{} of gathered parameters and buckets", in_gib(topics.gathered)),
                    topics.gathered));
}

void add_states(const SnapshotFacts& facts, std::vector<Finding>& findings) {
  const SnapshotTopics& topics = facts.topics;
  const Attribution& attribution = facts.attribution;
  // The first step passed with as much: since then the optimizer has its state.
  const std::int64_t moments = facts.pile(Pile::kOptimizerMoments);
  if (facts.failed && attribution.steps_before == 1 && attribution.state_made_in_history &&
      moments * 6 > facts.whole)
    findings.push_back(facts.found(
        Cause::kOptimizerStateFirstStep, moments > topics.activations ? 0.8 : 0.58,
        fmt::format("step 1 passed; since then {} of optimizer state stand there", in_gib(moments)),
        moments));
  if (topics.states * 100 > facts.whole * 75)
    findings.push_back(facts.found(
        Cause::kModelTooLarge,
        std::min(0.9, static_cast<double>(topics.states) / static_cast<double>(facts.whole)),
        fmt::format("{} of {} are parameters, gradients and optimizer state", in_gib(topics.states),
                    in_gib(facts.whole)),
        topics.states));
  const std::int64_t gradients = facts.pile(Pile::kGradients);
  const bool forward =
      attribution.part == RunPart::kForward || attribution.part == RunPart::kLossPart;
  const bool accumulates =
      facts.question.job != nullptr && facts.question.job->training.gradient_accumulation > 1;
  if (gradients * 5 > facts.whole * 2 &&
      gradients > facts.pile(Pile::kParameters) + facts.pile(Pile::kOptimizerMoments))
    findings.push_back(facts.found(
        Cause::kGradients, 0.9,
        fmt::format("{} of {} are gradients", in_gib(gradients), in_gib(facts.whole)), gradients));
  else if (topics.states * 100 > facts.whole * 75 && gradients * 3 > facts.whole &&
           gradients > facts.pile(Pile::kOptimizerMoments) + facts.pile(Pile::kMasterWeights) &&
           facts.question.job != nullptr && facts.question.job->parallel.zero_stage > 0)
    findings.push_back(facts.found(
        Cause::kGradients, 0.9,
        fmt::format("{} of gradients on a rank whose optimizer state is divided: the gradients "
                    "are whole",
                    in_gib(gradients)),
        gradients));
  else if (forward && gradients * 14 > facts.whole && !accumulates && attribution.steps_before >= 1)
    findings.push_back(facts.found(
        Cause::kGradients, 0.87,
        fmt::format("{} of gradients are alive during forward", in_gib(gradients)), gradients));
}

}  // namespace

SnapshotTopics topics_of(const SnapshotFacts& facts) { return TopicSorting(facts).run(); }

void add_topic_findings(const SnapshotFacts& facts, std::vector<Finding>& findings) {
  if (!facts.in_pass() && facts.attribution.part != RunPart::kUnknown) return;
  add_special(facts, findings);
  const SnapshotTopics& topics = facts.topics;
  if (topics.activations * 4 > facts.whole)
    findings.push_back(
        facts.found(Cause::kActivations,
                    std::min(0.85, 0.45 + 0.4 * static_cast<double>(topics.activations) /
                                              static_cast<double>(facts.whole)),
                    fmt::format("{} of {} are activations and temporaries of this step",
                                in_gib(topics.activations), in_gib(facts.whole)),
                    topics.activations));
  add_states(facts, findings);
}

}  // namespace steelyard
