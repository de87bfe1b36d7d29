// The rules of the verdict that rest on the text of a failure: its arithmetic, its frames, and the run it belongs to.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "diagnose/diagnosis.h"
#include "diagnose/shape_words.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMebi = std::int64_t{1} << 20, kGibi = std::int64_t{1} << 30;

// "train.py:88 training_step: loss.backward()" as a frame of a history, so that the same table reads both.
RecordedFrame frame_of(const std::string& text) {
  RecordedFrame frame;
  frame.line = 1;
  for (std::size_t colon = text.find(':'); colon != std::string::npos;
       colon = text.find(':', colon + 1)) {
    std::int64_t line = 0;
    const auto [end, fault] =
        std::from_chars(text.data() + colon + 1, text.data() + text.size(), line);
    if (fault != std::errc() || line <= 0 || end == text.data() + text.size() || *end != ' ')
      continue;
    frame.file = text.substr(0, colon);
    frame.line = line;
    const std::size_t name = static_cast<std::size_t>(end - text.data()) + 1;
    frame.name = text.substr(name, text.find(": ", name) - name);
    return frame;
  }
  frame.file = text;
  return frame;
}

StackOrigin origin_of(const std::vector<std::string>& frames) {
  MemoryHistory history;
  for (const std::string& text : frames) {
    history.stack_frames.push_back(static_cast<std::int32_t>(history.frames.size()));
    history.frames.push_back(frame_of(text));
  }
  history.stack_begins.push_back(history.stack_frames.size());
  return stack_origins(history).back();
}

// The request behind a printed size: it was rounded up to a segment, and then to two decimals.
SizeRange request_range(std::int64_t tried) {
  const std::int64_t printed = tried >= kGibi ? kGibi / 200 : kMebi / 200;
  return {tried - printed - 2 * kMebi, tried + printed};
}

