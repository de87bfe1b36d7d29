#include "plan/layout.h"

#include <fmt/format.h>

#include <tuple>

#include "job/engine_rules.h"
#include "job/stages.h"

namespace steelyard {
namespace {

Value counted(std::int64_t number) { return Value::integer(number); }
Value named(std::string_view name) { return Value::string(std::string(name)); }

// A part of a layout that stands for itself: its name, and its value as a person says it.
struct Aspect {
  std::string name, value;
};

std::vector<Aspect> aspects_of(const Layout& layout) {
  const auto number = [](std::int64_t value) { return fmt::format("{}", value); };
  return {{"engine", std::string(name_of(layout.engine))},
          {"tensor", number(layout.tensor)},
          {"sequence parallel",
           layout.tensor == 1 || layout.sequence_parallel ? std::string("yes") : std::string("no")},
          {"context", number(layout.context)},
          {"context method",
           layout.context == 1 ? std::string() : std::string(name_of(layout.context_method))},
          {"pipeline", number(layout.pipeline)},
          {"schedule", order_words(layout)},
          {"expert", number(layout.expert)},
          {"expert tensor", layout.expert_tensor == layout.tensor ? std::string("as tensor")
                                                                  : number(layout.expert_tensor)},
          {"zero", number(layout.zero_stage)},
          {"replicas", number(layout.replicate)},
          {"recompute", recompute_words(layout)},
          {"micro-batch", number(layout.micro_batch)},
          {"loss", std::string(name_of(layout.loss))},
          {"recipe", number(layout.recipe)}};
}

}  // namespace

int complexity_of(const Layout& layout) {
  int count = 0;
  for (const bool has :
       {layout.tensor > 1, layout.context > 1, layout.pipeline > 1, layout.chunks > 1,
        layout.expert > 1, layout.replicate > 1, layout.zero_stage > 0 && layout.data > 1,
        layout.schedule > PipelineSchedule::kInterleaved, layout.uneven_stages,
        layout.recompute != RecomputeMode::kNone,
        layout.recompute == RecomputeMode::kEvery || layout.recompute == RecomputeMode::kBlock,
        layout.loss != LossKernel::kPlain, layout.recipe > 0})
    count += has ? 1 : 0;
  return count;
}

bool are_alike(const Layout& a, const Layout& b) {
  const auto seen = [](const Layout& layout) {
    return std::tuple(layout.engine, layout.tensor, layout.context, layout.pipeline, layout.expert,
                      layout.data, layout.zero_stage, layout.recompute, layout.recipe);
  };
  return seen(a) == seen(b);
}

int differences_between(const Layout& a, const Layout& b) {
  const std::vector<Aspect> ours = aspects_of(a), theirs = aspects_of(b);
  int count = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) count += ours[i].value == theirs[i].value ? 0 : 1;
  return count;
}

std::string words_of_change(const Layout& from, const Layout& to) {
  const std::vector<Aspect> ours = aspects_of(from), theirs = aspects_of(to);
  std::string text;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    // What the number of a recipe stands for only the space knows.
    if (ours[i].value == theirs[i].value || ours[i].name == "recipe") continue;
    text += text.empty() ? "" : ", ";
    if (ours[i].value.empty())
      text += fmt::format("{} {}", theirs[i].name, theirs[i].value);
    else if (!theirs[i].value.empty())
      text += fmt::format("{} {} -> {}", ours[i].name, ours[i].value, theirs[i].value);
    else
      text += fmt::format("no {}", ours[i].name);
  }
  return text;
}

std::string recompute_words(const Layout& layout) {
  switch (layout.recompute) {
    case RecomputeMode::kNone:
      return "none";
    case RecomputeMode::kEvery:
      return fmt::format("1 in {}", layout.recomputed);
    case RecomputeMode::kBlock:
      return fmt::format("first {}", layout.recomputed);
    default:
      return std::string(name_of(layout.recompute));
  }
}

std::string order_words(const Layout& layout) {
  if (layout.pipeline == 1) return "";
  std::string text(name_of(layout.schedule));
  if (layout.chunks > 1) text += fmt::format(" x{}", layout.chunks);
  return text;
}

