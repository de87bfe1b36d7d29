#include "diagnose/attribution.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <unordered_map>

#include "diagnose/known_sizes.h"
#include "diagnose/layer_before.h"
#include "diagnose/older_blocks.h"

namespace steelyard {
namespace {

class Attributor {
 public:
  Attributor(const MemoryHistory& history, const DeviceMoment& moment,
             const std::vector<ExpectedTensor>& expected)
      : history_(history),
        moment_(moment),
        events_(history.devices[static_cast<std::size_t>(moment.device)].events),
        origins_(stack_origins(history)),
        parts_(parts_of_events(history, static_cast<std::size_t>(moment.device), origins_)),
        layer_before_(events_, parts_, moment) {
    for (const ExpectedTensor& tensor : expected) expected_[tensor.size].push_back(tensor);
  }

  Attribution run() {
    look_around();
    find_parameters();
    for (const LiveBlock& block : moment_.blocks) {
      AttributedBlock one;
      one.block = block;
      one.role = role_of(block);
      attribute_one(one);
      result_.blocks.push_back(one);
    }
    OlderBlocks(events_, parts_, moment_, expected_, result_).split();
    sum_up();
    return std::move(result_);
  }

 private:
  StackRole role_of(const LiveBlock& block) const {
    const StackRole role = origins_[static_cast<std::size_t>(block.stack)].role;
    if (role == StackRole::kNoFrames && block.born >= 0 && result_.has_python)
      return StackRole::kThread;
    return role;
  }
  RunPart part_at(std::int64_t event) const {
    return event >= 0 && event < static_cast<std::int64_t>(parts_.size())
               ? parts_[static_cast<std::size_t>(event)]
               : RunPart::kUnknown;
  }

  // The part that the last allocation before an event belongs to.
  RunPart part_before(std::int64_t event) const {
    for (std::int64_t at = std::min(event, static_cast<std::int64_t>(events_.size())); at-- > 0;)
      if (events_[static_cast<std::size_t>(at)].action == RecordedAction::kAlloc &&
          part_at(at) != RunPart::kUnknown)
        return part_at(at);
    return RunPart::kUnknown;
  }

  void look_around() {
    for (const StackOrigin& origin : origins_)
      if (origin.role != StackRole::kNoFrames && origin.role != StackRole::kThread)
        result_.has_python = true;
    const auto at = static_cast<std::int64_t>(moment_.event);
    bool in_step = false;
    leaves_backward_.reserve(events_.size() + 1);
    std::int32_t others = 0;
    for (std::size_t index = 0; index < events_.size(); ++index) {
      leaves_backward_.push_back(others);
      if (events_[index].action != RecordedAction::kAlloc) continue;
      const RunPart part = parts_[index];
      if (part != RunPart::kBackward && part != RunPart::kUnknown) ++others;
      if (part == RunPart::kBackward || part == RunPart::kOptimizerStep) result_.is_training = true;
      if (part == RunPart::kBackward && first_backward_ < 0 &&
          static_cast<std::int64_t>(index) >= at)
        first_backward_ = static_cast<std::int64_t>(index);
      const StackRole role = origins_[static_cast<std::size_t>(events_[index].stack)].role;
      if (role == StackRole::kOptimizerState) result_.state_made_in_history = true;
      if (static_cast<std::int64_t>(index) < at) {
        if (part == RunPart::kOptimizerStep) {
          in_step = true;
        } else if (in_step && (part == RunPart::kForward || part == RunPart::kLossPart)) {
          in_step = false;
          ++result_.steps_before;
        }
      }
    }
    leaves_backward_.push_back(others);
    std::int64_t annotated = 0;
    for (const RecordedAnnotation& note : history_.annotations)
      if (!note.starts && is_optimizer_step(note) && note.time > 0 && note.time <= moment_.time)
        ++annotated;
    result_.steps_before = std::max(result_.steps_before, annotated);
    std::size_t asked = moment_.event;
    if (moment_.kind == DeviceMoment::Kind::kPeak) asked = moment_.peak_event;
    if (moment_.kind != DeviceMoment::Kind::kState && asked < events_.size()) {
      result_.failing = origins_[static_cast<std::size_t>(events_[asked].stack)];
      result_.part = parts_[asked];
      if (result_.failing.bucket) result_.part = RunPart::kLoading;
      for (std::size_t back = asked; result_.part == RunPart::kUnknown && back-- > 0;)
        if (events_[back].action == RecordedAction::kAlloc) result_.part = parts_[back];
      // Parameters are gathered for a pass, also when nothing of it is there yet.
      if (result_.failing.role == StackRole::kGather && !result_.failing.bucket &&
          result_.part != RunPart::kBackward)
        result_.part = RunPart::kForward;
    }
  }

