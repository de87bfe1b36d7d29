#include "plan/group_time.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/sequence.h"

namespace steelyard {
namespace {

// Two sums of the same numbers may differ by their rounding.
constexpr double kAlike = 1 - 1e-12;

void add(PartSeconds& sum, const PartSeconds& seconds, double times) {
  sum.forward += seconds.forward * times;
  sum.input += seconds.input * times;
  sum.weight += seconds.weight * times;
}

// The units of one layout's parts.
class Units {
 public:
  Units(const Layout& layout, const LayerCounts& layers, const UnitTimes& times)
      : layout_(layout), layers_(layers), none_(times.none), all_(times.all) {}

  bool are_known() const {
    return none_.size() == layers_.kinds() + 2 && all_.size() == none_.size();
  }
  // Of a range of amounts the least is computed again for certain.
  bool are_in_range() const {
    return layout_.recompute == RecomputeMode::kBlock &&
           layout_.least_recomputed < layout_.recomputed;
  }
  const StepClock::OnUnit& embedding() const { return ends().front(); }
  const StepClock::OnUnit& head() const { return ends().back(); }

  void add_layers(std::int64_t from, std::int64_t to, PartSeconds& seconds,
                  HeldParameters& held) const {
    for (std::size_t kind = 0; kind < layers_.kinds(); ++kind)
      held += none_[kind + 1].held * layers_.between(from, to, kind);
    switch (layout_.recompute) {
      case RecomputeMode::kFull:
        return add_kinds(all_, from, to, seconds);
      case RecomputeMode::kEvery:
        return add_every(from, to, seconds);
      case RecomputeMode::kBlock: {
        const std::int64_t least = std::min<std::int64_t>(to, from + least_of_block());
        const std::int64_t most = std::min<std::int64_t>(to, from + layout_.recomputed);
        add_kinds(all_, from, least, seconds);
        for (std::int64_t layer = least; layer < most; ++layer) {
          const auto unit = static_cast<std::size_t>(layers_.kind_of(layer)) + 1;
          const PartSeconds &none = none_[unit].seconds, &again = all_[unit].seconds;
          add(seconds,
              {std::min(none.forward, again.forward), std::min(none.input, again.input),
               std::min(none.weight, again.weight)},
              1);
        }
        return add_kinds(none_, most, to, seconds);
      }
      default:
        return add_kinds(none_, from, to, seconds);
    }
  }

 private:
  const std::vector<StepClock::OnUnit>& ends() const {
    return layout_.recompute == RecomputeMode::kFull ? all_ : none_;
  }
  std::int64_t least_of_block() const {
    return layout_.least_recomputed > 0 ? layout_.least_recomputed : layout_.recomputed;
  }
  void add_kinds(const std::vector<StepClock::OnUnit>& units, std::int64_t from, std::int64_t to,
                 PartSeconds& seconds) const {
    if (from >= to) return;
    for (std::size_t kind = 0; kind < layers_.kinds(); ++kind)
      add(seconds, units[kind + 1].seconds, layers_.between(from, to, kind));
  }
  void add_every(std::int64_t from, std::int64_t to, PartSeconds& seconds) const {
    add_kinds(none_, from, to, seconds);
    const std::int64_t every = layout_.recomputed;
    for (std::int64_t layer = (from + every - 1) / every * every; layer < to; layer += every) {
      const auto unit = static_cast<std::size_t>(layers_.kind_of(layer)) + 1;
      add(seconds, all_[unit].seconds, 1);
      add(seconds, none_[unit].seconds, -1);
    }
  }