bool has_word(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

class FailureRules {
 public:
  FailureRules(const MemoryFailure& failure, const DiagnosisQuestion& question)
      : failure_(failure), question_(question), origin_(origin_of(failure.frames)) {}

  std::vector<Finding> run() {
    using Kind = MemoryFailure::Kind;
    switch (failure_.kind) {
      case Kind::kDeviceAllocator:
        allocator();
        break;
      case Kind::kDeviceOutside:
        outside();
        break;
      case Kind::kHost:
        add(Cause::kHostMemory, 0.9, "the host's memory ran out");
        break;
      case Kind::kKilled:
        add(Cause::kHostMemory, 0.6,
            "a process was killed from outside, as the kernel does when host memory runs out");
        break;
      case Kind::kHardware:
        add(Cause::kHardware, 0.85, "the device reported an error of its own");
        break;
      case Kind::kCollectiveTimeout:
        // Dumps of all ranks name it; a line of the watchdog knows that somebody is missing.
        if (failure_.backend == "flight recorder")
          add(Cause::kNotMemory, 0.85, failure_.message);
        else
          add(Cause::kNotMemory, 0.7, "a collective waited for a rank that never came");
        break;
      case Kind::kOther:
        add(Cause::kNotMemory, 0.75, "the first failure is no allocation");
        break;
    }
    return std::move(findings_);
  }

 private:
  // "CUDA error: out of memory" before any model exists, in the first use of the device: the device is held by somebody else,
  // or broken; no setting of the run makes room.
  void outside() {
    bool first_use = false;
    for (const std::string& frame : failure_.frames)
      for (const std::string_view word :
           {" barrier", " init_process_group", "_compile_dependencies", " set_device"})
        first_use = first_use || has_word(frame, word);
    if (first_use && !failure_.step && failure_.backend == "cuda") {
      add(Cause::kHardware, 0.5, "the device had no room before any model was built");
      return;
    }
    add(Cause::kNcclOrContext, 0.75, "an allocation beside PyTorch's allocator failed");
  }

  Finding& add(Cause cause, double certainty, std::string text,
               std::optional<std::int64_t> bytes = {}) {
    Finding finding;
    finding.cause = cause;
    finding.certainty = certainty;
    finding.proof.push_back(
        {std::move(text), bytes ? std::optional(Bytes(*bytes)) : std::nullopt, failure_.place});
    findings_.push_back(std::move(finding));
    return findings_.back();
  }
  static std::optional<std::int64_t> plain(const std::optional<Bytes>& bytes) {
    return bytes ? std::optional(bytes->value().value()) : std::nullopt;
  }

  void allocator() {
    tried_ = plain(failure_.tried).value_or(0);
    const auto free = plain(failure_.free);
    allocated_ = plain(failure_.allocated);
    auto cached = plain(failure_.unallocated);
    const auto reserved = plain(failure_.reserved);
    if (!cached && reserved && allocated_)
      cached = std::max<std::int64_t>(*reserved - *allocated_, 0);
    if (cached && tried_ > 0) fragmentation(*cached, free.value_or(0));
    processes(cached);
    frames();
    shapes();
    against_run();
    if (findings_.empty() || findings_.front().certainty < 0.4)
      add(Cause::kActivations, 0.35,
          allocated_ ? fmt::format("{} allocated by tensors: the device is full",
                                   print(Bytes(*allocated_)))
                     : std::string("the device is full"),
          allocated_);
  }

  void fragmentation(std::int64_t cached, std::int64_t free) {
    if (cached + free < tried_ || cached < tried_ / 4) return;
    const double ratio = static_cast<double>(cached) / static_cast<double>(tried_);
    const std::int64_t held = allocated_.value_or(0) + cached + free;
    const double share =
        static_cast<double>(cached + free) / static_cast<double>(std::max<std::int64_t>(held, 1));
    const double of_held =
        static_cast<double>(cached) / static_cast<double>(std::max<std::int64_t>(held - free, 1));
    // Rests of segments are usual, a twentieth of what is reserved; a tenth, and more than was asked for, is not.
    double certainty = of_held >= 0.07 && ratio >= 2    ? 0.75
                       : of_held >= 0.1 && ratio >= 1.5 ? 0.72
                       : of_held >= 0.07                ? 0.52
                                                        : 0.29;
    if (failure_.frames.empty() && share >= 0.08) certainty = std::max(certainty, 0.5);
    add(Cause::kFragmentation, certainty,
        ratio >= 1
            ? fmt::format(
                  "{} reserved and free, {:.1f} times the {} requested: in pieces too small for it",
                  print(Bytes(cached)), ratio, print(Bytes(tried_)))
            : fmt::format("{} reserved and free, with {} free on the device: more than the {} "
                          "requested, in pieces",
                          print(Bytes(cached)), print(Bytes(free)), print(Bytes(tried_))),
        cached);
  }

  void processes(std::optional<std::int64_t> cached) {
    const auto capacity = plain(failure_.capacity);
    const auto own = plain(failure_.own_process);
    const auto others = plain(failure_.other_processes);
    // In a container the own process stands under a number of its own: as much as tensors, cache and a context.
    const std::int64_t mine = allocated_.value_or(0) + cached.value_or(0);
    if (others && !own && allocated_ && *others >= mine && *others < mine + kGibi + kGibi / 2)
      return;
    if (others && *others > kGibi / 4 && *others >= tried_)
      add(Cause::kOtherProcess, capacity && *others * 5 > *capacity ? (own ? 0.95 : 0.6) : 0.8,
          fmt::format("other processes hold {} of this device", print(Bytes(*others))), others);
    if (own && allocated_ && cached) {
      const std::int64_t outside = *own - *allocated_ - *cached;
      if (outside < kGibi / 2) return;
      const bool large = outside > 3 * kGibi ||
                         (capacity && outside > kGibi + kGibi / 4 && outside * 6 > *capacity);
      add(Cause::kNcclOrContext,
          large && outside > tried_ ? (capacity && outside * 5 > *capacity * 2 ? 0.94 : 0.72)
                                    : 0.29,
          fmt::format(
              "{} of this process are outside PyTorch's allocator (context, NCCL, libraries)",
              print(Bytes(outside))),
          outside);
    }
    if (const auto allowed = plain(failure_.allowed);
        allowed && plain(failure_.free).value_or(0) > tried_)
      add(Cause::kSettingIgnored, 0.5,
          fmt::format("a memory fraction allows {}: the device itself has room",
                      print(Bytes(*allowed))),
          allowed);
  }

  void frames() {
    const std::string site = origin_.site.empty() ? "" : " at " + origin_.site;
    const std::string asked =
        tried_ > 0 ? print(Bytes(tried_)) + " requested" : "an allocation failed";
    switch (origin_.role) {
      case StackRole::kOptimizerState:
        add(Cause::kOptimizerStateFirstStep, 0.93, asked + " for the optimizer's state" + site,
            tried_);
        break;
      case StackRole::kOptimizer: {
        const bool all = std::any_of(
            failure_.frames.begin(), failure_.frames.end(), [](const std::string& frame) {
              return has_word(frame, "_multi_tensor_") || has_word(frame, "foreach");
            });
        add(Cause::kOptimizerTemporaries, all ? 0.85 : 0.6,
            asked + " in the optimizer's step" + site, tried_);
        add(Cause::kOptimizerStateFirstStep, all ? 0.5 : 0.62,
            "the failure lies in an optimizer step" + site);
        break;
      }
      case StackRole::kLoad:
      case StackRole::kMaster:
        add(origin_.role == StackRole::kLoad ? Cause::kLoadFullModel : Cause::kMasterWeights, 0.84,
            asked + " while the model is made or loaded" + site, tried_);
        break;
      case StackRole::kGradientBuffer:
        add(Cause::kGradients, 0.7, asked + " for a buffer of all gradients" + site, tried_);
        break;
      case StackRole::kSave:
        add(Cause::kFullCheckpointOnRank0, 0.9, asked + " in saving" + site, tried_);
        break;
      case StackRole::kEvaluation:
        add(Cause::kEvaluationOrGenerationCache, 0.9, asked + " in evaluation or generation" + site,
            tried_);
        break;
      case StackRole::kGather:
        add(Cause::kAllGatherOrBucket, 0.66, asked + " for gathered parameters or a bucket" + site,
            tried_);
        break;
      case StackRole::kLoss:
        add(Cause::kLogits, question_.job != nullptr ? 0.45 : 0.72, asked + " in the loss" + site,
            tried_);
        break;
      case StackRole::kForward:
      case StackRole::kBackward:
        if (origin_.dequantises)
          add(Cause::kQuantizationDequant, 0.66, asked + " to dequantise weights" + site, tried_);
        else if (origin_.softmax || (origin_.attention && has_eager()))
          add(Cause::kAttentionScores, 0.68, asked + " for attention scores" + site, tried_);
        else if (origin_.experts)
          add(Cause::kMoeImbalance, 0.5, asked + " in the experts" + site, tried_);
        add(Cause::kActivations, 0.55,
            asked + (origin_.role == StackRole::kForward ? " in forward" : " in backward") + site,
            tried_);
        break;
      default:
        break;
    }
  }
  bool has_eager() const {
    return std::any_of(failure_.frames.begin(), failure_.frames.end(),
                       [](const std::string& frame) {
                         return has_word(frame, "eager_attention") || has_word(frame, "matmul") ||
                                has_word(frame, "softmax");
                       });
  }

  void shapes() {
    if (tried_ < 16 * kMebi) return;
    const SizeRange range = request_range(tried_);
    const bool of_run = question_.job != nullptr;
    const auto shape = of_run ? shape_of(range, *question_.job) : logits_of_known_model(range);
    if (!shape) return;
    const std::string words =
        fmt::format("{} = {}, {}", print(Bytes(tried_)), shape->words, shape->meaning);
    // A number alone is often a coincidence: a frame elsewhere beats it.
    const bool elsewhere = origin_.role != StackRole::kLoss && !failure_.frames.empty();
    const double alone = failure_.frames.empty() ? 0.5 : elsewhere ? 0.25 : 0.75;
    const bool eager = of_run && question_.job->training.attention == AttentionKernel::kEager;
    if (shape->kind == ShapeKind::kLogitsShape)
      add(Cause::kLogits, of_run ? 0.45 : alone, words, shape->bytes);
    else if (shape->kind == ShapeKind::kScoresShape)
      add(Cause::kAttentionScores, eager && tried_ >= 64 * kMebi ? 0.78 : 0.28, words,
          shape->bytes);
    else
      add(Cause::kActivations, 0.4, words, shape->bytes);
  }

  Phase phase() const {
    switch (origin_.role) {
      case StackRole::kOptimizer:
      case StackRole::kOptimizerState:
        return Phase::kOptimizer;
      case StackRole::kBackward:
        return Phase::kBackward;
      case StackRole::kLoad:
        return Phase::kLoad;
      case StackRole::kSave:
        return Phase::kCheckpoint;
      default:
        break;
    }
    for (const Phase one :
         {Phase::kLoad, Phase::kForward, Phase::kBackward, Phase::kOptimizer, Phase::kCheckpoint})
      if (failure_.phase == name_of(one)) return one;
    return Phase::kForward;
  }

  // What the run should hold in this phase decides where text and frames do not.
  void against_run() {
    if (question_.job == nullptr || question_.prediction == nullptr ||
        question_.prediction->ranks.empty())
      return;
    const Phase now = phase();
    if (now != Phase::kForward && now != Phase::kBackward) return;
    const std::size_t index = rank_index_of(*question_.prediction, failure_.rank);
    const Phase fuller = std::max(now, Phase::kBackward);
    const Moment moment = phase_moment(*question_.job, index, fuller);
    std::int64_t states = 0, activations = 0, logits = 0, scores = 0, gathered = 0, moments = 0;
    for (const Holding& holding : moment.alive) {
      const std::int64_t bytes = holding.total.value().value();
      if (holding.pile == Pile::kCommunication) {
        gathered += bytes;
      } else if (holding.pile == Pile::kActivations || holding.pile == Pile::kTemporary) {
        activations += bytes;
        if (holding.owner == "loss" || has_word(holding.name, "logits")) logits += bytes;
        if (has_word(holding.owner, "attention") &&
            (has_word(holding.name, "score") || has_word(holding.name, "softmax") ||
             has_word(holding.name, "probabilit")))
          scores += bytes;
      } else {
        states += bytes;
        if (holding.pile == Pile::kOptimizerMoments) moments += bytes;
      }
    }
    const std::int64_t all = std::max<std::int64_t>(states + activations + gathered, 1);
    const auto say = [&](Cause cause, std::int64_t bytes, double certainty, std::string_view what) {
      add(cause, certainty,
          fmt::format("the run has {} of {} in {}", print(Bytes(bytes)), what, name_of(fuller)),
          bytes);
    };
    if (logits * 5 > activations * 2 && logits * 10 > all)
      say(Cause::kLogits, logits, 0.7, "logits and their gradients");
    if (scores * 3 > activations && scores * 10 > all)
      say(Cause::kAttentionScores, scores, 0.72, "attention scores");
    if (gathered * 3 > all)
      say(Cause::kAllGatherOrBucket, gathered, 0.62, "gathered parameters and buckets");
    if (states * 4 > all * 3)
      say(Cause::kModelTooLarge, states, 0.66, "parameters, gradients and optimizer state");
    if (activations * 5 > all * 2) say(Cause::kActivations, activations, 0.6, "activations");
    const RankPrediction& rank = question_.prediction->ranks[index];
    if (allocated_) more_than_predicted(rank, now);
    // Right after the first step the moments are new.
    if (failure_.step && *failure_.step <= 2 && moments * 6 > all && allocated_ &&
        *allocated_ + tried_ > rank.first_step.allocated.value().value())
      say(Cause::kOptimizerStateFirstStep, moments, 0.6,
          "optimizer state, new since the first step");
  }

  // More is allocated than the run ever needs: something is kept, or not as it was set.
  void more_than_predicted(const RankPrediction& rank, Phase now) {
    const std::int64_t most = std::max(rank.allocated, rank.first_step.allocated).value().value();
    std::int64_t here = 0;
    std::int64_t gradients = 0;
    for (const PhasePrediction& phase : rank.phases) {
      if (phase.phase == now) here = phase.allocated.value().value();
      gradients = std::max(gradients, phase.piles[Pile::kGradients].value().value());
    }
    const std::int64_t beyond = *allocated_ - here;
    if (now == Phase::kForward && gradients * 10 > *allocated_ && beyond * 10 > gradients * 6 &&
        beyond < gradients + gradients / 4) {
      add(Cause::kGradients, 0.84,
          fmt::format("{} allocated where forward needs {}: the difference is the gradients' {}",
                      print(Bytes(*allocated_)), print(Bytes(here)), print(Bytes(gradients))),
          beyond);
      return;
    }
    const std::int64_t needed = *allocated_ + tried_ / 2;
    if (needed * 10 < most * 11) return;
    for (const Suggestion::Edit& edit : settings_that_save(*question_.job)) {
      const auto other = question_.rewritten ? question_.rewritten({edit}) : std::nullopt;
      if (!other) continue;
      const Prediction without = estimate(*other);
      const std::int64_t then = without.peak.allocated.value().value();
      if (then * 10 < most * 12 || *allocated_ > then + then / 10) continue;
      add(Cause::kSettingIgnored, 0.82,
          fmt::format("{} allocated where {} = {} allows {}; without it {} are expected",
                      print(Bytes(*allocated_)), edit.key, edit.from, print(Bytes(most)),
                      print(Bytes(then))),
          *allocated_ - most);
      return;
    }
    add(Cause::kLeakOrKeptGraph, 0.8,
        fmt::format(
            "{} allocated where the run needs {} at its peak: something is kept from earlier steps",
            print(Bytes(*allocated_)), print(Bytes(most))),
        *allocated_ - most);
  }

  const MemoryFailure& failure_;
  const DiagnosisQuestion& question_;
  StackOrigin origin_;
  std::int64_t tried_ = 0;
  std::optional<std::int64_t> allocated_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> findings_of_failure(const MemoryFailure& failure,
                                         const DiagnosisQuestion& question) {
  return FailureRules(failure, question).run();
}

}  // namespace steelyard