  // The sizes of the parameters, with how many there are of each.
  void find_parameters() {
    std::map<std::int64_t, std::int64_t> gradients;
    for (const LiveBlock& block : moment_.blocks) {
      if (block.born < 0) {
        ++base_[on_grain(block.size)];
      } else if (role_of(block) == StackRole::kLoad) {
        ++loaded_[on_grain(block.size)];
      }
    }
    for (const auto& [size, tensors] : expected_)
      for (const ExpectedTensor& tensor : tensors)
        if (tensor.pile == Pile::kParameters || tensor.pile == Pile::kGradients)
          sizes_.insert(size);
    for (const auto& [size, count] : loaded_) sizes_.insert(size);
    if (loaded_bytes() < (std::int64_t{1} << 20))
      for (const auto& [size, count] : base_) sizes_.insert(size);
    for (const auto& [size, count] : loaded_) result_.parameters_count += count;
    // Gradients that an optimizer saw tell the parameters apart from what is older than the history.
    for (const RecordedEvent& event : events_)
      if (event.action == RecordedAction::kAlloc && event.size > 0 &&
          origins_[static_cast<std::size_t>(event.stack)].role <= StackRole::kThread)
        ++backward_births_[on_grain(event.size)];
  }
  std::int64_t loaded_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& [size, count] : loaded_) bytes += size * count;
    return bytes;
  }

  bool is_flat_copy(const LiveBlock& block) const {
    const std::int64_t all = loaded_bytes();
    return all > (std::int64_t{1} << 24) && std::abs(block.size - all) * 100 < all;
  }

  bool outlives_backward(const LiveBlock& block) const {
    if (block.dies < 0) return true;
    if (block.born < 0) return true;
    const auto born = static_cast<std::size_t>(block.born);
    const auto dies = std::min(static_cast<std::size_t>(block.dies), leaves_backward_.size() - 1);
    if (leaves_backward_[dies] > leaves_backward_[born]) return true;
    // After a failure everything is freed by the exception: nothing follows from it.
    return moment_.kind == DeviceMoment::Kind::kFailure &&
           block.dies >= static_cast<std::int64_t>(moment_.event) &&
           leaves_backward_.back() == leaves_backward_[born];
  }

  void attribute_one(AttributedBlock& one) {
    const LiveBlock& block = one.block;
    if (block.category > 0) {
      const std::string& name = history_.categories[block.category];
      for (int pile = 0; pile < kPileCount; ++pile)
        if (name_of(static_cast<Pile>(pile)) == name) return give(one, static_cast<Pile>(pile), 1);
    }
    const StackOrigin& origin = origins_[static_cast<std::size_t>(block.stack)];
    if (is_workspace(block)) return give(one, Pile::kTemporary, 2);
    switch (one.role) {
      case StackRole::kOptimizerState:
        return give(one, Pile::kOptimizerMoments, 2);
      case StackRole::kMaster:
        // A flat copy of all weights that is as large as they are is no wider than they are.
        if (is_flat_copy(block)) return give(one, Pile::kParameters, 2);
        return give(one, sole_expected_pile(block.size).value_or(Pile::kMasterWeights), 2);
      case StackRole::kGradientBuffer:
        return give(one, sole_expected_pile(block.size).value_or(Pile::kGradients), 2);
      case StackRole::kGather:
        // What a reduction leaves is the shard of a gradient.
        if (origin.reduces && outlives_backward(block)) return give(one, Pile::kGradients, 2);
        return give(one, sole_expected_pile(block.size).value_or(Pile::kCommunication), 2);
      case StackRole::kLoad:
        return give(one, Pile::kParameters, 2);
      case StackRole::kSave:
        return give(one, Pile::kTemporary, 2);
      case StackRole::kOptimizer:
        return give(one, own_moments(block) ? Pile::kOptimizerMoments : Pile::kTemporary,
                    own_moments(block) ? 7 : 2);
      case StackRole::kForward:
      case StackRole::kLoss:
      case StackRole::kEvaluation:
        // A weight in 16 bits for the product that needs it.
        if (origin.dequantises) return give(one, Pile::kTemporary, 2);
        if (origin.gathers)
          return give(one, sole_expected_pile(block.size).value_or(Pile::kCommunication), 2);
        return give(one, forward_pile(one), 5);
      case StackRole::kBackward:
        if (origin.dequantises) return give(one, Pile::kTemporary, 2);
        // What is computed again is kept for the rest of this layer's backward.
        return give(one,
                    origin.linear || origin.attention || origin.norm ? Pile::kActivations
                                                                     : Pile::kTemporary,
                    5);
      case StackRole::kThread:
        return give(one, is_gradient(block) ? Pile::kGradients : Pile::kTemporary, 4);
      default:
        break;
    }
    if (block.born < 0) return;  // older_blocks.h
    if (!result_.has_python && result_.is_training) return by_lifetime(one);
    if (const auto pile = sole_expected_pile(block.size)) return give(one, *pile, 3);
    // A line of the script's own, beside the model: it holds what it made.
    if (one.role == StackRole::kOther && result_.is_training) give(one, Pile::kTemporary, 5);
  }

