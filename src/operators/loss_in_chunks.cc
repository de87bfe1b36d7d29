// Head and cross entropy together, in chunks of tokens: the logits are never whole. Gradients are made in forward.
#include <algorithm>
#include <array>
#include <vector>

#include "operators/loss_writer.h"

namespace steelyard {

namespace {

// Rows of one chunk of Liger's fused linear cross entropy: the next power of two of tokens / ceil(V / h).
std::int64_t liger_chunk(std::int64_t tokens, std::int64_t vocabulary, std::int64_t hidden) {
  const std::int64_t parts = (vocabulary + hidden - 1) / hidden;
  const std::int64_t wanted = (tokens + parts - 1) / parts;
  std::int64_t chunk = 1;
  while (chunk < wanted) chunk *= 2;
  return chunk < tokens ? chunk : tokens;
}

template <class N>
double elements_of(const N& rows, const N& columns) {
  return static_cast<double>(plain(rows)) * static_cast<double>(plain(columns));
}

}  // namespace

template <class N>
Arithmetic LossWriter<N>::in_pieces(std::int64_t rows, std::int64_t width) const {
  const std::int64_t tokens = plain(c_.sizes.tokens);
  Arithmetic loss{Arithmetic::kProduct, tokens, width, plain(c_.sizes.vocabulary)};
  loss.pieces = (tokens + rows - 1) / rows;
  loss.piece_type = loss.piece_weight_type = c_.style.compute;
  return loss;
}

// Liger: chunks of logits; the gradients of input and weight are made in forward, in the types that these have, and go out as
// they are (ops/fused_linear_cross_entropy.py, transformers/model/loss_utils.py; 0.8.5). Before the first chunk the sums of
// both are there. Of a chunk:
//
//   logits                   its product; autocast casts input and weight for it, the weight as a view: it is not cached
//   gradient of the input    a product with the weight, whose cast autocast does cache; into its rows, unless it is cast
//   gradient of the weight   added by the product itself; where the version or the device cannot, a product, widened (0.6.2 to
//                            0.8.2 in 16 bits, 0.6.2 to 0.8.0 in fp32; before Ampere), and in fp32 always
template <class N>
ValueId LossWriter<N>::fused_linear(ValueId x, ValueId labels, const N& width) {
  const Sizes<N>& sizes = c_.sizes;
  const N weight = sizes.vocabulary * width;
  const ElementType narrow = c_.style.compute;
  const ParameterTensor& head =
      model_.head.weight_index < 0
          ? model_.embedding_parameters.front()
          : model_.head_parameters[static_cast<std::size_t>(model_.head.weight_index)];
  const ElementType of_weight =
      head.stored.value_or(c_.style.autocast ? ElementType::kFloat32 : narrow);
  const char* kGradients = "op.fused-linear-loss.saved-gradients";
  const bool outside = c_.style.schedule_asks_for_loss;
  const ValueId target = c_.style.labels_come_shifted ? labels : shifted(labels);
  const int gradient = weight_gradient(width, true);
  Operator operation;
  operation.label = "fused linear cross entropy";
  if (of_weight != narrow && gradient >= 0) {
    const ValueId cached =
        c_.made("cast", {}, {"loss", "weight, cast", "autocast.weight-cast"}, weight, narrow);
    graph_.linger(cached);
  }
  operation.inputs = {x, target};
  compare_with_one(operation.backward);
  const auto made = [&](const char* name, const N& elements, ElementType type) {
    const ValueId value = graph_.tensor({"loss", name, kGradients}, elements, type, false);
    operation.outputs.push_back(value);
    operation.saved.push_back(value);
    operation.backward.push_back(
        {BackwardStep::kHandedOn, static_cast<int>(operation.saved.size()) - 1, -1});
  };
  if (graph_.needs_gradient(x)) {
    made("input gradient, made in forward", sizes.tokens * width, graph_.type(x));
    operation.backward.push_back(kGradient0);
  }
  if (gradient >= 0) {
    made("weight gradient, made in forward", weight, of_weight);
    operation.backward.push_back({BackwardStep::kParameterGradient, gradient, -1});
  }
  const ValueId by_token = loss_by_token();
  operation.outputs.push_back(by_token);
  operation.passing = {graph_.temporary({"loss", "tokens that count", "op.fused-linear-loss.chunk"},
                                        sizes.tokens, ElementType::kBool)};
  chunk_by_chunk(operation, width, {graph_.type(x), of_weight}, gradient >= 0);
  graph_.add(operation);
  const ValueId loss = sum_of_tokens(by_token);
  if (!outside) graph_.hold(x);
  if (padded_ != kNoValue) graph_.hold(padded_);
  return loss;
}

// What is there of a chunk at the moment when that is most, and what its kernels beside the products move.
template <class N>
void LossWriter<N>::chunk_by_chunk(Operator& operation, const N& width, const ChunkTypes& types,
                                   bool trains) {
  struct Piece {
    const char* name;
    const char* rule;
    N elements;
    ElementType type;
  };
  const Sizes<N>& sizes = c_.sizes;
  const LigerChunks& how = c_.style.liger_chunks;
  const N chunk(liger_chunk(plain(sizes.tokens), plain(sizes.vocabulary), plain(width)));
  const N weight = sizes.vocabulary * width, logits = chunk * sizes.vocabulary;
  const ElementType narrow = c_.style.compute, wide = ElementType::kFloat32;
  const bool casts_weight = types.weight != narrow, casts_input = types.input != narrow;
  const bool is_narrow = bits_of(narrow) < 32;
  const bool apart = trains && (casts_weight ? how.apart_cast
                                : is_narrow  ? how.apart_narrow
                                             : how.apart_wide);
  const bool widens_logits = trains && how.widens_logits && casts_input;
  const bool copies_input = casts_weight || casts_input || how.keeps_logits;
  Arithmetic& loss = operation.arithmetic = in_pieces(plain(chunk), plain(width));
  if (widens_logits) loss.piece_weight_type = wide;
  const bool again = loss.pieces > 1;
  const bool casts_each = casts_weight && (again || !trains);

  const char* kChunk = "op.fused-linear-loss.chunk";
  const char* kCast = "autocast.input-cast";
  const char* kOfWeight = "op.fused-linear-loss.weight-gradient";
  const Piece of_logits{"logits of one chunk", kChunk, logits, narrow};
  const Piece input{"input of one chunk, cast", kCast, chunk * width, narrow};
  std::array<std::vector<Piece>, 3> moments;  // its products, in their order
  moments.fill({of_logits});
  auto& [first, second, third] = moments;
  if (again && how.keeps_logits)
    first.push_back({"logits of the chunk before", kChunk, logits, narrow});
  if (casts_each)
    first.push_back({"weight, cast for one chunk", "autocast.weight-cast", weight, narrow});
  if (casts_input) first.push_back(input);
  if (casts_input && again && trains && !apart && how.keeps_input)
    first.push_back({"input of the chunk before, cast", kCast, chunk * width, narrow});
  if (copies_input)
    second.push_back({"input gradient of one chunk", kChunk, chunk * width, narrow});
  if (apart) {
    third.push_back({"weight gradient of one chunk", kOfWeight, weight, narrow});
    if (is_narrow) third.push_back({"weight gradient of one chunk, fp32", kOfWeight, weight, wide});
  } else if (widens_logits) {
    third.push_back({"gradient of the logits, fp32", kChunk, logits, wide});
  } else if (casts_input && trains) {
    third.push_back(input);
  }
  const auto height = [](const std::vector<Piece>& pieces) {
    Bytes sum;
    for (const Piece& piece : pieces)
      sum += bytes_of(Elements(Checked(plain(piece.elements))), piece.type);
    return sum;
  };
  const auto& most = *std::max_element(
      moments.begin(), moments.end(),
      [&](const auto& one, const auto& other) { return height(one) < height(other); });
  for (const Piece& piece : most)
    operation.passing.push_back(
        graph_.temporary({"loss", piece.name, piece.rule}, piece.elements, piece.type));

  // Over the logits twice for their sum and their gradient, which takes their place.
  const double each = bytes_each(narrow), kept = bytes_each(types.weight), fp32 = bytes_each(wide);
  const double of_all = elements_of(sizes.vocabulary, width),
               rows = elements_of(chunk, sizes.vocabulary);
  loss.piece_bytes = 3 * each * rows;
  loss.piece_launches = 2;
  const auto runs = [&](bool yes, double bytes) {
    if (!yes) return;
    loss.piece_bytes += bytes;
    ++loss.piece_launches;
  };
  runs(copies_input, (each + bytes_each(types.input)) * elements_of(chunk, width));
  runs(casts_each, (kept + each) * of_all);
  runs(widens_logits, (each + fp32) * rows);
  runs(apart && is_narrow, (each + fp32) * of_all);
  runs(apart, (fp32 + 2 * kept) * of_all);
  if (trains && !apart) loss.piece_bytes += kept * of_all;  // read, to be added to
}

// Cross entropy in eight pieces along the tokens, each with its own backward (torchtitan components/loss.py).
template <class N>
void LossWriter<N>::chunked(ValueId x, const N& width) {
  const Sizes<N>& sizes = c_.sizes;
  const N chunk = ceil_divide(sizes.tokens, N(c_.style.loss_chunks));
  const N piece = chunk * sizes.vocabulary;
  const ValueId gradient = graph_.tensor(
      {"loss", "gradient of the hidden states, fp32", "op.chunked-loss.gradient-buffer"},
      sizes.tokens * width, ElementType::kFloat32, false);
  const ValueId loss =
      graph_.tensor({"loss", "loss", "op.cross-entropy.loss"}, N(1), ElementType::kFloat32, true);
  Operator operation;
  operation.label = "chunked cross entropy";
  operation.arithmetic = in_pieces(plain(chunk), plain(width));
  const double each = bytes_each(c_.style.compute);
  // Eager, a logit is widened (2 + 4), its softmax made (4 + 4), and of its gradients two in fp32 (4, 4 + 4 + 4) and one cast
  // (4 + 2); compiled, it is read for the sum, and for the gradient, which is written. Then the hidden states' in fp32, and
  // the weight's gradient, which autograd adds to that of the pieces before.
  operation.arithmetic.piece_bytes =
      (c_.style.compiles_loss ? 3 * each : 28 + 4 * each) * elements_of(chunk, sizes.vocabulary) +
      (each + 4) * elements_of(chunk, width) + 3 * each * elements_of(sizes.vocabulary, width);
  operation.arithmetic.piece_launches = c_.style.compiles_loss ? 4 : 9;
  operation.inputs = {x};
  operation.outputs = {loss, gradient};
  operation.saved = {gradient};
  const char* rule = "op.chunked-loss.chunk";
  operation.passing = {
      graph_.temporary({"loss", "logits of one chunk", rule}, piece, c_.style.compute),
      graph_.temporary({"loss", "fp32 logits of one chunk", rule}, piece, ElementType::kFloat32),
      graph_.temporary({"loss", "log-softmax of one chunk", rule}, piece, ElementType::kFloat32),
      graph_.temporary({"loss", "fp32 gradient of one chunk", rule}, piece, ElementType::kFloat32)};
  operation.backward = {kGradient0, {BackwardStep::kParameterGradient, weight_gradient(width), -1}};
  graph_.add(operation);
}

template class LossWriter<Checked>;
template class LossWriter<Traced>;

}  // namespace steelyard
