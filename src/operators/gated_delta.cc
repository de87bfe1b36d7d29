// The gated delta rule of qwen3_next and qwen3_5: projections, a short convolution over the tokens, the rule in chunks of 64
// tokens, a norm that is gated.
//
//   x ── q, k, v ── convolution, padded ── silu ──┐
//     ── b ── sigmoid ── beta, kept ──────────────┤
//     ── a ── decay, fp32 ────────────────────────┴── rule ── norm ── times silu(z), fp32 ── output
//
// The rule keeps q and k of unit length, v, beta, the summed decay and 64 numbers for each token and head; states of all chunks
// are temporaries, made again in backward.
//
// Sources: transformers models/qwen3_5/modeling_qwen3_5.py, models/qwen3_next/modeling_qwen3_next.py (5.17), which takes the
// rule from flash-linear-attention where that is installed: fla/ops/gated_delta_rule/chunk.py, fla/ops/common (0.6).
#include "operators/composer.h"

namespace steelyard {

namespace {
constexpr const char* kOwner = "linear_attn";
constexpr const char* kRule = "op.gated-delta.rule";
constexpr std::int64_t kChunk = 64;
}  // namespace

template <class N>
class GatedDeltaWriter {
 public:
  GatedDeltaWriter(Composer<N>& composer, const GatedDelta& delta)
      : c_(composer),
        graph_(composer.graph),
        delta_(delta),
        tokens_(composer.sizes.tokens),
        heads_(Book::symbol("nv", delta.heads)),
        key_heads_(Book::symbol("nk", delta.key_heads)),
        key_head_(Book::symbol("dk", delta.key_width)),
        value_head_(Book::symbol("dv", delta.value_width)),
        keys_(key_heads_ * key_head_),
        values_(heads_ * value_head_) {}

  ValueId write(ValueId x) {
    project(x);
    ValueId mixed = convolved(mixed_);
    mixed = c_.pointwise("silu", mixed, {kOwner, "silu(convolution)", "op.silu.saved-input"},
                         {.input = true});
    const std::vector<ValueId> parts =
        c_.split(mixed, {tokens_ * keys_, tokens_ * keys_, tokens_ * values_}, kOwner);
    const ValueId beta = c_.pointwise(
        "sigmoid", write_, {kOwner, "beta", "op.sigmoid.saved-output"}, {.output = true});
    const ValueId decay = log_decay();
    const bool repeats = delta_.heads > delta_.key_heads;
    const ValueId q = repeats ? repeated(parts[0], "q, for every head") : parts[0];
    const ValueId k = repeats ? repeated(parts[1], "k, for every head") : parts[1];
    const ValueId attended = ruled(q, k, parts[2], beta, decay, !repeats);
    const ValueId y = gated_norm(attended);
    for (const ValueId local : {mixed_, gate_, write_, decay_, mixed, beta, decay, q, k, y})
      c_.hold_until_return(local);
    return c_.linear(y, delta_.output, tokens_, values_, c_.sizes.hidden);
  }

 private:
  using Book = Workbook<N>;

  void project(ValueId x) {
    const N& hidden = c_.sizes.hidden;
    const N channels = N(2) * keys_ + values_;
    if (delta_.gate) {
      mixed_ = c_.linear(x, delta_.packed, tokens_, hidden, channels);
      gate_ = c_.linear(x, *delta_.gate, tokens_, hidden, values_);
      write_ = c_.linear(x, delta_.write, tokens_, hidden, heads_);
      decay_ = c_.linear(x, *delta_.decay, tokens_, hidden, heads_);
      return;
    }
    // qwen3_next: the parts stand beside one another for each head of keys, and are copied apart.
    const ValueId all = c_.linear(x, delta_.packed, tokens_, hidden, channels + values_);
    const ValueId numbers = c_.linear(x, delta_.write, tokens_, hidden, N(2) * heads_);
    const auto parts = c_.split(
        all, {tokens_ * keys_, tokens_ * keys_, tokens_ * values_, tokens_ * values_}, kOwner);
    const auto of_heads = c_.split(numbers, {tokens_ * heads_, tokens_ * heads_}, kOwner);
    const auto apart = [&](ValueId part, const char* name) {
      return c_.copy(part, {kOwner, name, "op.gated-delta.parted"});
    };
    const ValueId v = apart(parts[2], "v, contiguous");
    gate_ = apart(parts[3], "z, contiguous");
    write_ = apart(of_heads[0], "b, contiguous");
    decay_ = apart(of_heads[1], "a, contiguous");
    const ValueId q = apart(parts[0], "q, contiguous"), k = apart(parts[1], "k, contiguous");
    mixed_ =
        c_.joined({q, k, v}, {kOwner, "q, k and v", "op.gated-delta.parted"}, tokens_ * channels);
    for (const ValueId local : {all, numbers, q, k, v}) c_.hold_until_return(local);
  }

