#include "predict/timeline.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "allocator/replay_program.h"
#include "engine/stage_program.h"
#include "predict/entry_name.h"

namespace steelyard {
namespace {

// The viewer looks for this one where events have categories.
constexpr std::string_view kNoCategory = "unknown";

// Writes down each event with the place in the program where it happened.
class Chronicler : public ProgramWatcher {
 public:
  Chronicler(const Program& program, std::int64_t first_layer, std::int64_t layers)
      : program_(program), first_layer_(first_layer), layers_(layers) {
    for (std::size_t pile = 0; pile < kPileCount; ++pile)
      snapshot_.categories.emplace_back(name_of(static_cast<Pile>(pile)));
    snapshot_.categories.emplace_back(kNoCategory);
    snapshot_.devices.resize(1);
  }

  void begin_step(int step) override {
    step_ = frame("step", step + 1, step == 0 ? "first step" : "later step");
    batches_ = {};
    forget_place();
  }

  void enter(const Node& node, std::int64_t /*round*/) override {
    const std::string_view label = node.label;
    places_.push_back(label);
    if (label == "forward" || label == "backward") {
      ++batches_[label];
      batch_ = frame("micro-batch", batches_[label], std::string(label));
      direction_ = label;
      layers_seen_ = 0;
    }
    if (label == "layer") ++layers_seen_;
    in_layer_ += label == "layer" ? 1 : 0;
    forget_place();
  }

  void leave() override {
    const std::string_view label = places_.back();
    places_.pop_back();
    if (label == "forward" || label == "backward") batch_ = kNoFrame;
    if (label == "layer") --in_layer_;
    forget_place();
  }

  void played(SlotId slot, Phase phase, std::span<const HistoryEvent> events) override {
    const StackId stack = stack_of(slot, phase);
    DeviceSnapshot& device = snapshot_.devices.front();
    const auto category = static_cast<std::int32_t>(program_.slot_at(slot).pile);
    for (const HistoryEvent& event : events) {
      EventNote note{static_cast<std::int64_t>(device.events.size()), stack, -1};
      if (event.action == HistoryAction::kAlloc) {
        note.category = category;
        blocks_[event.address] = stack;
      } else if (event.action == HistoryAction::kSegmentAlloc ||
                 event.action == HistoryAction::kSegmentMap) {
        segments_[event.address] = stack;
      }
      device.events.push_back(event);
      device.notes.push_back(note);
    }
  }

  // Closes with the moment of the snapshot itself.
  MemorySnapshot snapshot(std::vector<Segment> segments, const AllocatorSettings& settings) && {
    DeviceSnapshot& device = snapshot_.devices.front();
    Bytes active{};
    for (Segment& segment : segments) {
      SnapshotSegment stacked;
      stacked.stack = segments_[segment.address];
      for (const SegmentBlock& block : segment.blocks) {
        const bool used = block.use != BlockUse::kFree;
        stacked.block_stacks.push_back(used ? blocks_[block.address] : kNoStack);
        if (used) active += block.size;
      }
      stacked.segment = std::move(segment);
      device.segments.push_back(std::move(stacked));
    }
    const auto now = static_cast<std::int64_t>(device.events.size());
    device.events.push_back({HistoryAction::kOther, 0, active, kDefaultStream});
    device.notes.push_back(
        {now, kNoStack, static_cast<std::int32_t>(snapshot_.categories.size() - 1)});
    snapshot_.settings = settings;
    return std::move(snapshot_);
  }

 private:
  static constexpr FrameId kNoFrame = -1;

  void forget_place() { stack_of_slot_.clear(); }

  // Of the model's layers, from 0; nothing outside of them.
  std::optional<std::int64_t> layer() const {
    if (in_layer_ == 0 || layers_ == 0) return std::nullopt;
    const std::int64_t nth = (layers_seen_ - 1) % layers_;
    return first_layer_ + (direction_ == "backward" ? layers_ - 1 - nth : nth);
  }

  static std::string in_layer(std::int64_t number, std::string_view owner) {
    const std::string layer = fmt::format("layers.{}", number);
    return owner == "layer" ? layer : fmt::format("{}.{}", layer, owner);
  }

  StackId stack_of(SlotId slot, Phase phase) {
    const auto [known, is_new] = stack_of_slot_.try_emplace(slot, kNoStack);
    if (!is_new) return known->second;
    const Slot& what = program_.slot_at(slot);
    const auto number = layer();
    std::vector<FrameId> stack = {frame(number ? in_layer(*number, what.owner) : what.owner,
                                        number.value_or(0), entry_name(what)),
                                  frame("docs/rules.md", 0, what.rule)};
    stack.push_back(batch_ != kNoFrame ? batch_ : frame("phase", 0, std::string(name_of(phase))));
    stack.push_back(step_);
    const auto next = static_cast<StackId>(snapshot_.stacks.size());
    const auto [same, is_first] = stacks_.try_emplace(stack, next);
    if (is_first) snapshot_.stacks.push_back(std::move(stack));
    known->second = same->second;
    return same->second;
  }

  FrameId frame(const std::string& file, std::int64_t line, const std::string& name) {
    const auto next = static_cast<FrameId>(snapshot_.frames.size());
    const auto [same, is_first] = frames_.try_emplace({file, line, name}, next);
    if (is_first) snapshot_.frames.push_back({name, file, line});
    return same->second;
  }

  const Program& program_;
  std::int64_t first_layer_, layers_;
  MemorySnapshot snapshot_;
  std::map<std::tuple<std::string, std::int64_t, std::string>, FrameId> frames_;
  std::map<std::vector<FrameId>, StackId> stacks_;
  std::unordered_map<SlotId, StackId> stack_of_slot_;            // at the present place
  std::unordered_map<std::int64_t, StackId> blocks_, segments_;  // by address: who asked last
  std::vector<std::string_view> places_;
  std::map<std::string_view, std::int64_t> batches_;
  std::string_view direction_;
  std::int64_t layers_seen_ = 0, in_layer_ = 0;
  FrameId step_ = kNoFrame, batch_ = kNoFrame;
};

}  // namespace

Timeline timeline_of(const Job& job, std::size_t rank_index, std::int64_t most_requests) {
  StagePrograms<Checked> stages(job, SlotDetail::kTensors);
  const auto stage = static_cast<std::int64_t>(rank_index);
  const StageProgram built = stages.build(stage);
  const auto& layers = job.parallel.stage_layers;
  std::int64_t before = 0;
  for (std::size_t earlier = 0; earlier < rank_index; ++earlier) before += layers[earlier].value();
  Chronicler chronicler(stages.program(), before, layers[rank_index].value());
  ReplayLimits limits;
  limits.steps = 1;
  limits.events = most_requests;
  ProgramReserve played =
      replay_in_allocator(stages.program(), {{built.first_step}, {built.later_step}}, job.allocator,
                          {}, stages.book().tensors, limits, &chronicler);
  return {std::move(chronicler).snapshot(std::move(played.segments), job.allocator), played.cut};
}

}  // namespace steelyard
