// Cross entropy with and without the head, and the divergences of distillation.
#include "model/modules.h"
#include "operators/ends.h"
#include "validate/kernels/kernels.h"

namespace steelyard {
namespace {

constexpr ElementType kFloat32 = ElementType::kFloat32;

// Logits come as they are and labels as they are wanted: as of an encoder.
Architecture bare_head() {
  Architecture model;
  model.encoder = true;
  return model;
}

Sizes<Checked> sizes_of(Checked tokens, Checked hidden, Checked vocabulary) {
  Sizes<Checked> sizes;
  sizes.batch = 1;
  sizes.sequence = sizes.tokens = sizes.shard_tokens = tokens;
  sizes.tensor = 1;
  sizes.hidden = hidden;
  sizes.vocabulary = vocabulary;
  return sizes;
}

// Tokens of one chunk of Liger's fused losses.
Checked chunk_of(Checked tokens, Checked hidden, Checked vocabulary) {
  const Checked wanted = ceil_divide(tokens, ceil_divide(vocabulary, hidden));
  Checked chunk = 1;
  while (chunk < wanted) chunk = chunk * 2;
  return chunk < tokens ? chunk : tokens;
}

// sum of target.exp() * (target - input) over the vocabulary: KLDivLoss(log_target=True), reduction none, and its sum.
ValueId divergence(Bench& bench, ValueId input, ValueId target, Checked elements, Checked rows) {
  Graph<Checked>& graph = bench.graph();
  const bool both = graph.needs_gradient(target);
  const ValueId exponential =
      bench.add("exp(target)", {target}, elements, kFloat32, {}, {}, {kGradient0}, both);
  const ValueId difference =
      bench.add("target - input", {target, input}, elements, kFloat32, {}, {},
                both ? Few<BackwardStep, 14>{kGradient1, {BackwardStep::kAliasGradient, 0, -1}}
                     : Few<BackwardStep, 14>{kGradient1});
  Few<ValueId, 10> saved = {exponential};
  if (both) saved.push_back(difference);
  const ValueId product = bench.add("product", {exponential, difference}, elements, kFloat32, saved,
                                    {}, {kGradient1, kGradient0});
  return bench.add("sum", {product}, rows, kFloat32, {}, {}, {kGradient0});
}

// torch's own: the mean of both distributions, twice the divergence from it.
ValueId jensen_shannon(Bench& bench, ValueId q, ValueId p, Checked elements, Checked rows) {
  const bool both = bench.graph().needs_gradient(p);
  const ValueId exponential_q = bench.add("exp(q)", {q}, elements, kFloat32, {}, {}, {kGradient0});
  const ValueId exponential_p =
      bench.add("exp(p)", {p}, elements, kFloat32, {}, {}, {kGradient0}, both);
  const ValueId mean = bench.add(
      "mean", {exponential_q, exponential_p}, elements, kFloat32,
      both ? Few<ValueId, 10>{exponential_q, exponential_p} : Few<ValueId, 10>{exponential_q}, {},
      {kGradient1, kGradient0});
  const auto logarithm = [&] {
    return bench.add("log(mean)", {mean}, elements, kFloat32, {mean}, {}, {kGradient0});
  };
  const ValueId first = divergence(bench, logarithm(), p, elements, rows);
  const ValueId second = divergence(bench, logarithm(), q, elements, rows);
  return bench.composer().add(first, second, {"benchmark", "loss", "benchmark.input"});
}

}  // namespace

Bytes peak_of_cross_entropy(const KernelBenchmark& benchmark) {
  const Checked tokens = benchmark.at("B") * benchmark.at("T");
  const Checked vocabulary = benchmark.at("V");
  OperatorStyle style = style_of(benchmark);
  if (benchmark.liger()) style.loss = LossKernel::kFused;
  Bench bench(sizes_of(tokens, 1, vocabulary), style, {}, kFloat32);
  const ValueId logits =
      bench.leaf("logits", tokens * vocabulary, kFloat32,
                 benchmark.liger() ? Bench::Leaf::kTrainedInPlace : Bench::Leaf::kTrained);
  const ValueId labels = bench.leaf("labels", tokens, ElementType::kInt64, Bench::Leaf::kFrozen);
  const Architecture model = bare_head();
  bench.result(compose_cross_entropy(bench.composer(), model, logits, labels),
               Bench::Gradient::kMade);
  return bench.peak(benchmark.passes);
}

Bytes peak_of_linear_cross_entropy(const KernelBenchmark& benchmark) {
  const Checked tokens = benchmark.at("BT"), hidden = benchmark.at("H"),
                vocabulary = benchmark.at("V");
  Architecture model = bare_head();
  model.head = add_linear(model.head_parameters, "lm_head", hidden, vocabulary);
  OperatorStyle style = style_of(benchmark);
  style.liger = false;
  Bench bench(sizes_of(tokens, hidden, vocabulary), style, model.head_parameters,
              ElementType::kBFloat16);
  bench.hold(vocabulary * hidden, ElementType::kBFloat16);  // the other provider's head
  bench.hold_bytes(benchmark.workspace + benchmark.workspace);
  const ValueId x =
      bench.leaf("hidden states", tokens * hidden, ElementType::kBFloat16, Bench::Leaf::kTrained);
  const ValueId labels = bench.leaf("labels", tokens, ElementType::kInt64, Bench::Leaf::kFrozen);
  if (!benchmark.liger()) {
    bench.result(compose_head(bench.composer(), model, x, labels, labels), Bench::Gradient::kMade);
    return bench.peak(benchmark.passes);
  }
  // Liger 0.4 adds a chunk's weight gradient into the sum, and widens the logits; what is left of the chunk before
  // stands beside the new one. (0.8, which models take, overwrites 16-bit logits and casts the weight gradient.)
  const Checked chunk = chunk_of(tokens, hidden, vocabulary) * vocabulary;
  bench.hold(vocabulary * hidden, ElementType::kBFloat16);  // both gradients are made in forward
  bench.hold(tokens * hidden, ElementType::kBFloat16);
  bench.result(
      bench.add("fused linear cross entropy", {x, labels}, tokens, kFloat32, {},
                {bench.temporary("gradient of the chunk before", chunk, ElementType::kBFloat16),
                 bench.temporary("logits of a chunk", chunk, ElementType::kBFloat16),
                 bench.temporary("logits of a chunk, fp32", chunk, kFloat32)},
                {}),
      Bench::Gradient::kMade);
  return bench.peak(benchmark.passes);
}

Bytes peak_of_divergence(const KernelBenchmark& benchmark) {
  const Checked rows = benchmark.at("B") * benchmark.at("T");
  const Checked elements = rows * benchmark.at("V");
  const bool shannon = benchmark.kernel == "jsd";
  Bench bench(sizes_of(rows, 1, benchmark.at("V")), style_of(benchmark), {}, kFloat32);
  bench.retain_graph();
  // The input is a log-softmax made once; its own input and that one's gradient stay with it.
  const ValueId x = bench.leaf("logits", elements, kFloat32, Bench::Leaf::kTrained);
  bench.hold(elements, kFloat32);
  const ValueId q = bench.graph().view(x, elements);
  Operator made;
  made.label = "log softmax";
  made.inputs = {x};
  made.outputs = {q};
  made.backward = {kGradient0};
  bench.graph().add(made);
  const ValueId target = bench.leaf("target", elements, kFloat32, Bench::Leaf::kFrozen);
  ValueId loss = kNoValue;
  if (benchmark.liger() && shannon) {
    // The gradient is made in forward beside the loss of every word, and both summed.
    const ValueId gradient = bench.graph().tensor({"benchmark", "gradient", "benchmark.input"},
                                                  elements, kFloat32, false);
    Operator fused;
    fused.label = "jsd";
    fused.inputs = {q, target};
    loss = bench.graph().tensor({"benchmark", "loss", "benchmark.input"}, 1, kFloat32, true);
    fused.outputs = {loss, gradient};
    fused.saved = {gradient};
    fused.passing = {bench.temporary("loss by word", elements, kFloat32)};
    fused.backward = {{BackwardStep::kAliasGradient, 0, -1}};
    bench.graph().add(fused);
  } else if (benchmark.liger()) {
    // Backward makes the gradient and divides it by the rows: two tensors.
    loss = bench.add(
        "kl divergence", {q, target}, rows, kFloat32, {target}, {},
        {{BackwardStep::kTemporary, 0, bench.temporary("gradient, undivided", elements, kFloat32)},
         kGradient0});
  } else if (shannon) {
    loss = jensen_shannon(bench, q, target, elements, rows);
  } else {
    // xlogy(target, target) - target · input
    const ValueId product =
        bench.add("target · input", {q, target}, elements, kFloat32, {target}, {}, {kGradient0});
    loss = bench.add("kl divergence", {product}, rows, kFloat32, {},
                     {bench.temporary("xlogy(target, target)", elements, kFloat32),
                      bench.temporary("difference", elements, kFloat32)},
                     {kGradient0});
  }
  bench.result(loss, Bench::Gradient::kMade);
  return bench.peak(benchmark.passes);
}

// Student and teacher, each with a head of its own; nobody freezes the teacher's.
Bytes peak_of_linear_divergence(const KernelBenchmark& benchmark) {
  const Checked tokens = benchmark.at("BT"), hidden = benchmark.at("H"),
                vocabulary = benchmark.at("V");
  const Checked elements = tokens * vocabulary;
  constexpr ElementType kHalf = ElementType::kBFloat16;
  Tensors tensors;
  const Linear student = add_linear(tensors, "student", hidden, vocabulary);
  const Linear teacher = add_linear(tensors, "teacher", hidden, vocabulary);
  if (benchmark.liger()) tensors[1].gradient = false;  // its kernel makes none
  Bench bench(sizes_of(tokens, hidden, vocabulary), style_of(benchmark), tensors, kHalf);
  bench.hold_bytes(benchmark.workspace + benchmark.workspace);
  const ValueId x = bench.leaf("student", tokens * hidden, kHalf, Bench::Leaf::kTrained);
  const ValueId y = bench.leaf("teacher", tokens * hidden, kHalf, Bench::Leaf::kFrozen);
  if (benchmark.liger()) {
    const Checked chunk = chunk_of(tokens, hidden, vocabulary) * vocabulary;
    bench.hold(vocabulary * hidden, kHalf);
    bench.hold(tokens * hidden, kHalf);
    const auto piece = [&](const char* name) { return bench.temporary(name, chunk, kFloat32); };
    bench.result(bench.add("fused linear jsd", {x, y}, 1, kFloat32, {},
                           {bench.temporary("loss by word", elements, kFloat32), piece("logits"),
                            piece("the teacher's logits"), piece("log-softmax"),
                            piece("the teacher's log-softmax"), piece("softmax")},
                           {}),
                 Bench::Gradient::kMade);
    return bench.peak(benchmark.passes);
  }
  const auto log_softmax = [&](ValueId input, const Linear& head) {
    const ValueId logits = bench.composer().linear(input, head, tokens, hidden, vocabulary);
    const ValueId scaled =
        bench.composer().scale(logits, {"benchmark", "logits / temperature", "benchmark.input"});
    const ValueId result = bench.graph().tensor({"benchmark", "log-softmax", "benchmark.input"},
                                                elements, kHalf, true);
    Operator operation;
    operation.label = "log softmax";
    operation.inputs = {scaled};
    operation.outputs = {result};
    operation.saved = {result};
    operation.backward = {kGradient0};
    bench.graph().add(operation);
    bench.graph().hold(logits);
    return result;
  };
  const ValueId q = log_softmax(x, student), p = log_softmax(y, teacher);
  const auto wide = [&](ValueId value) {
    return bench.composer().cast(value, kFloat32, {"benchmark", "fp32", "benchmark.input"});
  };
  const ValueId wide_p = wide(p), wide_q = wide(q);
  const ValueId loss = jensen_shannon(bench, wide_q, wide_p, elements, tokens);
  bench.result(loss, Bench::Gradient::kMade);
  return bench.peak(benchmark.passes);
}

}  // namespace steelyard
