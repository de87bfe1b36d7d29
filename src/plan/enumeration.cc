#include <algorithm>
#include <variant>

#include "job/engine_rules.h"
#include "job/validate.h"
#include "plan/space_writer.h"
#include "schedule/orders.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMostMicroBatch = 64;
constexpr std::int64_t kMostContext = 256;

using Counts = std::vector<std::int64_t>;

Counts divisors(std::int64_t number, std::int64_t most) {
  Counts found;
  for (std::int64_t d = 1; d <= std::min(number, most); ++d)
    if (number % d == 0) found.push_back(d);
  return found;
}

std::int64_t experts_in(const Architecture& model) {
  for (const Layer& layer : model.kinds)
    if (const auto* mlp = std::get_if<ExpertMlp>(&layer.mlp)) return mlp->experts;
  return 0;
}

class Enumeration {
 public:
  Enumeration(const PlanTarget& target, const Settings& fixed, const std::function<bool()>& expired,
              Space& space)
      : target_(target),
        fixed_(fixed),
        expired_(expired),
        space_(space),
        writer_(fixed, space),
        experts_(experts_in(*target.model)) {}

  void run() {
    for (const SearchedStack& stack : target_.stacks) {
      stack_ = &stack;
      rules_ = &rules_of(stack.engine);
      Layout layout;
      layout.engine = stack.engine;
      layout.implementation = stack.implementation;
      for (std::size_t recipe = 0; recipe < space_.recipes.size(); ++recipe) {
        layout.recipe = static_cast<std::uint8_t>(recipe);
        if (is_said_twice(layout)) continue;
        tensors(layout);
      }
    }
  }

 private:
  bool allows_name(KeyId id, int name) const {
    const auto said = fixed_.name(id);
    return !said || *said == name;
  }
  // FSDP's policies take parameters and optimizer together: that is the recipe with the optimizer alone.
  bool is_said_twice(const Layout& layout) const {
    const auto& keys = space_.recipes[layout.recipe].keys;
    return is_fsdp(layout.engine) && std::any_of(keys.begin(), keys.end(), [](const auto& key) {
             return key.first == key_of(KeyId::kOffloadParameters).path;
           });
  }
  // What was said, else all of them.
  Counts chosen(KeyId id, Counts all) const {
    if (const auto said = fixed_.count(id)) return {*said};
    return all;
  }
  // Divided over data alone, unless the run names the code.
  bool is_plain() const { return stack_->plain && !fixed_.has(KeyId::kImplementation); }
  bool divides(std::int64_t part, std::int64_t whole) const { return whole % part == 0; }

  void tensors(Layout layout) {
    const std::int64_t most = rules_->tensor && !is_plain() ? 2 * target_.devices_per_node : 1;
    for (const std::int64_t tensor : chosen(KeyId::kTensor, divisors(target_.devices, most))) {
      if (!divides(tensor, target_.devices) || (tensor > 1 && is_plain())) continue;
      if (tensor > 1 && !tensor_fault(*target_.model, layout.engine, tensor).empty()) continue;
      layout.tensor = static_cast<std::int32_t>(tensor);
      for (const bool sequence : {true, false}) {
        if (tensor == 1 && sequence) continue;
        if (tensor > 1 && sequence != fixed_.truth(KeyId::kSequenceParallel).value_or(true))
          continue;
        layout.sequence_parallel = sequence;
        contexts(layout);
      }
    }
  }

  std::vector<ContextMethod> methods() const {
    switch (rules_->engine) {
      case Engine::kFsdp2:
        return fixed_.has(KeyId::kContextMethod)
                   ? std::vector{ContextMethod::kAllGather, ContextMethod::kRing}
                   : std::vector{ContextMethod::kAllGather};
      case Engine::kDeepSpeed:
        return {ContextMethod::kUlysses};
      case Engine::kMegatron:
        return fixed_.has(KeyId::kContextMethod)
                   ? std::vector{ContextMethod::kRing, ContextMethod::kUlysses,
                                 ContextMethod::kAllGather}
                   : std::vector{ContextMethod::kRing, ContextMethod::kUlysses};
      default:
        return {};
    }
  }