  // Each channel by itself over `kernel` tokens, with a margin before the first and behind the last that is cut off again.
  ValueId convolved(ValueId x) {
    const N channels = N(2) * keys_ + values_;
    const N margin = Book::symbol("w", delta_.kernel) - N(1);
    const N padded = c_.sizes.batch * (c_.sizes.sequence + margin) * channels;
    const N weight = channels * Book::symbol("w", delta_.kernel);
    const char* rule = "op.gated-delta.convolution";
    const ElementType type = graph_.type(x);
    const bool wide_weight = c_.style.autocast && bits_of(c_.style.residual) > bits_of(type);
    ValueId narrow = kNoValue;
    if (wide_weight) {
      // Asked for in the weight's type, and multiplied in 16 bits again.
      x = c_.cast(x, c_.style.residual, {kOwner, "q, k and v, fp32", rule});
      x = c_.cast(x, type, {kOwner, "q, k and v, cast back", rule});
      narrow = c_.made("cast weight", {}, {kOwner, "weight, cast", rule}, weight, type);
    }
    const ValueId y = graph_.tensor({kOwner, "convolution", rule}, padded, graph_.type(x), true);
    Operator operation;
    operation.label = "convolution";
    operation.inputs = {x};
    operation.outputs = {y};
    operation.saved = {x};
    if (narrow != kNoValue) {
      operation.inputs.push_back(narrow);
      operation.saved.push_back(narrow);
    }
    const SlotId contiguous =
        graph_.temporary({kOwner, "input, by channel", rule}, tokens_ * channels, graph_.type(x));
    operation.passing = {contiguous};
    operation.backward = {{BackwardStep::kTemporary, 0, contiguous}, kGradient0};
    if (c_.has_gradient(delta_.convolution_index))
      operation.backward.push_back(
          {BackwardStep::kParameterGradient, c_.parameter(delta_.convolution_index, weight), -1});
    graph_.add(operation);
    return c_.viewed("slice", y, tokens_ * channels);
  }

  // -exp(A_log) softplus(a + dt_bias), in fp32
  ValueId log_decay() {
    const char* rule = "op.gated-delta.decay";
    const N rows = tokens_ * heads_;
    const bool learns = c_.has_gradient(delta_.decay_index);
    const ValueId rate =
        graph_.tensor({kOwner, "exp(A_log)", rule}, heads_, ElementType::kFloat32, learns);
    Operator grow;
    grow.label = "exp";
    grow.outputs = {rate};
    if (learns) {
      grow.saved = {rate};
      grow.backward = {
          {BackwardStep::kParameterGradient, c_.uncast_parameter(delta_.decay_index, heads_), -1}};
    }
    graph_.add(grow);
    const ValueId negative = c_.scale(rate, {kOwner, "-exp(A_log)", rule});
    const ValueId a = c_.cast(decay_, ElementType::kFloat32, {kOwner, "a, fp32", rule});
    const ValueId sum =
        graph_.tensor({kOwner, "a + dt_bias", rule}, rows, ElementType::kFloat32, true);
    Operator shift;
    shift.label = "add";
    shift.inputs = {a};
    shift.outputs = {sum};
    shift.backward = {kAlias0};
    if (c_.has_gradient(delta_.time_bias_index))
      shift.backward.push_back({BackwardStep::kParameterGradient,
                                c_.uncast_parameter(delta_.time_bias_index, heads_), -1});
    graph_.add(shift);
    const ValueId soft = c_.pointwise("softplus", sum, {kOwner, "softplus", rule}, {.input = true});
    const ValueId y =
        graph_.tensor({kOwner, "logarithm of the decay", rule}, rows, ElementType::kFloat32, true);
    Operator multiply;
    multiply.label = "multiply";
    multiply.inputs = {negative, soft};
    multiply.outputs = {y};
    multiply.saved = {negative};
    if (learns) {
      multiply.saved.push_back(soft);
      multiply.backward = {{BackwardStep::kTemporary, 0,
                            graph_.temporary({kOwner, "gradient of the rate, unreduced", rule},
                                             rows, ElementType::kFloat32)},
                           kGradient0};
    }
    multiply.backward.push_back(kGradient1);
    graph_.add(multiply);
    return y;
  }

  ValueId repeated(ValueId x, const char* name) {
    return c_.single("repeat", x, {kOwner, name, "op.gated-delta.repeated"},
                     tokens_ * heads_ * key_head_, graph_.type(x), {});
  }

