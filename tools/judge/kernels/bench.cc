#include "kernels/bench.h"

#include <algorithm>
#include <utility>

namespace steelyard {
namespace {

Bytes allocated(Checked elements, ElementType type) {
  return allocated_size(bytes_of(Elements(elements), type));
}

// The highest point of `events` above nothing; `at` is where they start and where they end.
std::int64_t highest(const Program& program, const std::vector<Event>& events, std::int64_t& at,
                     const std::vector<SlotId>& stays) {
  std::int64_t most = at;
  for (const Event& event : events) {
    if (event.count < 0 && std::find(stays.begin(), stays.end(), event.slot) != stays.end())
      continue;
    at += event.count * program.slot_at(event.slot).bytes.value().value();
    most = std::max(most, at);
  }
  return most;
}

}  // namespace

Bench::Bench(const Sizes<Checked>& sizes, const OperatorStyle& style,
             std::vector<ParameterTensor> parameters, ElementType weights)
    : sizes_(sizes), style_(style), parameters_(std::move(parameters)) {
  composer_ = std::make_unique<Composer<Checked>>(book_, style_, sizes_, parameters_);
  for (const ParameterTensor& parameter : parameters_) {
    hold(elements_of(parameter), weights);
    if (parameter.gradient) hold_gradient(elements_of(parameter), style_.gradient);
  }
}

ValueId Bench::leaf(const char* name, Checked elements, ElementType type, Leaf kind) {
  hold(elements, type);
  if (kind == Leaf::kTrained) hold_gradient(elements, type);
  const SlotId slot =
      book_.slot({"benchmark", name, "benchmark.input"}, Pile::kActivations, elements, type);
  return graph().input(slot, elements, type, kind != Leaf::kFrozen, false, false);
}

void Bench::hold(Checked elements, ElementType type, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) held_ += allocated(elements, type);
}

void Bench::hold_gradient(Checked elements, ElementType type, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) gradients_ += allocated(elements, type);
}

void Bench::result(ValueId value, Gradient gradient) {
  gradient_ = gradient;
  const Checked elements = graph().elements(value);
  const ElementType type = graph().type(value);
  graph().result(value, graph().storage_slot(value));
  result_gradient_ = book_.slot({"benchmark", "gradient of the result", "benchmark.input"},
                                Pile::kTemporary, elements, type);
  graph().gradient_slot(value, result_gradient_);
  // Whoever calls backward holds the gradient that he hands over until it returns.
  graph().borrow_result_gradient();
  if (gradient == Gradient::kGiven) hold(elements, type);
}

Bytes Bench::peak(Passes passes) {
  graph().finish();
  const Program& program = book_.program;
  std::int64_t at = held_.value().value();
  if (passes != Passes::kForward) at += gradients_.value().value();
  std::int64_t most = highest(program, graph().forward(), at, {});
  if (passes == Passes::kForward) return Bytes(most);
  if (gradient_ != Gradient::kGiven) at += program.slot_at(result_gradient_).bytes.value().value();
  most = std::max(most, at);
  const std::vector<SlotId> stays = retains_graph_ ? graph().kept() : std::vector<SlotId>();
  return Bytes(std::max(most, highest(program, graph().backward(GradientPolicy::kAdd), at, stays)));
}

}  // namespace steelyard