  void contexts(Layout layout) {
    const std::int64_t room = target_.devices / layout.tensor;
    const std::int64_t most = methods().empty() || is_plain() ? 1 : kMostContext;
    for (const std::int64_t context : chosen(KeyId::kContext, divisors(room, most))) {
      if (!divides(context, room) || (context > 1 && is_plain())) continue;
      layout.context = static_cast<std::int32_t>(context);
      layout.context_method = ContextMethod::kRing;
      if (context == 1) {
        experts(layout);
        continue;
      }
      for (const ContextMethod method : methods()) {
        if (!allows_name(KeyId::kContextMethod, static_cast<int>(method))) continue;
        layout.context_method = method;
        experts(layout);
      }
    }
  }

  void experts(Layout layout) {
    layout.expert_tensor = layout.tensor;
    const bool divides_experts =
        experts_ > 0 && !is_plain() &&
        (layout.engine == Engine::kMegatron || layout.engine == Engine::kFsdp2);
    if (!divides_experts) {
      losses(layout);
      return;
    }
    for (const std::int64_t expert : chosen(KeyId::kExpert, divisors(experts_, target_.devices))) {
      layout.expert = static_cast<std::int32_t>(expert);
      const bool torch = layout.engine == Engine::kFsdp2;
      Counts cuts = {layout.tensor};
      if (torch && expert > 1) cuts = {1};
      if (!torch && layout.tensor > 1) cuts = {layout.tensor, 1};
      for (const std::int64_t cut : chosen(KeyId::kExpertTensor, cuts)) {
        if (target_.devices % (expert * cut) != 0) continue;
        layout.expert_tensor = static_cast<std::int32_t>(cut);
        losses(layout);
      }
    }
  }

  void losses(Layout layout) {
    // Liger's loss stands in for that of transformers' models.
    const bool torch =
        rules_->implementations[static_cast<std::size_t>(Implementation::kTransformers)];
    std::vector<LossKernel> losses = {LossKernel::kPlain};
    if (torch && layout.tensor == 1) losses.push_back(LossKernel::kFusedLinear);
    if (const auto said = fixed_.name(KeyId::kLoss)) losses = {static_cast<LossKernel>(*said)};
    for (const LossKernel loss : losses) {
      layout.loss = loss;
      writer_.start_forms();
      pipelines(layout);
    }
  }

  void pipelines(Layout layout) {
    const std::int64_t room = target_.devices / layout.tensor / layout.context;
    const std::int64_t layers = target_.model->layers;
    const std::int64_t most = rules_->pipeline && !is_plain() ? layers : 1;
    for (const std::int64_t pipeline : chosen(KeyId::kPipeline, divisors(room, most))) {
      if (!divides(pipeline, room) || (pipeline > 1 && is_plain())) continue;
      const std::int64_t data = room / pipeline;
      if (const auto said = fixed_.count(KeyId::kData); said && *said != data) continue;
      if (target_.global_batch % data != 0) continue;
      if (!room_for_experts(layout, data)) continue;
      layout.pipeline = static_cast<std::int32_t>(pipeline);
      layout.data = static_cast<std::int32_t>(data);
      if (lacks_its_loss(layout)) continue;
      orders(layout);
    }
  }

  bool room_for_experts(const Layout& layout, std::int64_t data) const {
    return data * layout.context * layout.tensor % (layout.expert * layout.expert_tensor) == 0;
  }

  // Liger's loss with the head stands in for that of transformers' models; torchtitan's have none. What is said is taken.
  bool lacks_its_loss(const Layout& layout) const {
    return layout.loss == LossKernel::kFusedLinear &&
           layout.implementation == Implementation::kTorchtitan && !fixed_.has(KeyId::kLoss);
  }