std::string words_of(const Layout& layout, std::string_view separator) {
  std::vector<std::string> words = {std::string(name_of(layout.engine))};
  const auto add = [&](const char* name, std::int64_t count) {
    if (count > 1) words.push_back(fmt::format("{} {}", name, count));
  };
  add("tensor", layout.tensor);
  add("context", layout.context);
  add("pipeline", layout.pipeline);
  add("expert", layout.expert);
  add("data", layout.data);
  add("replicas", layout.replicate);
  // With one rank a stage says nothing, but where it sends what it would divide to the host.
  if (layout.data * layout.context > 1 || (layout.zero_stage > 0 && !is_fsdp(layout.engine)))
    words.push_back(fmt::format("zero {}", layout.zero_stage));
  if (layout.schedule != PipelineSchedule::kOneForwardOneBackward)
    words.push_back(order_words(layout));
  words.push_back(fmt::format("micro-batch {}", layout.micro_batch));
  words.push_back(layout.recompute == RecomputeMode::kNone
                      ? std::string("no recompute")
                      : "recompute " + recompute_words(layout));
  if (layout.loss != LossKernel::kPlain)
    words.push_back(fmt::format("loss {}", name_of(layout.loss)));
  std::string text;
  for (const std::string& word : words)
    text += (text.empty() ? std::string() : std::string(separator)) + word;
  return text;
}

std::vector<std::pair<KeyId, Value>> keys_of(const Layout& layout, std::int64_t layers) {
  std::vector<std::pair<KeyId, Value>> keys = {
      {KeyId::kEngine, named(name_of(layout.engine))},
      {KeyId::kImplementation, named(name_of(layout.implementation))},
      {KeyId::kDevices, counted(layout.devices())},
      {KeyId::kMicroBatch, counted(layout.micro_batch)},
      {KeyId::kGradientAccumulation, counted(layout.accumulation)},
      {KeyId::kGlobalBatch,
       counted(std::int64_t{1} * layout.micro_batch * layout.accumulation * layout.data)},
      {KeyId::kData, counted(layout.data)},
      {KeyId::kZeroStage, counted(layout.zero_stage)}};
  const auto add = [&](KeyId id, Value value) { keys.emplace_back(id, std::move(value)); };
  if (layout.replicate > 1) add(KeyId::kReplicate, counted(layout.replicate));
  if (layout.tensor > 1) {
    add(KeyId::kTensor, counted(layout.tensor));
    add(KeyId::kSequenceParallel, Value::boolean(layout.sequence_parallel));
  }
  if (layout.context > 1) {
    add(KeyId::kContext, counted(layout.context));
    add(KeyId::kContextMethod, named(name_of(layout.context_method)));
  }
  if (layout.pipeline > 1) {
    add(KeyId::kPipeline, counted(layout.pipeline));
    add(KeyId::kSchedule, named(name_of(layout.schedule)));
    if (layout.chunks > 1) add(KeyId::kVirtualPipeline, counted(layout.chunks));
    if (layout.uneven_stages) {
      Value::Array counts;
      for (const Layers& part :
           torchtitan_stages(layers, std::int64_t{1} * layout.pipeline * layout.chunks))
        counts.push_back(counted(part));
      add(KeyId::kPipelineLayout, Value::array(std::move(counts)));
    }
  }
  if (layout.expert > 1) add(KeyId::kExpert, counted(layout.expert));
  if (layout.expert_tensor != layout.tensor || layout.expert_tensor > 1)
    if (layout.expert > 1 || layout.expert_tensor != layout.tensor)
      add(KeyId::kExpertTensor, counted(layout.expert_tensor));
  add(KeyId::kRecomputeMode, named(name_of(layout.recompute)));
  if (layout.recompute == RecomputeMode::kEvery)
    add(KeyId::kRecomputeEvery, counted(layout.recomputed));
  if (layout.recompute == RecomputeMode::kBlock)
    add(KeyId::kRecomputeLayers, counted(layout.recomputed));
  if (layout.loss != LossKernel::kPlain) add(KeyId::kLoss, named(name_of(layout.loss)));
  return keys;
}

}  // namespace steelyard