  // cuBLAS's workspace: the first block of its size that a thread asks for on a stream, and keeps.
  bool is_workspace(const LiveBlock& block) {
    if (block.born < 0 ||
        (block.size != kCublasWorkspaceOfHopper && block.size != kCublasWorkspace))
      return false;
    if (workspaces_.empty()) {
      std::set<std::pair<std::int16_t, bool>> seen;
      for (std::size_t index = 0; index < events_.size(); ++index) {
        const RecordedEvent& event = events_[index];
        if (event.action != RecordedAction::kAlloc || event.size != block.size) continue;
        const StackRole role = origins_[static_cast<std::size_t>(event.stack)].role;
        if (role == StackRole::kLoad) continue;
        const bool thread = role == StackRole::kThread || role == StackRole::kNoFrames;
        if (seen.insert({event.stream, thread}).second)
          workspaces_.insert(static_cast<std::int64_t>(index));
      }
      workspaces_.insert(INT64_MAX);  // looked at
    }
    return workspaces_.count(block.born) > 0;
  }

  Pile forward_pile(const AttributedBlock& one) {
    const LiveBlock& block = one.block;
    const RunPart part = result_.part;
    const bool in_forward = part == RunPart::kForward || part == RunPart::kLossPart;
    // At a peak within forward, what is freed before backward begins was not kept for it.
    if (in_forward && moment_.kind == DeviceMoment::Kind::kPeak && first_backward_ > 0 &&
        block.dies >= 0 && block.dies < first_backward_)
      return Pile::kTemporary;
    if (moment_.kind == DeviceMoment::Kind::kFailure && in_forward && layer_before_.freed(block))
      return Pile::kTemporary;
    // Of the loss the last product is kept; what comes before it is for the moment. Elsewhere a run that does not do what it
    // says keeps more of a size than it should.
    if (in_forward && result_.part == RunPart::kLossPart) {
      const auto found = expected_.find(on_grain(block.size));
      if (found == expected_.end())
        return one.role == StackRole::kLoss ? Pile::kTemporary : Pile::kActivations;
      std::int64_t passing = 0;
      bool of_loss = one.role == StackRole::kLoss;
      for (const ExpectedTensor& tensor : found->second) {
        if (tensor.pile == Pile::kTemporary) passing += tensor.count;
        of_loss =
            of_loss || tensor.owner == "loss" || tensor.name.find("logits") != std::string::npos;
      }
      if (of_loss && passing_of_size_[on_grain(block.size)]++ < passing) return Pile::kTemporary;
    }
    return Pile::kActivations;
  }

  std::optional<Pile> sole_expected_pile(std::int64_t size) const {
    const auto found = expected_.find(on_grain(size));
    if (found == expected_.end()) return std::nullopt;
    for (const ExpectedTensor& tensor : found->second)
      if (tensor.pile != found->second.front().pile) return std::nullopt;
    return found->second.front().pile;
  }

  bool is_gradient(const LiveBlock& block) {
    if (sizes_.count(on_grain(block.size)) == 0 || !outlives_backward(block)) return false;
    return true;
  }