  const Layout& layout_;
  const LayerCounts& layers_;
  const std::vector<StepClock::OnUnit>&none_, &all_;
};

// A micro-batch on each part and each rank of a layout.
struct PartTimes {
  bool known = false;
  std::vector<PartSeconds> parts;
  double slowest = 0;                // of ranks, seconds
  double forward = 0, backward = 0;  // of that one
  HeldParameters heaviest;           // the most that a rank has
};

PartTimes part_times(const Stages& stages, const UnitTimes& times, double send) {
  const auto& [layout, shape, starts, layers] = stages;
  const PipelineOrder& order = order_of(layout.schedule);
  const Units units(layout, layers, times);
  const std::size_t count = starts.size() - 1;
  PartTimes result;
  result.known = units.are_known();
  if (!result.known) return result;
  std::vector<PartSeconds>& parts = result.parts;
  parts.assign(count, {send, send, 0});
  std::vector<HeldParameters> held_by_part(count);
  const bool in_rhythm = layers.kinds() > 1 || layout.recompute == RecomputeMode::kEvery;
  for (std::size_t part = 0; part < count; ++part) {
    if (!in_rhythm && part > 1 && part + 1 < count &&
        starts[part + 1] - starts[part] == starts[part] - starts[part - 1]) {
      parts[part] = parts[part - 1];
      held_by_part[part] = held_by_part[part - 1];
      continue;
    }
    units.add_layers(starts[part], starts[part + 1], parts[part], held_by_part[part]);
    if (part == 0) {
      add(parts[part], units.embedding().seconds, 1);
      held_by_part[part] += units.embedding().held;
    }
    if (part + 1 == count) {
      add(parts[part], units.head().seconds, 1);
      held_by_part[part] += units.head().held;
    }
  }
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    PartSeconds here;
    HeldParameters held;
    for (int chunk = 0; chunk < static_cast<int>(shape.chunks); ++chunk) {
      const auto part =
          static_cast<std::size_t>(part_of(order.placement, shape, rank, chunk).index);
      add(here, parts[part], 1);
      held += held_by_part[part];
    }
    result.heaviest.raise_to(held);
    const double total = here.total(), backward = here.input + here.weight;
    if (total < result.slowest * kAlike) continue;
    // Of ranks that are equally slow any may be taken for the slowest.
    const bool slower = total * kAlike > result.slowest;
    result.forward = slower ? here.forward : std::max(result.forward, here.forward);
    result.backward = slower ? backward : std::max(result.backward, backward);
    result.slowest = std::max(result.slowest, total);
  }
  // More of an exchange hides beside more, which takes no less than it hides.
  if (units.are_in_range()) result.forward = result.backward = std::numeric_limits<double>::max();
  return result;
}

double seconds_of_micro_batches(const Stages& stages, const std::vector<PartSeconds>& parts) {
  const PipelineOrder& order = order_of(stages.layout.schedule);
  return has_closed_form(order.schedule) ? pipeline_seconds(order, stages.shape, parts)
                                         : least_pipeline_seconds(order, stages.shape, parts);
}

}  // namespace

LayerCounts::LayerCounts(const Architecture& model)
    : kinds_(model.kinds.size()), kind_(kind_of_each_layer(model)) {
  before_.resize((kind_.size() + 1) * kinds_, 0.0);
  for (std::size_t layer = 0; layer < kind_.size(); ++layer) {
    for (std::size_t kind = 0; kind < kinds_; ++kind)
      before_[(layer + 1) * kinds_ + kind] = before_[layer * kinds_ + kind];
    ++before_[(layer + 1) * kinds_ + static_cast<std::size_t>(kind_[layer])];
  }
}

double least_seconds_of_stages(const Stages& stages, const GroupTime& time) {
  if (!time.end) return 0;
  const Layout& layout = stages.layout;
  const bool on_torch = layout.engine == Engine::kDdp || layout.engine == Engine::kFsdp1 ||
                        layout.engine == Engine::kFsdp2;
  const double send = sends_beside_compute(on_torch, layout.schedule) ? 0 : time.send;
  const bool split = order_of(layout.schedule).splits_backward;
  const PartTimes times = part_times(stages, split ? time.split_units : time.units, send);
  if (!times.known) return 0;
  const double least = times.slowest * static_cast<double>(micro_batches_of_chunk(
                                           order_of(layout.schedule).placement, stages.shape));
  return std::max(least, seconds_of_micro_batches(stages, times.parts)) +
         time.end->after(times.heaviest, times.forward, times.backward).total();
}

double least_seconds_of_stages(const Stages& stages, const UnitTimes& units, double scale) {
  PartTimes times = part_times(stages, units, 0);
  if (!times.known) return 0;
  // What of backward the stages before wait for is not known.
  if (order_of(stages.layout.schedule).splits_backward)
    for (PartSeconds& part : times.parts) part.weight += std::exchange(part.input, 0.0);
  return seconds_of_micro_batches(stages, times.parts) * scale;
}

}  // namespace steelyard
