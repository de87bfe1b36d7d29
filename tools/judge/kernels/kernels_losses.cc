// Cross entropy with and without the head.
#include "kernels/kernels.h"
#include "model/modules.h"
#include "operators/ends.h"

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
  bench.result(compose_head(bench.composer(), model, x, labels, labels), Bench::Gradient::kMade);
  return bench.peak(benchmark.passes);
}

}  // namespace steelyard