  // Hand-written optimizers have no function for making states: their lines are told by what they keep.
  bool own_moments(const LiveBlock& block) {
    const StackOrigin& origin = origins_[static_cast<std::size_t>(block.stack)];
    for (const std::int32_t frame : history_.stack(block.stack))
      if (const RecordedFrame& one = history_.frames[static_cast<std::size_t>(frame)];
          is_python_frame(one) && (one.name.find("_tensor_") != std::string::npos ||
                                   one.name.find("_fused_") != std::string::npos))
        return false;
    if (origin.site.empty()) return false;
    if (sites_.empty())
      for (const LiveBlock& other : moment_.blocks)
        if (other.born >= 0 && role_of(other) == StackRole::kOptimizer)
          ++sites_[origins_[static_cast<std::size_t>(other.stack)].site];
    if (sites_freed_.empty()) {
      sites_freed_.emplace("", 0);
      std::unordered_map<std::int64_t, std::string_view> born;
      for (std::size_t index = 0; index < moment_.event && index < events_.size(); ++index) {
        const RecordedEvent& event = events_[index];
        if (event.action == RecordedAction::kAlloc) {
          const StackOrigin& of = origins_[static_cast<std::size_t>(event.stack)];
          if (of.role == StackRole::kOptimizer)
            born[event.address] = of.site;
          else
            born.erase(event.address);
        } else if (event.action == RecordedAction::kFreeCompleted) {
          if (const auto at = born.find(event.address); at != born.end()) {
            ++sites_freed_[std::string(at->second)];
            born.erase(at);
          }
        }
      }
    }
    const auto freed = sites_freed_.find(origin.site);
    const std::int64_t alive = sites_[origin.site];
    if (freed != sites_freed_.end() && freed->second > 0) return false;
    return alive >= 4;
  }

  void by_lifetime(AttributedBlock& one) {
    const LiveBlock& block = one.block;
    if (const auto pile = sole_expected_pile(block.size)) return give(one, *pile, 3);
    const RunPart part = part_at(block.born);
    const bool kept = block.dies < 0;
    if (part == RunPart::kOptimizerStep)
      return give(one, kept ? Pile::kOptimizerMoments : Pile::kTemporary, 8);
    if (steps_seen_before(block.born) == 0 && kept) return give(one, Pile::kParameters, 8);
  }
  std::int64_t steps_seen_before(std::int64_t event) const {
    std::int64_t steps = 0;
    for (const RecordedAnnotation& note : history_.annotations)
      if (!note.starts && is_optimizer_step(note) && event >= 0 &&
          note.time <= events_[static_cast<std::size_t>(event)].time)
        ++steps;
    return steps;
  }

  void sum_up() {
    std::map<std::tuple<int, std::string, std::int64_t, int>, BlockGroup> groups;
    for (const AttributedBlock& one : result_.blocks) {
      if (one.pile)
        result_.piles[*one.pile] += Bytes(one.block.size);
      else
        result_.unaccounted += Bytes(one.block.size);
      result_.by_rule[one.rule - 1U] += Bytes(one.block.size);
      const StackOrigin& origin = origins_[static_cast<std::size_t>(one.block.stack)];
      BlockGroup& group = groups[{one.pile ? static_cast<int>(*one.pile) : -1, origin.site,
                                  one.block.size, static_cast<int>(one.role)}];
      group.pile = one.pile;
      group.site = origin.site;
      group.origin = origin;
      group.role = one.role;
      group.size = one.block.size;
      group.rule = one.rule;
      ++group.count;
    }
    for (auto& [key, group] : groups) result_.groups.push_back(std::move(group));
    std::stable_sort(
        result_.groups.begin(), result_.groups.end(),
        [](const BlockGroup& a, const BlockGroup& b) { return a.total() > b.total(); });
  }

  const MemoryHistory& history_;
  const DeviceMoment& moment_;
  const std::vector<RecordedEvent>& events_;
  std::vector<StackOrigin> origins_;
  std::vector<RunPart> parts_;
  TensorsBySize expected_;
  std::map<std::int64_t, std::int64_t> base_, loaded_, backward_births_;
  std::set<std::int64_t> sizes_;
  std::vector<std::int32_t> leaves_backward_;  // allocations of other parts before each event
  std::int64_t first_backward_ = -1;           // after the moment
  std::map<std::string, std::int64_t> sites_, sites_freed_;
  std::map<std::int64_t, std::int64_t> passing_of_size_;
  std::set<std::int64_t> workspaces_;  // events that made one
  LayerBefore layer_before_;
  Attribution result_;
};

}  // namespace

Attribution attribute(const MemoryHistory& history, const DeviceMoment& moment,
                      const std::vector<ExpectedTensor>& expected) {
  return Attributor(history, moment, expected).run();
}

}  // namespace steelyard