  // `copies`: q and k are parts of one tensor still, as v is, and the function takes copies that lie in one piece.
  ValueId ruled(ValueId q, ValueId k, ValueId v, ValueId beta, ValueId decay, bool copies) {
    const ElementType type = graph_.type(v);
    const N of_keys = tokens_ * heads_ * key_head_, of_values = tokens_ * values_;
    const N rows = tokens_ * heads_;
    const N states = c_.sizes.batch *
                     ceil_divide(c_.sizes.sequence, Book::symbol("chunk", kChunk)) * heads_ *
                     key_head_ * value_head_;
    const auto tensor = [&](const char* name, const N& elements, ElementType of) {
      return graph_.tensor({kOwner, name, kRule}, elements, of, false);
    };
    const auto temporary = [&](const char* name, const N& elements) {
      return graph_.temporary({kOwner, name, kRule}, elements, type);
    };
    const ValueId unit_q = tensor("q of unit length", of_keys, type),
                  unit_k = tensor("k of unit length", of_keys, type),
                  length_q = tensor("reciprocal lengths of q", rows, ElementType::kFloat32),
                  length_k = tensor("reciprocal lengths of k", rows, ElementType::kFloat32),
                  whole_v = tensor("v, contiguous", of_values, type),
                  sums = tensor("decay, summed in chunks", rows, ElementType::kFloat32),
                  inverse =
                      tensor("inverse of each chunk", rows * Book::symbol("chunk", kChunk), type);
    const ValueId y = graph_.tensor({kOwner, "output", kRule}, of_values, type, true);
    Operator rule;
    rule.label = "gated delta rule";
    rule.inputs = {q, k, v, beta, decay};
    rule.outputs = {unit_q, length_q, unit_k, length_k, whole_v, sums, inverse, y};
    rule.saved = {unit_q, length_q, unit_k, length_k, whole_v, sums, beta, inverse};
    if (copies)
      rule.passing = {temporary("q, contiguous", of_keys), temporary("k, contiguous", of_keys)};
    const SlotId w = temporary("w", of_keys), u = temporary("u", of_values),
                 state = temporary("states of all chunks", states),
                 corrected = temporary("v, corrected", of_values);
    for (const SlotId slot : {w, u, state, corrected}) rule.passing.push_back(slot);
    const auto step = [](SlotId slot) { return BackwardStep{BackwardStep::kTemporary, 0, slot}; };
    rule.backward = {step(temporary("w and u", of_keys + of_values)),
                     step(state),
                     step(corrected),
                     step(temporary("gradients of the states", states)),
                     step(temporary("gradient of u", of_values)),
                     step(temporary("gradients of q and k, of unit length", N(2) * of_keys)),
                     step(temporary("gradients of w and of k beside it", N(2) * of_keys)),
                     kGradient2,
                     {BackwardStep::kInputGradient, 3, -1},
                     {BackwardStep::kFreeTemporaries, 0, -1},
                     {BackwardStep::kInputGradient, 4, -1},
                     kGradient0,
                     kGradient1};
    // Within a chunk every token meets every other, and the state once: products of all heads.
    rule.arithmetic = {Arithmetic::kProduct, plain(tokens_), delta_.key_width,
                       2 * delta_.value_width + 4 * kChunk, delta_.heads};
    graph_.add(rule);
    return y;
  }

  ValueId gated_norm(ValueId x) {
    const N rows = tokens_ * heads_;
    const ElementType type = graph_.type(x);
    ValueId n = c_.normalise(x, delta_.norm, rows, value_head_);
    // The product with an fp32 weight is of 32 bits.
    if (c_.style.autocast && bits_of(c_.style.residual) > bits_of(type))
      n = c_.cast(n, c_.style.residual, {kOwner, "norm, fp32", "op.gated-delta.gate"});
    const ValueId gate =
        c_.cast(gate_, ElementType::kFloat32, {kOwner, "z, fp32", "op.gated-delta.gate"});
    const ValueId open =
        c_.pointwise("silu", gate, {kOwner, "silu(z)", "op.silu.saved-input"}, {.input = true});
    const ValueId product = c_.multiply(n, open, {kOwner, "gated, fp32", "op.gated-delta.gate"});
    return c_.cast(product, type, {kOwner, "gated output", "op.gated-delta.gate"});
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const GatedDelta& delta_;
  N tokens_, heads_, key_heads_, key_head_, value_head_, keys_, values_;
  ValueId mixed_ = kNoValue, gate_ = kNoValue, write_ = kNoValue, decay_ = kNoValue;
};

template <class N>
ValueId Composer<N>::attention(ValueId x, const GatedDelta& delta) {
  const ValueId y = GatedDeltaWriter<N>(*this, delta).write(x);
  return_locals();
  return y;
}

template ValueId Composer<Checked>::attention(ValueId, const GatedDelta&);
template ValueId Composer<Traced>::attention(ValueId, const GatedDelta&);

}  // namespace steelyard
