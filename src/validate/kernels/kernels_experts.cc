// A layer's experts: Liger's grouped kernels, and the loop over experts that they replace.
#include "validate/kernels/kernels.h"

namespace steelyard {
namespace {

constexpr ElementType kType = ElementType::kBFloat16;

}  // namespace

Bytes peak_of_experts(const KernelBenchmark& benchmark) {
  const Checked tokens = benchmark.at("T"), experts = benchmark.at("E"), hidden = benchmark.at("H"),
                inner = benchmark.at("intermediate_dim");
  const Checked chosen = tokens * benchmark.at("K");
  const Checked both = Checked(2) * inner;
  Sizes<Checked> sizes;
  sizes.tensor = 1;
  Bench bench(sizes, style_of(benchmark), {}, kType);
  bench.retain_graph();
  bench.hold_bytes(benchmark.workspace + benchmark.workspace);
  // The weights are random tensors times 0.02, made once: the random ones are the leaves, and stay.
  const auto weights = [&](const char* name, Checked elements) {
    const ValueId random = bench.leaf(name, elements, kType, Bench::Leaf::kTrained);
    bench.hold(elements, kType);
    const ValueId scaled = bench.graph().view(random, elements);
    Operator scale;
    scale.label = "scale";
    scale.inputs = {random};
    scale.outputs = {scaled};
    scale.backward = {kGradient0};
    bench.graph().add(scale);
    return scaled;
  };
  const ValueId gate_up = weights("gate and up", experts * both * hidden);
  const ValueId down = weights("down", experts * inner * hidden);
  const ValueId x = bench.leaf("x", tokens * hidden, kType, Bench::Leaf::kTrained);
  const Checked pair = chosen * both, single = chosen * inner, wide = chosen * hidden;
  ValueId y = kNoValue;
  if (benchmark.liger()) {
    const ValueId before = bench.graph().tensor(
        {"benchmark", "gate and up of the tokens", "benchmark.input"}, pair, kType, false);
    Operator fused;
    fused.label = "experts";
    y = bench.graph().tensor({"benchmark", "output", "benchmark.input"}, tokens * hidden, kType,
                             true);
    fused.inputs = {gate_up, down, x};
    fused.outputs = {before, y};
    fused.saved = {before};
    fused.passing = {bench.temporary("act(gate)·up", single, kType),
                     bench.temporary("outputs by choice", wide, kType)};
    fused.backward = {{BackwardStep::kTemporary, 0, bench.temporary("gradient", pair, kType)},
                      {BackwardStep::kTemporary, 0, bench.temporary("weighted", single, kType)},
                      kGradient1,
                      {BackwardStep::kTemporary, 0, bench.temporary("by choice", wide, kType)},
                      kGradient2,
                      kGradient0};
    bench.graph().add(fused);
  } else {
    // One expert after the other: what each keeps adds up to that of all choices; of the weights, each writes into a
    // gradient of the whole tensor, and the next is added to it.
    const auto kept = [&](const char* name, Checked elements) {
      return bench.graph().tensor({"benchmark", name, "benchmark.input"}, elements, kType, false);
    };
    bench.hold(chosen * experts, ElementType::kInt64);  // one-hot choices
    Operator loop;
    loop.label = "experts";
    y = bench.graph().tensor({"benchmark", "output", "benchmark.input"}, tokens * hidden, kType,
                             true);
    loop.inputs = {gate_up, down, x};
    loop.outputs = {kept("gate and up", pair), kept("silu(gate), product", pair), y,
                    kept("tokens, outputs, weighted", Checked(3) * wide)};
    loop.saved = {loop.outputs[0], loop.outputs[1], loop.outputs[3]};
    loop.backward = {
        kGradient1,
        {BackwardStep::kTemporary, 0,
         bench.temporary("gradient of the next expert", experts * both * hidden, kType)},
        kGradient0,
        kGradient2};
    bench.graph().add(loop);
  }
  bench.result(
      y, benchmark.passes == Passes::kBackward ? Bench::Gradient::kGiven : Bench::Gradient::kMade);
  return bench.peak(benchmark.passes);
}

}  // namespace steelyard
