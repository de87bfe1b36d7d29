// The rules of the verdict that rest on the text of a failure: its arithmetic, its frames, and the run it belongs to.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "diagnose/diagnosis.h"
#include "diagnose/failure_view.h"
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
        add(Cause::kHostMemory, 0.9, "the host's memory ran out" + said());
        break;
      case Kind::kKilled:
        add(Cause::kHostMemory, 0.6,
            "a process was killed from outside, as the kernel does when host memory runs out" +
                said());
        break;
      case Kind::kHardware:
        add(Cause::kHardware, 0.85, "the device reported an error of its own" + said());
        break;
      case Kind::kCollectiveTimeout:
        // Dumps of all ranks name it; a line of the watchdog knows that somebody is missing.
        if (failure_.backend == "flight recorder")
          add(Cause::kNotMemory, 0.85, failure_.message);
        else
          add(Cause::kNotMemory, 0.7, "a collective waited for a rank that never came");
        break;
      case Kind::kOther:
        add(Cause::kNotMemory, 0.75, "the first failure is no allocation" + said());
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

  // The failure's own words, as much of them as a reader needs to find the line.
  std::string said() const {
    constexpr std::size_t kMostOfMessage = 120;
    if (failure_.message.size() <= kMostOfMessage)
      return failure_.message.empty() ? "" : ": " + failure_.message;
    std::size_t size = kMostOfMessage;  // not within a character
    while (size > 0 && (static_cast<unsigned char>(failure_.message[size]) & 0xC0U) == 0x80U)
      --size;
    return ": " + failure_.message.substr(0, size) + "...";
  }

  Finding& add(Cause cause, double certainty, std::string text,
               std::optional<std::int64_t> bytes = {}) {
    findings_.push_back(proven(cause, certainty, std::move(text), bytes, failure_.place));
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
    hold_failure_against_run(
        {failure_, question_, origin_, tried_, cached.value_or(0), free.value_or(0), allocated_},
        findings_);
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
        if (origin_
                .bucket)  // DDP is made of a model that is there: what is left is too little for its gradients
          add(Cause::kModelTooLarge, 0.72, asked + " while DDP is made" + site, tried_);
        add(Cause::kAllGatherOrBucket, origin_.bucket ? 0.5 : 0.66,
            asked + " for gathered parameters or a bucket" + site, tried_);
        break;
      case StackRole::kLoss: {
        // The loss makes four tensors of the logits' size at most: beside much more it is what came last.
        const bool small = allocated_ && tried_ > 0 && tried_ * 4 * 3 < *allocated_;
        add(Cause::kLogits, small ? 0.5 : 0.72, asked + " in the loss" + site, tried_);
        if (small) add(Cause::kActivations, 0.55, "most of what is allocated came before the loss");
        break;
      }
      case StackRole::kForward:
      case StackRole::kBackward:
        if (origin_.dequantises)
          add(Cause::kQuantizationDequant, 0.88, asked + " to dequantise weights" + site, tried_);
        else if (origin_.softmax || (origin_.attention && has_eager()))
          add(Cause::kAttentionScores, 0.68, asked + " for attention scores" + site, tried_);
        else if (origin_.experts)
          add(Cause::kMoeImbalance, 0.5, asked + " in the experts" + site, tried_);
        add(Cause::kActivations, 0.55,
            asked + (origin_.role == StackRole::kForward ? " in forward" : " in backward") + site,
            tried_);
        break;
      case StackRole::kOther:
        if (frames_say(failure_, "named_parameters()") && frames_say(failure_, "clone()"))
          add(Cause::kFullCheckpointOnRank0, 0.75, asked + " to copy all parameters" + site,
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