  void orders(Layout layout) {
    if (layout.pipeline == 1) {
      layout.chunks = 1;
      layout.schedule = PipelineSchedule::kOneForwardOneBackward;
      micro_batches(layout);
      return;
    }
    for (const PipelineOrder& order : pipeline_orders()) {
      const bool said = fixed_.has(KeyId::kSchedule);
      if (!allows_name(KeyId::kSchedule, static_cast<int>(order.schedule))) continue;
      // Orders that somebody else's code adds to the engine are taken only when they are asked for.
      const std::uint16_t runs =
          said ? static_cast<std::uint16_t>(rules_->orders | rules_->borrowed) : rules_->orders;
      if ((runs & bit_of(order.schedule)) == 0) continue;
      layout.schedule = order.schedule;
      for (const std::int64_t chunks :
           chosen(KeyId::kVirtualPipeline, chunks_of(order, layout.pipeline))) {
        const std::int64_t parts =
            parts_in_line(order.placement, {.ranks = layout.pipeline, .chunks = chunks});
        if (parts > target_.model->layers && layout.engine != Engine::kNanotron) continue;
        layout.chunks = static_cast<std::int32_t>(chunks);
        layout.uneven_stages = layout.engine == Engine::kMegatron &&
                               target_.model->layers % parts != 0 && !states_stages();
        micro_batches(layout);
      }
    }
  }

  bool states_stages() const {
    return fixed_.has(KeyId::kPipelineLayout) || fixed_.has(KeyId::kFirstStageLayers) ||
           fixed_.has(KeyId::kLastStageLayers) || fixed_.has(KeyId::kCountEmbedding) ||
           fixed_.has(KeyId::kCountLoss);
  }

  Counts chunks_of(const PipelineOrder& order, std::int64_t pipeline) const {
    if (order.most_chunks > 0) return {order.fewest_chunks};
    const std::int64_t layers = target_.model->layers;
    if (layers % pipeline == 0) {
      Counts all = divisors(layers / pipeline, layers);
      all.erase(all.begin(), std::lower_bound(all.begin(), all.end(), order.fewest_chunks));
      return all;
    }
    Counts powers;
    for (std::int64_t chunks = 2; chunks * pipeline <= layers; chunks *= 2)
      powers.push_back(chunks);
    return powers;
  }

  void micro_batches(const Layout& layout) {
    space_.unfinished = space_.unfinished || (expired_ && expired_());
    if (space_.unfinished) return;
    const std::int64_t share = target_.global_batch / layout.data;
    std::vector<Rounds> rounds;
    for (const std::int64_t micro : chosen(KeyId::kMicroBatch, divisors(share, kMostMicroBatch))) {
      if (!divides(micro, share)) continue;
      const std::int64_t accumulation = share / micro;
      if (const auto said = fixed_.count(KeyId::kGradientAccumulation);
          said && fixed_.has(KeyId::kGlobalBatch) && *said != accumulation)
        continue;
      if (layout.pipeline > 1 && !order_takes(layout, accumulation)) continue;
      rounds.push_back({static_cast<std::int32_t>(micro), static_cast<std::int32_t>(accumulation)});
    }
    writer_.add(layout, rounds, divisions_of(layout), recomputations_of(layout));
  }

  static bool order_takes(const Layout& layout, std::int64_t rounds) {
    const PipelineOrder& order = order_of(layout.schedule);
    if (order.fault == nullptr) return true;
    PipelineShape shape;
    shape.ranks = layout.pipeline;
    shape.chunks = layout.chunks;
    shape.micro_batches = rounds;
    shape.group = layout.engine == Engine::kMegatron
                      ? shape.ranks
                      : rounds / std::max<std::int64_t>(1, rounds / shape.ranks);
    return order.fault(shape).empty();
  }

  std::vector<Division> divisions_of(const Layout& layout) const {
    const bool shared = layout.data * layout.context > 1;
    std::vector<Division> divisions;
    for (int stage = 0; stage < 4; ++stage) {
      const bool any = fixed_.has(KeyId::kReshard);
      if (const auto said = fixed_.count(KeyId::kZeroStage); said && *said != stage) continue;
      if (any && stage != (*fixed_.name(KeyId::kReshard) == 2 ? 2 : 3)) continue;
      if (!rules_->stages[stage]) continue;
      if (!stack_->stages[stage] && !any && !fixed_.has(KeyId::kZeroStage)) continue;
      // Megatron-FSDP where it is asked for.
      if (layout.engine == Engine::kMegatron && stage > 1 && !fixed_.has(KeyId::kZeroStage))
        continue;
      // With one rank there is nothing to share: the first stage says it, but where a later one moves states to the host.
      if (!shared && !divisions.empty() && !offloads_states(layout)) break;
      for (const std::int64_t copies : replicas_of(layout, shared && is_fsdp(layout.engine)))
        divisions.push_back({static_cast<std::uint8_t>(stage), static_cast<std::int32_t>(copies)});
    }
    return divisions;
  }

