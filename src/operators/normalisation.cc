// RMSNorm and LayerNorm, written out in Python or as one kernel.
//
//   composite RMSNorm (transformers, torch before 2.9), per row of h:
//                                                    x32 4h kept · rstd 4 kept · n 2h kept · y 2h kept by what reads it
//   scaling's                                        x 2h kept · rstd 2 kept · n 2h kept · y 2h kept
//   fused                                            x 2h kept · rstd 4 kept
//   Liger                                            the same, and the gradient of x overwrites that of y
#include "operators/composer.h"

namespace steelyard {

template <class N>
ValueId Composer<N>::normalise(ValueId x, const Norm& norm, const N& rows, const N& width,
                               Apart apart) {
  const int begin = position();
  ValueId y;
  switch (norm.kind) {
    case NormKind::kLayerNorm:
    case NormKind::kLayerNormUnitOffset:
      y = layer_norm(x, norm, rows, width, apart);
      break;
    case NormKind::kRmsNarrowInput:
      y = rms_narrow(x, norm, rows, width);
      break;
    default:
      y = style.norms_written_out ? rms_composite(x, norm, rows, width)
                                  : rms_fused(x, norm, rows, width);
      break;
  }
  // Compiled, a product that trains keeps what it reads: the partitioner bans from recomputation what backward reads whole.
  if (recomputed.norms || style.compiled) recompute_from(begin, recomputed.norms);
  return y;
}

// LlamaRMSNorm.forward and its relatives, operator by operator (transformers, modeling_llama.py; modular_gemma.py), and
// rms_norm_symint of torch before 2.9 (aten/src/ATen/native/layer_norm.cpp), whose names hold other tensors meanwhile.
template <class N>
ValueId Composer<N>::rms_composite(ValueId x, const Norm& norm, const N& rows, const N& width) {
  const char* owner = norm.name.c_str();
  // torchtune hands it an fp32 copy beside a weight of 16 bits, which torch's one kernel does not take
  // (torchtune/modules/rms_norm.py since 0.5; before, as llama's).
  const bool of_torchtune = style.implementation == Implementation::kTorchtune;
  const bool of_torch =
      style.implementation == Implementation::kTorchtitan || (of_torchtune && !style.older_norms);
  const bool needs = graph.needs_gradient(x);
  const ElementType in = graph.type(x);
  const N elements = rows * width;
  // scaling computes in the type of the input, and takes the result through fp32 and back (core/nn/norm/rms_norm.py), which
  // llama's own code, whose line it has, does with fp32 values. Before it was published it did so, too, by its runs' times and
  // by what ran out of memory.
  const bool round_trip = style.implementation == Implementation::kScaling && !style.older_norms;
  const ElementType inner = round_trip ? in : ElementType::kFloat32;
  const ValueId x32 = cast(x, inner, {owner, "fp32 copy of the input", "op.rms-norm.fp32-copy"});

  // The last that comes back from the host for the head stays beyond it (Graph::return_late).
  if (of_torchtune && style.offloads_saved && !in_layer) graph.outlive(x32);
  const ValueId squares = square(x32, {owner, "squares", "op.pow.output"});
  const ValueId mean =
      single("mean", squares, {owner, "mean of squares", "op.mean.output"}, rows, inner, {});
  const ValueId reciprocal =
      single("rsqrt", mean, {owner, "reciprocal root mean square", "op.rsqrt.saved-output"}, rows,
             inner, {false, true});
  if (of_torch) graph.hold(squares);  // one expression in C++, and all of its values end with it

  ValueId n32 =
      graph.tensor({owner, "normalised, fp32", "op.rms-norm.normalised"}, elements, inner, needs);
  Operator scale_rows;
  scale_rows.label = "multiply";
  scale_rows.inputs = {x32, reciprocal};
  scale_rows.outputs = {n32};
  scale_rows.saved = {x32, reciprocal};
  const SlotId product = graph.temporary(
      {owner, "gradient of the row scale, unreduced", "op.multiply.broadcast-backward"}, elements,
      inner);
  scale_rows.backward = {{BackwardStep::kTemporary, 0, product}, kGradient1, kGradient0};
  graph.add(scale_rows);
  if (round_trip)
    n32 = cast(n32, ElementType::kFloat32, {owner, "normalised, fp32", "op.rms-norm.normalised"});

  // llama casts back and multiplies by w; gemma, gpt_oss and torch 2.7 multiply in fp32 and cast back.
  // litgpt casts back first, whatever the model (litgpt/model.py, RMSNorm).
  const bool of_model =
      style.implementation != Implementation::kLitgpt &&
      (norm.kind == NormKind::kRmsUnitOffset || norm.kind == NormKind::kRmsFloat32);
  const bool weight_in_float32 =
      of_model || (of_torch && (of_torchtune || style.rms_norm == TorchRmsNorm::kWeighedInFloat32));
  ValueId n =
      weight_in_float32 ? n32 : cast(n32, in, {owner, "normalised", "op.rms-norm.normalised"});
  if (norm.kind == NormKind::kWeightless) return n;
  const ElementType product_type = weight_in_float32 ? ElementType::kFloat32 : in;
  ValueId y = graph.tensor({owner, "output", "op.rms-norm.output"}, elements, product_type,
                           needs || has_gradient(norm.weight_index));
  Operator weigh;
  weigh.label = "multiply by weight";
  weigh.inputs = {n};
  weigh.outputs = {y};
  if (has_gradient(norm.weight_index)) weigh.saved = {n};
  if (norm.kind == NormKind::kRmsUnitOffset) {
    // 1.0 + self.weight.float(): a new vector in each forward
    const ValueId plus_one = graph.tensor({owner, "1 + weight, fp32", "op.rms-norm.offset-weight"},
                                          width, ElementType::kFloat32, false);
    weigh.outputs.push_back(plus_one);
    if (needs) weigh.saved.push_back(plus_one);
  }
  if (needs) keep_weight(weigh, owner, width);
  weigh.backward.push_back(kGradient0);
  if (has_gradient(norm.weight_index)) {
    const SlotId unreduced =
        graph.temporary({owner, "weight gradient, unreduced", "op.multiply.broadcast-backward"},
                        elements, product_type);
    weigh.backward.push_back({BackwardStep::kTemporary, 0, unreduced});
    sum_rows(weigh, owner, rows, width, "weight gradient, partial sums");
    weigh.backward.push_back({BackwardStep::kParameterGradient,
                              of_torch && weight_in_float32
                                  ? widened_parameter(norm.weight_index, width)
                                  : uncast_parameter(norm.weight_index, width),
                              -1});
  }
  graph.add(weigh);
  if (!round_trip) graph.hold(of_torch ? x32 : n32);
  if (weight_in_float32) y = cast(y, in, {owner, "output", "op.rms-norm.output"});
  return y;
}

// T5LayerNorm.forward: squares of an fp32 copy; the input in its own type times their fp32 reciprocal, cast to the type of the
// weight. (Apex's kernel, where it is installed, is not this.)
template <class N>
ValueId Composer<N>::rms_narrow(ValueId x, const Norm& norm, const N& rows, const N& width) {
  const char* owner = norm.name.c_str();
  const N elements = rows * width;
  const ElementType wide = ElementType::kFloat32;
  const ElementType of_weight = style.autocast ? wide : style.compute;
  const ValueId x32 = cast(x, wide, {owner, "fp32 copy of the input", "op.rms-norm.fp32-copy"});
  const ValueId squares = square(x32, {owner, "squares", "op.pow.output"});
  const ValueId mean =
      single("mean", squares, {owner, "mean of squares", "op.mean.output"}, rows, wide, {});
  const ValueId moved = scale(mean, {owner, "mean and epsilon", "op.mean.output"});
  const ValueId reciprocal =
      single("rsqrt", moved, {owner, "reciprocal root mean square", "op.rsqrt.saved-output"}, rows,
             wide, {false, true});
  const bool needs = graph.needs_gradient(x);
  const ValueId n32 =
      graph.tensor({owner, "normalised, fp32", "op.rms-norm.normalised"}, elements, wide, needs);
  Operator scale_rows;
  scale_rows.label = "multiply";
  scale_rows.inputs = {x, reciprocal};
  scale_rows.outputs = {n32};
  scale_rows.saved = {x, reciprocal};
  const SlotId product = graph.temporary(
      {owner, "gradient of the row scale, unreduced", "op.multiply.broadcast-backward"}, elements,
      wide);
  scale_rows.backward = {{BackwardStep::kTemporary, 0, product}};
  if (graph.type(x) != wide)
    scale_rows.backward.push_back(
        {BackwardStep::kTemporary, 0,
         graph.temporary({owner, "gradient of the input, fp32", "op.multiply.broadcast-backward"},
                         elements, wide)});
  scale_rows.backward.push_back(kGradient0);
  scale_rows.backward.push_back(kGradient1);
  graph.add(scale_rows);
  const ValueId n = cast(n32, of_weight, {owner, "normalised", "op.rms-norm.normalised"});
  const ValueId y = graph.tensor({owner, "output", "op.rms-norm.output"}, elements, of_weight,
                                 needs || has_gradient(norm.weight_index));
  Operator weigh;
  weigh.label = "multiply by weight";
  weigh.inputs = {n};
  weigh.outputs = {y};
  if (has_gradient(norm.weight_index)) {
    weigh.saved = {n};
    weigh.backward = {
        kGradient0,
        {BackwardStep::kTemporary, 0,
         graph.temporary({owner, "weight gradient, unreduced", "op.multiply.broadcast-backward"},
                         elements, of_weight)},
        {BackwardStep::kParameterGradient, uncast_parameter(norm.weight_index, width), -1}};
    sum_rows(weigh, owner, rows, width);
  } else {
    weigh.backward = {kGradient0};
  }
  graph.add(weigh);
  graph.hold(mean);  // `variance`, until the module returns
  return y;
}

template <class N>
ValueId Composer<N>::rms_fused(ValueId x, const Norm& norm, const N& rows, const N& width) {
  const char* owner = norm.name.c_str();
  const N elements = rows * width;
  const ValueId y = graph.tensor({owner, "output", "op.rms-norm.output"}, elements, graph.type(x),
                                 graph.needs_gradient(x));
  const ValueId reciprocal =
      graph.tensor({owner, "reciprocal root mean square", "op.fused-norm.saved-statistics"}, rows,
                   ElementType::kFloat32, false);
  Operator operation;
  operation.label = "rms norm";
  operation.inputs = {x};
  operation.outputs = {y, reciprocal};
  operation.saved = {x, reciprocal};
  if (!style.liger) operation.backward.push_back(kGradient0);
  if (has_gradient(norm.weight_index) && !style.local_layers) {
    // one partial sum for each multiprocessor; torch's kernel makes none (cuda/layer_norm_kernel.cu)
    const SlotId partial =
        graph.temporary({owner, "weight gradient, partial sums", "op.fused-norm.partial-sums"},
                        N(style.multiprocessors) * width, ElementType::kFloat32);
    operation.backward.push_back({BackwardStep::kTemporary, 0, partial});
  }
  // Liger's kernel writes the gradient of x over the one that arrives (ops/rms_norm.py, in_place).
  if (style.liger) operation.backward.push_back({BackwardStep::kAliasGradient, 0, -1});
  if (has_gradient(norm.weight_index))
    operation.backward.push_back(
        {BackwardStep::kParameterGradient, uncast_parameter(norm.weight_index, width), -1});
  graph.add(operation);
  return y;
}

template <class N>
ValueId Composer<N>::layer_norm(ValueId x, const Norm& norm, const N& rows, const N& width,
                                Apart apart) {
  const char* owner = norm.name.c_str();
  const N elements = rows * width;
  // Megatron's own kernels add the 1 while they run; nemotron's layers of transformers make a vector (modeling_nemotron.py).
  if (norm.kind == NormKind::kLayerNormUnitOffset &&
      style.implementation == Implementation::kTransformers)
    return offset_layer_norm(x, norm, rows, width);
  if (style.autocast)
    x = cast(x, ElementType::kFloat32, {owner, "input, fp32", "autocast.fp32-operator"});
  const ValueId y = graph.tensor({owner, "output", "op.layer-norm.output"}, elements, graph.type(x),
                                 graph.needs_gradient(x));
  const ValueId mean = graph.tensor({owner, "mean", "op.layer-norm.saved-statistics"}, rows,
                                    ElementType::kFloat32, false);
  const ValueId deviation =
      graph.tensor({owner, "reciprocal deviation", "op.layer-norm.saved-statistics"}, rows,
                   ElementType::kFloat32, false);
  Operator operation;
  operation.label = "layer norm";
  operation.inputs = {x};
  operation.outputs = {y, mean, deviation};
  operation.saved = {x, mean, deviation};
  if (style.residual_by_channel || apart.input) {
    const SlotId contiguous = graph.temporary(
        {owner, "input, contiguous", "op.layer-norm.contiguous"}, elements, graph.type(x));
    operation.passing = {contiguous};
    operation.backward.push_back({BackwardStep::kTemporary, 0, contiguous});
  }
  operation.backward.push_back(kGradient0);
  if (style.liger && has_gradient(norm.weight_index)) {
    // ops/layer_norm.py: partial sums of the weight's and the bias's gradient for each multiprocessor
    const SlotId partial =
        graph.temporary({owner, "weight gradient, partial sums", "op.fused-norm.partial-sums"},
                        N(2 * style.multiprocessors) * width, style.gradient);
    operation.backward.push_back({BackwardStep::kTemporary, 0, partial});
  }
  if (has_gradient(norm.weight_index))
    operation.backward.push_back(
        {BackwardStep::kParameterGradient, uncast_parameter(norm.weight_index, width), -1});
  if (has_gradient(norm.bias_index))
    operation.backward.push_back(
        {BackwardStep::kParameterGradient, uncast_parameter(norm.bias_index, width), -1});
  if (apart.gradient)
    operation.backward.push_back(
        {BackwardStep::kTemporary, 0,
         graph.temporary({owner, "gradient, contiguous", "op.layer-norm.contiguous"}, elements,
                         graph.type(y))});
  graph.add(operation);
  return y;
}

// NemotronLayerNorm1P: 1 + weight is a new vector in each forward. Under autocast all three arguments are cast to 16 bits
// before the kernel, which autocast then leaves alone.
template <class N>
ValueId Composer<N>::offset_layer_norm(ValueId x, const Norm& norm, const N& rows, const N& width) {
  const char* owner = norm.name.c_str();
  const auto vector = [&](const char* name, const char* rule, ElementType type) {
    const ValueId made = graph.tensor({owner, name, rule}, width, type, false);
    Operator make;
    make.label = "vector";
    make.outputs = {made};
    graph.add(make);
    return made;
  };
  ValueId weight = vector("1 + weight", "op.layer-norm.offset-weight",
                          style.autocast ? ElementType::kFloat32 : style.compute);
  ValueId bias = kNoValue;
  if (style.autocast) {
    x = cast(x, style.compute, {owner, "input, cast", "autocast.input-cast"});
    const ValueId wide = weight;
    weight = vector("1 + weight, cast", "op.layer-norm.offset-weight", style.compute);
    graph.hold(wide);
    bias = vector("bias, cast", "op.layer-norm.offset-weight", style.compute);
  }
  const ValueId y = graph.tensor({owner, "output", "op.layer-norm.output"}, rows * width,
                                 graph.type(x), graph.needs_gradient(x));
  const auto statistic = [&](const char* name) {
    return graph.tensor({owner, name, "op.layer-norm.saved-statistics"}, rows,
                        ElementType::kFloat32, false);
  };
  const ValueId mean = statistic("mean"), deviation = statistic("reciprocal deviation");
  Operator operation;
  operation.label = "layer norm";
  operation.inputs = {x, weight};
  operation.outputs = {y, mean, deviation};
  operation.saved = {x, mean, deviation, weight};
  if (bias != kNoValue) {
    operation.inputs.push_back(bias);
    operation.saved.push_back(bias);
  }
  operation.backward = {kGradient0,
                        {BackwardStep::kParameterGradient, parameter(norm.weight_index, width), -1},
                        {BackwardStep::kParameterGradient, parameter(norm.bias_index, width), -1}};
  graph.add(operation);
  return y;
}

template class Composer<Checked>;
template class Composer<Traced>;

}  // namespace steelyard
