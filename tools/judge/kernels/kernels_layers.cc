// Norms, the gated feed-forward and rotary embedding.
#include "kernels/kernels.h"
#include "model/modules.h"

namespace steelyard {
Bytes peak_of_norm(const KernelBenchmark& benchmark) {
  const bool layer_norm = benchmark.kernel == "layer_norm";
  const Checked rows = benchmark.at("M"), width = benchmark.at(layer_norm ? "N" : "H");
  const Checked elements = rows * width;
  const ElementType type = benchmark.is_float32 ? ElementType::kFloat32 : ElementType::kBFloat16;
  Tensors tensors;
  const Norm norm =
      add_norm(tensors, "norm", layer_norm ? NormKind::kLayerNorm : NormKind::kRms, width);
  Sizes<Checked> sizes;
  OperatorStyle style = style_of(benchmark);
  style.gradient = ElementType::kFloat32;  // the module's own type, which nobody changes
  Bench bench(sizes, style, tensors, ElementType::kFloat32);
  bench.retain_graph();
  const ValueId x = bench.leaf("x", elements, type, Bench::Leaf::kTrained);
  bench.result(bench.composer().normalise(x, norm, rows, width), Bench::Gradient::kGiven);
  return bench.peak(benchmark.passes);
}

Bytes peak_of_gated_mlp(const KernelBenchmark& benchmark) {
  const bool gelu = benchmark.kernel == "geglu";
  Sizes<Checked> sizes;
  sizes.batch = benchmark.at(gelu ? "bsz" : "B");
  sizes.sequence = benchmark.at("T");
  sizes.tokens = sizes.shard_tokens = sizes.batch * sizes.sequence;
  sizes.tensor = 1;
  sizes.hidden = benchmark.at("hidden_size");
  Tensors tensors;
  MlpOptions options;
  if (gelu) options.activation = Activation::kGeluTanh;
  const DenseMlp mlp =
      add_gated_mlp(tensors, "mlp.", sizes.hidden, benchmark.at("intermediate_size"), options);
  Bench bench(sizes, style_of(benchmark), tensors, ElementType::kBFloat16);
  bench.retain_graph();
  const ValueId x =
      bench.leaf("x", sizes.tokens * sizes.hidden, ElementType::kBFloat16, Bench::Leaf::kTrained);
  bench.result(bench.composer().mlp(x, mlp), benchmark.passes == Passes::kBackward
                                                 ? Bench::Gradient::kGiven
                                                 : Bench::Gradient::kMade);
  // Forward and backward have both run in this process: two threads, two workspaces.
  bench.hold_bytes(benchmark.workspace + benchmark.workspace);
  return bench.peak(benchmark.passes);
}

// Query and key, as views whose heads come second; their gradients are given, and theirs are results too.
Bytes peak_of_rotary(const KernelBenchmark& benchmark) {
  const Checked tokens = benchmark.at("seq_len");
  const Checked width = benchmark.at("hidden_size") / benchmark.at("num_q_heads");
  const Checked query = tokens * benchmark.at("hidden_size");
  const Checked key = tokens * width * benchmark.at("num_kv_heads");
  Sizes<Checked> sizes;
  sizes.tensor = 1;
  Bench bench(sizes, style_of(benchmark), {}, ElementType::kBFloat16);
  bench.retain_graph();
  bench.hold(tokens * width, ElementType::kBFloat16, 2);  // cosine and sine
  bench.hold(tokens, ElementType::kInt64);
  bench.hold_bytes(benchmark.workspace);  // of the product that made the angles
  Composer<Checked>& composer = bench.composer();
  const ValueId q = bench.leaf("q", query, ElementType::kBFloat16, Bench::Leaf::kTrainedInPlace);
  const ValueId k = bench.leaf("k", key, ElementType::kBFloat16, Bench::Leaf::kTrainedInPlace);
  if (benchmark.liger()) {
    composer.rotary_in_place(q);
    composer.rotary_in_place(k);
    bench.hold(query, ElementType::kBFloat16);  // the gradients, turned where they lie
    bench.hold(key, ElementType::kBFloat16);
    return bench.peak(Passes::kForward);
  }
  GroupedAttention attention;
  attention.head_width = attention.rotary_width = plain(width);
  ValueId turned_query = q, turned_key = k;
  composer.rotary(turned_query, turned_key, attention);
  bench.result(turned_query, Bench::Gradient::kGiven);
  bench.result(turned_key, Bench::Gradient::kGiven);
  return bench.peak(benchmark.passes);
}

}  // namespace steelyard