  bool offloads_states(const Layout& layout) const {
    return writer_.offloads(layout, KeyId::kOffloadOptimizer) ||
           writer_.offloads(layout, KeyId::kOffloadParameters);
  }

  // Shards over a machine's data ranks, or those of 2, 4, ... machines.
  Counts replicas_of(const Layout& layout, bool torch_shards) const {
    const auto divides_experts = [&](std::int64_t copies) {
      return layout.expert == 1 || layout.data / copies * layout.context * layout.tensor %
                                           (layout.expert * layout.expert_tensor) ==
                                       0;
    };
    if (const auto said = fixed_.count(KeyId::kReplicate)) return {*said};
    Counts copies = {1};
    if (!torch_shards) return copies;
    std::int64_t shards = std::max<std::int64_t>(
        1, target_.devices_per_node / (std::int64_t{1} * layout.tensor * layout.context));
    for (; shards < layout.data; shards *= 2)
      if (shards > 1 && layout.data % shards == 0 && divides_experts(layout.data / shards))
        copies.push_back(layout.data / shards);
    return copies;
  }

  std::vector<Recomputation> recomputations_of(const Layout& layout) const {
    std::vector<Recomputation> all;
    const auto& launched = stack_->recomputes;
    const auto take = [&](RecomputeMode mode, std::int64_t amount, std::int64_t least = 0) {
      if (!launched.empty() && !fixed_.has(KeyId::kRecomputeMode) &&
          std::find(launched.begin(), launched.end(), mode) == launched.end())
        return;
      if (allows_name(KeyId::kRecomputeMode, static_cast<int>(mode)))
        all.push_back({mode, static_cast<std::int32_t>(amount), static_cast<std::int32_t>(least)});
    };
    const bool megatron = layout.engine == Engine::kMegatron;
    take(RecomputeMode::kNone, 0);
    if (megatron || fixed_.has(KeyId::kRecomputeMode)) take(RecomputeMode::kSelective, 0);
    if (fixed_.has(KeyId::kRecomputeMode))
      for (const RecomputeMode parts : {RecomputeMode::kModules, RecomputeMode::kOperators})
        take(parts, 0);
    take(RecomputeMode::kFull, 0);
    if (!megatron || fixed_.has(KeyId::kRecomputeEvery))
      for (const std::int64_t every : chosen(KeyId::kRecomputeEvery, {2, 3, 4}))
        if (every <= target_.model->layers) take(RecomputeMode::kEvery, every);
    if (!megatron && !fixed_.has(KeyId::kRecomputeLayers)) return all;
    if (const auto said = fixed_.count(KeyId::kRecomputeLayers)) {
      take(RecomputeMode::kBlock, *said, *said);
      return all;
    }
    // All layers of the largest stage are full recomputation.
    const std::int64_t parts = std::int64_t{1} * layout.pipeline * layout.chunks;
    const std::int64_t most = (target_.model->layers + parts - 1) / parts;
    std::int64_t least = 1;
    for (const std::int64_t part : {1, 2, 3, 4}) {
      const std::int64_t upto = std::min(most - 1, most * part / 4);
      if (upto < least) continue;
      take(RecomputeMode::kBlock, upto, least);
      least = upto + 1;
    }
    return all;
  }

  const PlanTarget& target_;
  const Settings& fixed_;
  const std::function<bool()>& expired_;
  Space& space_;
  SpaceWriter writer_;
  std::int64_t experts_ = 0;
  const EngineRules* rules_ = nullptr;
  const SearchedStack* stack_ = nullptr;
};

}  // namespace

Space space_of(const PlanTarget& target, const Settings& fixed, std::vector<RecipeChange> recipes,
               const std::function<bool()>& expired) {
  Space space;
  space.recipes = std::move(recipes);
  space.stacks = target.stacks;
  Enumeration(target, fixed, expired, space).run();
  return space;
}

}  // namespace steelyard
