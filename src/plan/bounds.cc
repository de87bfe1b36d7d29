#include "plan/bounds.h"

#include <algorithm>
#include <array>

#include "job/engine_rules.h"
#include "job/stages.h"
#include "predict/reserve.h"
#include "schedule/orders.h"

namespace steelyard {
namespace {

// Engines whose layers read whole parameters in the compute type from load on.
bool holds_whole_weights(Engine engine, int zero_stage) {
  return (engine == Engine::kMegatron && zero_stage < 2) || engine == Engine::kNanotron ||
         (engine == Engine::kDeepSpeed && zero_stage < 3);
}

std::uint64_t key_of_order(const Layout& layout, std::int64_t rank) {
  return (static_cast<std::uint64_t>(layout.accumulation) << 36U) ^
         (static_cast<std::uint64_t>(layout.pipeline) << 20U) ^
         (static_cast<std::uint64_t>(layout.chunks) << 8U) ^
         (static_cast<std::uint64_t>(layout.schedule) << 4U) ^
         (static_cast<std::uint64_t>(layout.engine == Engine::kMegatron) << 3U) ^
         static_cast<std::uint64_t>(rank);
}

PipelineShape shape_of(const Layout& layout) {
  PipelineShape shape;
  shape.ranks = layout.pipeline;
  shape.chunks = layout.chunks;
  shape.micro_batches = layout.accumulation;
  shape.group =
      layout.engine == Engine::kMegatron
          ? shape.ranks
          : shape.micro_batches / std::max<std::int64_t>(1, shape.micro_batches / shape.ranks);
  return shape;
}

}  // namespace

const Bounds::Flight& Bounds::flight_of(const Layout& layout, std::int64_t rank) {
  const auto [found, fresh] = flights_.try_emplace(key_of_order(layout, rank));
  if (fresh) {
    const PipelineOrder& order = order_of(layout.schedule);
    const InFlight flight = in_flight(order.rank_order(shape_of(layout), rank), layout.chunks);
    found->second = {flight.most, flight.most_beside_gradients, flight.by_chunk};
  }
  return found->second;
}

const std::vector<std::int64_t>& Bounds::starts_of(const Layout& layout) {
  const std::uint64_t key = (static_cast<std::uint64_t>(layout.engine) << 40U) ^
                            (static_cast<std::uint64_t>(layout.pipeline) << 16U) ^
                            (static_cast<std::uint64_t>(layout.chunks) << 4U) ^
                            static_cast<std::uint64_t>(layout.schedule);
  const auto [found, fresh] = starts_.try_emplace(key);
  if (!fresh) return found->second;
  std::vector<std::int64_t>& starts = found->second;
  const std::int64_t layers = target_.model->layers;
  const std::int64_t parts = parts_in_line(order_of(layout.schedule).placement,
                                           {.ranks = layout.pipeline, .chunks = layout.chunks});
  std::vector<Layers> sizes;
  if (stages_are_stated_) return starts;
  // Stages that are stated one by one count the ends as layers, as torchtitan does.
  sizes = layout.uneven_stages ? torchtitan_stages(layers, parts)
                               : usual_stages(layout.engine, layers, parts);
  if (sizes.empty()) return starts;
  starts.push_back(0);
  for (const Layers size : sizes) starts.push_back(starts.back() + size.value());
  return starts;
}

Bounds::Held Bounds::held_by(const Layout& layout, const FormFacts& facts) const {
  const double data = static_cast<double>(layout.data) * layout.context;
  // DeepSpeed's bf16 optimizer divides states under every stage (deepspeed/runtime/bf16_optimizer.py).
  const bool whole = layout.zero_stage == 0 && layout.engine != Engine::kDeepSpeed;
  const double ranks = whole ? 1 : data * facts.share / layout.replicate;
  // Layers whose states are divided are gathered while they run: one at least, all of the stage where they are kept.
  const bool gathers =
      is_fsdp(layout.engine) || (layout.engine == Engine::kDeepSpeed && layout.zero_stage == 3);
  const bool keeps = gathers && (layout.zero_stage == 2 ||
                                 (layout.engine == Engine::kFsdp2 && layout.pipeline > 1));
  Held held;
  held.each = facts.gradient +
              (holds_whole_weights(layout.engine, layout.zero_stage) ? facts.weight : 0) +
              facts.states / ranks;
  if (gathers && !keeps && data > 1 && facts.alike) held.gathered = facts.largest * facts.weight;
  if (keeps && data > 1) held.kept_gathered = facts.weight;
  return held;
}

double Bounds::least_bytes(const Layout& layout, const FormFacts& facts) {
  return bytes_of(moments_of(layout, facts), held_by(layout, facts));
}

double Bounds::bytes_of(const Moments& moments, const Held& held) {
  double most = 0;
  for (std::size_t i = 0; i < moments.count; ++i) {
    const Moment& moment = moments.all[i];
    most = std::max(most, moment.elements * held.each + moment.of_layers * held.kept_gathered +
                              (moment.passes ? held.gathered : 0) + moment.bytes);
  }
  return most;
}

Bounds::Moments Bounds::moments_of(const Layout& layout, const FormFacts& facts) {
  Moments moments;
  if (facts.elements.empty()) return moments;  // nothing is known
  const double grown = static_cast<double>(layout.micro_batch) /
                       static_cast<double>(facts.micro_batch) * kWithoutRounding;
  // What layers from `from` to `to` keep, of which some are computed again.
  const auto kept = [&](std::int64_t from, std::int64_t to) {
    const auto sum = [&](const std::vector<double>& of, std::int64_t a, std::int64_t b) {
      return of[static_cast<std::size_t>(b)] - of[static_cast<std::size_t>(a)];
    };
    switch (layout.recompute) {
      case RecomputeMode::kFull:
        return sum(facts.kept_again, from, to);
      case RecomputeMode::kBlock: {
        const std::int64_t cut = std::min(to, from + layout.recomputed);
        return sum(facts.kept_again, from, cut) + sum(facts.kept, cut, to);
      }
      case RecomputeMode::kEvery: {
        double bytes = 0;
        for (std::int64_t layer = from; layer < to; ++layer)
          bytes +=
              sum(layer % layout.recomputed == 0 ? facts.kept_again : facts.kept, layer, layer + 1);
        return bytes;
      }
      default:
        return sum(facts.kept, from, to);
    }
  };
  const std::int64_t layers = target_.model->layers;
  const double again = layout.recompute == RecomputeMode::kFull ? facts.largest_again * grown : 0;
  if (layout.pipeline == 1) {
    // A fused loss keeps the gradient of its weight, which is as large for one sequence as for many.
    const double head =
        facts.kept_of_head * (layout.loss == LossKernel::kPlain ? grown : kWithoutRounding);
    moments.add({facts.elements.back() + facts.embedding, facts.elements.back(), true,
                 kept(0, layers) * grown + std::max(facts.alike ? again : 0, head)});
    return moments;
  }
  const std::vector<std::int64_t>& starts = starts_of(layout);
  moments.add({facts.elements.back() / layout.pipeline, 0, false, 0});
  if (starts.empty()) return moments;
  // torch's pipelines lend the first layer its input, and the next stage the last one's output: buffers of their own.
  const bool torch = layout.engine == Engine::kFsdp2 || layout.engine == Engine::kFsdp1 ||
                     layout.engine == Engine::kDdp;
  const double hidden =
      static_cast<double>(target_.sequence_length * target_.model->hidden * facts.micro_batch) /
      layout.context / layout.tensor;
  const double borrowed = torch ? 2 * 4 * hidden : 0;  // 4 bytes of each number at most
  const PipelineOrder& order = order_of(layout.schedule);
  const PipelineShape shape = {.ranks = layout.pipeline, .chunks = layout.chunks};
  for (std::int64_t rank = 0; rank < std::min<std::int64_t>(2, layout.pipeline); ++rank) {
    const Flight& flight = flight_of(layout, rank);
    double elements = 0, gradients = 0;
    std::array<std::pair<double, std::int64_t>, 64> chunks;
    const std::size_t count = std::min<std::size_t>(64, flight.by_chunk.size());
    for (std::size_t chunk = 0; chunk < count; ++chunk) {
      const auto part = static_cast<std::size_t>(
          part_of(order.placement, shape, rank, static_cast<int>(chunk)).index);
      const double here = facts.elements[static_cast<std::size_t>(starts[part + 1])] -
                          facts.elements[static_cast<std::size_t>(starts[part])];
      elements += here;
      if (layout.data * layout.context > 1) gradients += here * facts.gradient_of_stage;
      chunks[chunk] = {std::max(0.0, kept(starts[part], starts[part + 1]) - borrowed),
                       flight.by_chunk[chunk]};
    }
    // Which chunks are in flight at that moment: the emptiest, at least.
    std::sort(chunks.begin(), chunks.begin() + static_cast<std::ptrdiff_t>(count));
    const auto in_flight = [&](std::int64_t rest) {
      double bytes = 0;
      for (std::size_t chunk = 0; chunk < count && rest > 0; ++chunk) {
        const std::int64_t some = std::min(rest, chunks[chunk].second);
        bytes += chunks[chunk].first * static_cast<double>(some);
        rest -= some;
      }
      return bytes * grown;
    };
    moments.add({elements, elements, true, in_flight(flight.most)});
    if (gradients > 0)
      moments.add({elements, elements, false, gradients + in_flight(flight.most_beside_gradients)});
  }
  return moments;
}

Bounds::Need Bounds::least_need(const Layout& layout, const FormFacts& facts,
                                const FormSwings& swings) {
  if (facts.elements.empty() || !swings.is_known()) return {};
  const Held held = held_by(layout, facts);
  const std::int64_t layers = target_.model->layers;
  const PipelineOrder& order =
      order_of(layout.pipeline == 1 ? PipelineSchedule::kOneForwardOneBackward : layout.schedule);
  if (layout.pipeline > 1 && order.splits_backward && !swings.splits_backward()) return {};
  const PipelineShape shape = shape_of(layout);
  const std::vector<std::int64_t> whole = {0, layers};
  const std::vector<std::int64_t>& starts = layout.pipeline == 1 ? whole : starts_of(layout);
  if (starts.empty()) return {};
  const auto last = static_cast<std::int64_t>(starts.size()) - 2;
  const bool shares = layout.data * layout.context > 1;
  const auto real = [](Bytes bytes) { return static_cast<double>(bytes.value().value()); };
  Need need;
  // The ends differ from the rest, and those near the loss wait longest for their weights' turn.
  std::int64_t before = -1;
  for (const std::int64_t rank :
       {std::int64_t{0}, std::int64_t{1}, layout.pipeline / std::int64_t{2},
        layout.pipeline - std::int64_t{2}, layout.pipeline - std::int64_t{1}}) {
    if (rank <= before || rank >= layout.pipeline) continue;
    before = rank;
    double elements = 0, embedding = 0;
    std::vector<FormSwings::Chunk> chunks;
    for (int at = 0; at < static_cast<int>(shape.chunks); ++at) {
      const std::int64_t part = part_of(order.placement, shape, rank, at).index;
      FormSwings::Chunk chunk;
      chunk.embedding = part == 0;
      chunk.head = part == last;
      chunk.hands_on = order.placement == Placement::kV && 2 * part + 1 == last;
      chunk.hands_in = order.placement == Placement::kV && 2 * part == last + 1;
      chunk.from = starts[static_cast<std::size_t>(part)];
      chunk.to = starts[static_cast<std::size_t>(part) + 1];
      const double here = facts.elements[static_cast<std::size_t>(chunk.to)] -
                          facts.elements[static_cast<std::size_t>(chunk.from)];
      elements += here;
      if (chunk.embedding) embedding = facts.embedding;
      if (shares && layout.pipeline > 1)
        chunk.gradients = static_cast<std::int64_t>(here * facts.gradient_of_stage);
      chunk.gathered = static_cast<std::int64_t>(here * held.kept_gathered);
      chunks.push_back(chunk);
    }
    const FormSwings::Height passing =
        swings.height_of(layout, order.rank_order(shape, rank),
                         micro_batches_of_chunk(order.placement, shape), chunks);
    const double states = (elements + embedding) * held.each;
    const auto allocated = static_cast<std::int64_t>(states + held.gathered) + passing.highest;
    // What comes and goes is known where nothing but states and buffers to receive in stays.
    const std::int64_t resident =
        layout.engine == Engine::kFsdp2 && layout.pipeline > 1
            ? std::min(allocated, static_cast<std::int64_t>(states) + passing.resident)
            : allocated;
    const LaterReserve reserve = estimated_later_reserve(allocated, resident, CudaGraphs::kNone);
    need.device = std::max(need.device, real(reserve.expected + context_.expected));
    need.high = std::max(need.high, real(reserve.most + context_.high) +
                                        static_cast<double>(allocated) * facts.error_above);
  }
  return need;
}

double Bounds::computed_again(const Layout& layout, bool alike) const {
  if (layout.recompute == RecomputeMode::kFull) return 1;
  if (!alike) return 0;
  if (layout.recompute == RecomputeMode::kEvery) return 1.0 / layout.recomputed;
  if (layout.recompute != RecomputeMode::kBlock || layout.chunks > 1) return 0;
  // Stages may have a layer less than the average.
  const std::int64_t of_stage = std::max<std::int64_t>(
      0,
      std::min<std::int64_t>(layout.least_recomputed, target_.model->layers / layout.pipeline - 1));
  return static_cast<double>(of_stage * layout.pipeline) /
         static_cast<double>(target_.model->layers);
}

namespace {

// Where a part of the layers is computed again: no less than with none of them, nor than the device needs.
struct MicroBatch {
  double seconds = 0, device = 0;
};
double micro_batch(const MicroBatch& none, const MicroBatch& all, double share) {
  if (share >= 1) return std::max(none.seconds, all.seconds);
  return std::max(none.seconds, none.device + std::max(0.0, all.device - none.device) * share);
}

}  // namespace

double Bounds::least_seconds(const Layout& layout, const FormFacts& facts) {
  const bool smallest = layout.micro_batch == facts.micro_batch;
  const PassageTime& passage = smallest ? facts.smallest : facts.widest;
  const double times = smallest ? 1
                                : static_cast<double>(layout.micro_batch) /
                                      static_cast<double>(facts.widest_micro_batch);
  const double joint = layout.pipeline > 1 ? passage.joint : 0;
  const double average = micro_batch({passage.none - joint, passage.none_on_device - joint},
                                     {passage.again - joint, passage.again_on_device - joint},
                                     computed_again(layout, facts.alike)) *
                         times * layout.accumulation / layout.pipeline;
  if (layout.pipeline == 1) return average;
  const std::vector<std::int64_t>& starts = starts_of(layout);
  if (starts.empty()) return average;
  return std::max(average, least_seconds_of_stages({layout, shape_of(layout), starts, layers_},
                                                   passage.units, times));
}

double Bounds::least_seconds(const Layout& layout, const GroupTime& time, double most) {
  const double average = least_seconds_of_average_stages(layout, time);
  if (layout.pipeline == 1 || average > most) return average;
  const std::vector<std::int64_t>& starts = starts_of(layout);
  if (starts.empty()) return average;
  return std::max(average,
                  least_seconds_of_stages({layout, shape_of(layout), starts, layers_}, time));
}

double Bounds::least_seconds_of_average_stages(const Layout& layout, const GroupTime& time) const {
  const double share = computed_again(layout, time.alike);
  const GroupTime::Again& none = time.none;
  const double micro =
      micro_batch({none.micro, none.device}, {time.all.micro, time.all.device}, share);
  double seconds = micro * layout.accumulation;
  if (share >= 1) {
    seconds += time.all.rest;
  } else if (layout.recompute == RecomputeMode::kEvery ||
             layout.recompute == RecomputeMode::kBlock) {
    // Exchanges hide behind what is computed again, and slow it down: no step is shorter than without any of it.
    seconds =
        std::max(seconds + time.rest_beside_data, none.micro * layout.accumulation + none.rest);
  } else {
    seconds += none.rest;
  }
  seconds /= layout.pipeline;
  if (layout.pipeline == 1) return seconds;
  const PipelineOrder& order = order_of(layout.schedule);
  if (!order.splits_backward) {
    // Breadth first, a rank of large chunks may wait for small ones alone.
    if (layout.schedule == PipelineSchedule::kLoopedBreadthFirst) return seconds;
    return seconds + micro * (1 - 1.0 / layout.pipeline) / layout.chunks;
  }
  const PipelineShape shape = shape_of(layout);
  const GroupTime::Again& passage = share >= 1 ? time.all : none;
  const auto before_last = static_cast<double>(micro_batches_of_chunk(order.placement, shape) - 1) /
                           static_cast<double>(parts_in_line(order.placement, shape));
  return std::max(seconds, passage.forward * (1 + before_last) + passage.input);
}

}  // namespace steelyard
