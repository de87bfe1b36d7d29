// Two towers that meet in a loss: what is made of each image and each text, and the comparison of all with all.
//
//   images ── norm ── projection, or pooling head ── row ──┐ divided by its length, kept ──┐
//   texts  ── norm ── one token of each ── projection ── row ── divided by its length, kept ─┴─ b x b products ── x e^scale ── loss
//
// Sources: transformers models/clip/modeling_clip.py, CLIPModel; models/siglip/modeling_siglip.py, SiglipModel (5.17).
#include "operators/ends.h"

namespace steelyard {

namespace {

template <class N>
class ContrastWriter {
 public:
  ContrastWriter(Composer<N>& composer, const Contrast& contrast)
      : c_(composer),
        graph_(composer.graph),
        how_(contrast),
        batch_(composer.sizes.batch),
        row_(batch_ * Workbook<N>::symbol("j", contrast.width)),
        pairs_(batch_ * batch_) {}

  ValueId write(ValueId texts, ValueId ids, ValueId image) {
    const ValueId text = text_row(texts, ids);
    image = divided_by_length(image, "image");
    const ValueId divided_text = divided_by_length(text, "text");
    ValueId logits = products(divided_text, image);
    logits = scaled(logits);
    const ValueId loss = how_.sigmoid ? of_each_pair(logits) : both_ways(logits);
    // Until the output of the model is gone.
    for (const ValueId held : {logits, image, divided_text, texts}) graph_.hold(held);
    return loss;
  }

 private:
  ValueId tensor(const char* owner, const char* name, const char* rule, const N& elements,
                 ElementType type, bool asks = true) {
    return graph_.tensor({owner, name, rule}, elements, type, asks);
  }
  BackwardStep temporary(const char* owner, const char* name, const char* rule, const N& elements,
                         ElementType type) {
    return {BackwardStep::kTemporary, 0, graph_.temporary({owner, name, rule}, elements, type)};
  }
  static constexpr BackwardStep kFreed{BackwardStep::kFreeTemporaries, 0, -1};

  ValueId text_row(ValueId texts, ValueId ids) {
    const N& hidden = c_.sizes.hidden;
    const ValueId pooled =
        how_.pools_last ? c_.viewed("select", texts, batch_ * hidden) : token_that_ends(texts, ids);
    const ValueId row = c_.linear(pooled, how_.text_projection, batch_, hidden,
                                  Workbook<N>::symbol("j", how_.width));
    graph_.hold(pooled);
    if (how_.pools_last) c_.head_operators_of_model = c_.position();
    return row;
  }

  // last_hidden_state[arange, argmax of the ids]
  ValueId token_that_ends(ValueId texts, ValueId ids) {
    constexpr const char* kRule = "op.contrast.ending-token";
    const auto made = [&](const char* name, const Few<ValueId, 6>& of, const N& elements,
                          ElementType type) {
      return c_.made("index", of, {"text", name, kRule}, elements, type);
    };
    const ValueId rows = made("places of texts", {}, batch_, ElementType::kInt64);
    ValueId places = made("ids, narrow", {ids}, c_.sizes.tokens, ElementType::kInt32);
    if (!how_.highest_ends) {
      places = made("ends", {places}, c_.sizes.tokens, ElementType::kBool);
      places = made("ends, as numbers", {places}, c_.sizes.tokens, ElementType::kInt32);
    }
    const ValueId ends = made("places of ends", {places}, batch_, ElementType::kInt64);
    const ValueId pooled =
        tensor("text", "tokens that end", kRule, batch_ * c_.sizes.hidden, graph_.type(texts));
    Operator index;
    index.label = "index";
    index.inputs = {texts, rows, ends};
    index.outputs = {pooled};
    index.saved = {rows, ends};
    // index_put_ with accumulation sorts its places.
    index.backward = {kGradient0};
    for (int copy = 0; copy < 4; ++copy)
      index.backward.push_back(
          temporary("text", "places, sorted", kRule, batch_, ElementType::kInt64));
    index.backward.push_back(temporary("text", "sort", kRule, N(1), ElementType::kBool));
    graph_.add(index);
    c_.head_operators_of_model = c_.position();
    return pooled;
  }

  // One number of each row, whose gradient is spread over it and not copied.
  ValueId summed(ValueId x, const SlotName& name) {
    const ValueId sum = graph_.tensor(name, batch_, graph_.type(x), true);
    Operator add_up;
    add_up.label = "sum";
    add_up.inputs = {x};
    add_up.outputs = {sum};
    add_up.backward = {kAlias0};
    graph_.add(add_up);
    return sum;
  }

  // x / |x|; clip's length is written out, siglip's is one operator.
  ValueId divided_by_length(ValueId x, const char* owner) {
    const bool autocast = c_.style.autocast;
    const ElementType wide = autocast ? ElementType::kFloat32 : graph_.type(x);
    ValueId length = kNoValue;
    constexpr const char* kRule = "op.contrast.length";
    if (how_.sigmoid) {
      length = tensor(owner, "length", kRule, batch_, wide);
      Operator norm;
      norm.label = "norm";
      norm.inputs = {x};
      norm.outputs = {length};
      norm.saved = {x, length};
      norm.backward = {
          temporary(owner, "gradient of the length, spread", kRule, row_, wide),
          temporary(owner, "lengths that are zero", kRule, batch_, ElementType::kBool)};
      if (graph_.type(x) == wide) {
        norm.backward.push_back(kGradient0);
      } else {
        norm.backward.push_back(temporary(owner, "gradient, fp32", kRule, row_, wide));
        norm.backward.push_back(kGradient0);
      }
      graph_.add(norm);
    } else {
      const ValueId given =
          autocast ? c_.cast(x, wide, {owner, "row, fp32", "autocast.fp32-operator"}) : x;
      const ValueId squares = c_.square(given, {owner, "squares", "op.pow.output"});
      const ValueId sum = summed(squares, {owner, "sum of squares", kRule});
      const BackwardStep power =
          temporary(owner, "power of the sum", "op.pow.backward", batch_, wide);
      length = c_.single("pow", sum, {owner, "length", kRule}, batch_, wide, {.input = true},
                         {power, power});
      graph_.hold(squares);  // locals of the function that gives the length
    }
    const ValueId y = tensor(owner, "row of length 1", "op.contrast.divided", row_, wide);
    const auto part = [&](const char* name) {
      return temporary(owner, name, "op.contrast.divided", row_, wide);
    };
    Operator divide;
    divide.label = "divide";
    divide.inputs = {x, length};
    divide.outputs = {y};
    divide.saved = {x, length};
    const BackwardStep unreduced = part("gradient of the length, unreduced");
    divide.backward = {
        part("quotient"), part("quotient, divided"), part("gradient, negative"), unreduced, kFreed,
        unreduced};
    if (graph_.type(x) != wide) divide.backward.push_back(part("gradient, fp32"));
    divide.backward.push_back(kGradient0);
    divide.backward.push_back(kGradient1);
    graph_.add(divide);
    return y;
  }

  // Each text with each image.
  ValueId products(ValueId text, ValueId image) {
    const auto narrow = [&](ValueId x, const char* owner) {
      return c_.style.autocast
                 ? c_.cast(x, c_.style.compute, {owner, "row, cast", "autocast.input-cast"})
                 : x;
    };
    text = narrow(text, "text");
    image = narrow(image, "image");
    const ValueId y =
        tensor("loss", "products of all pairs", "op.contrast.products", pairs_, c_.style.compute);
    Operator product;
    product.label = "all pairs";
    product.inputs = {text, image};
    product.outputs = {y};
    product.saved = {text, image};
    product.backward = {kGradient1, kGradient0};
    product.arithmetic = {Arithmetic::kProduct, plain(batch_), how_.width, plain(batch_)};
    graph_.add(product);
    return y;
  }

  // logits * scale.exp() (+ bias)
  ValueId scaled(ValueId logits) {
    constexpr const char* kRule = "op.contrast.products";
    const ElementType single = c_.style.residual;
    const ValueId factor = tensor("loss", "e^scale", "op.contrast.scale", N(1), single);
    Operator exponent;
    exponent.label = "exp";
    exponent.outputs = {factor};
    exponent.saved = {factor};
    exponent.backward = {
        {BackwardStep::kParameterGradient, c_.uncast_parameter(how_.scale_index, N(1)), -1}};
    graph_.add(exponent);
    // A number without dimensions widens nothing, a vector of one element does.
    const ElementType type = how_.sigmoid ? single : graph_.type(logits);
    const ValueId product = tensor("loss", "products, scaled", kRule, pairs_, type);
    Operator multiply;
    multiply.label = "multiply";
    multiply.inputs = {logits, factor};
    multiply.outputs = {product};
    multiply.saved = {logits, factor};
    const auto whole = [&](const char* name) {
      return temporary("loss", name, kRule, pairs_, type);
    };
    multiply.backward = {whole("gradient of the scale, unreduced")};
    if (type != graph_.type(logits)) multiply.backward.push_back(whole("gradient, wide"));
    multiply.backward.push_back(kGradient0);
    multiply.backward.push_back(kGradient1);
    graph_.add(multiply);
    if (how_.bias_index < 0) return product;
    const ValueId sum = tensor("loss", "products, scaled and moved", kRule, pairs_, type);
    Operator add;
    add.label = "add";
    add.inputs = {product};
    add.outputs = {sum};
    add.backward = {
        {BackwardStep::kParameterGradient, c_.uncast_parameter(how_.bias_index, N(1)), -1},
        kAlias0};
    graph_.add(add);
    return sum;
  }

  // Cross entropy of each text over the images, and of each image over the texts.
  ValueId both_ways(ValueId logits) {
    const ValueId of_texts = cross_entropy(logits, false);
    const ValueId of_images = cross_entropy(c_.viewed("transpose", logits, pairs_, kAlias0), true);
    const ValueId sum =
        tensor("loss", "sum of both", "op.cross-entropy.loss", N(1), graph_.type(of_texts));
    Operator add;
    add.label = "add";
    add.inputs = {of_texts, of_images};
    add.outputs = {sum};
    add.backward = {kAlias0, kAlias1};
    graph_.add(add);
    const ValueId loss = c_.pointwise("divide", sum, {"loss", "loss", "op.cross-entropy.loss"});
    for (const ValueId local : {of_texts, of_images}) graph_.hold(local);
    return loss;
  }

  ValueId cross_entropy(ValueId logits, bool transposed) {
    const ValueId target =
        c_.made("arange", {}, {"loss", "pairs that belong together", "op.contrast.targets"}, batch_,
                ElementType::kInt64);
    const ValueId log_softmax = tensor("loss", "log-softmax", "op.cross-entropy.saved-log-softmax",
                                       pairs_, graph_.type(logits));
    Operator softmax;
    softmax.label = "log softmax";
    softmax.inputs = {logits};
    softmax.outputs = {log_softmax};
    softmax.saved = {log_softmax};
    softmax.backward = {kGradient0};
    if (transposed) {
      softmax.passing = {graph_.temporary({"loss", "products, transposed", "op.contrast.products"},
                                          pairs_, graph_.type(logits))};
    } else {
      // The other gradient is a transposed view: their sum is a new tensor.
      softmax.backward.push_back({BackwardStep::kFreeOutputGradient, 0, -1});
      softmax.backward.push_back(
          {BackwardStep::kPassing, 0,
           graph_.temporary({"loss", "gradient of both ways", "op.contrast.products"}, pairs_,
                            graph_.type(logits))});
    }
    graph_.add(softmax);
    return c_.negative_log_likelihood(
        log_softmax, target, "loss of one way",
        c_.style.autocast ? ElementType::kFloat32 : graph_.type(logits));
  }

  // -log sigmoid(±logits), summed over the images and averaged over the texts: plus where they belong together.
  ValueId of_each_pair(ValueId logits) {
    constexpr const char* kRule = "op.contrast.sigmoid";
    constexpr ElementType kWide = ElementType::kFloat32;
    const auto of_pairs = [&](const char* name, const Few<ValueId, 6>& of, ElementType type) {
      return c_.made(name, of, {"loss", name, kRule}, pairs_, type);
    };
    const ValueId eye = of_pairs("identity", {}, kWide);
    const ValueId ones = of_pairs("ones", {}, graph_.type(logits));
    const ValueId minus = of_pairs("minus ones", {ones}, graph_.type(logits));
    const ValueId twice = of_pairs("identity, twice", {eye}, kWide);
    const ValueId signs = of_pairs("signs", {minus, twice}, kWide);
    const ValueId signed_logits = tensor("loss", "products with signs", kRule, pairs_, kWide);
    Operator multiply;
    multiply.label = "multiply";
    multiply.inputs = {logits, signs};
    multiply.outputs = {signed_logits};
    multiply.saved = {signs};
    if (graph_.type(logits) != kWide)
      multiply.backward = {temporary("loss", "gradient, fp32", kRule, pairs_, kWide)};
    multiply.backward.push_back(kGradient0);
    graph_.add(multiply);
    const ValueId likelihood = c_.pointwise("log sigmoid", signed_logits,
                                            {"loss", "log-likelihood", kRule}, {.input = true});
    const ValueId sum = summed(likelihood, {"loss", "likelihood of each text", kRule});
    const ValueId negative = c_.pointwise("negate", sum, {"loss", "loss of each text", kRule});
    const ValueId loss = c_.single("mean", negative, {"loss", "loss", kRule}, N(1), kWide, {});
    for (const ValueId local : {eye, signs, likelihood, negative}) graph_.hold(local);
    return loss;
  }

  Composer<N>& c_;
  Graph<N>& graph_;
  const Contrast& how_;
  const N batch_, row_, pairs_;
};

}  // namespace

template <class N>
ContrastBridge compose_contrast_bridge(Composer<N>& composer, const Architecture& model,
                                       const Sizes<N>& tower, ValueId x, ValueId ids) {
  Graph<N>& graph = composer.graph;
  const VisionPart& vision = *model.encoder_part->vision;
  const Contrast& contrast = *vision.contrast;
  ContrastBridge bridge;
  if (contrast.pooling) {
    // Its patches lie by channel, as a convolution gave them, and the gradient that comes by token.
    const bool several = plain(tower.batch) > 1;
    const ValueId patches = composer.normalise(x, contrast.image_norm, tower.tokens, tower.hidden,
                                               {.input = several, .gradient = several});
    graph.name(patches);
    bridge.image = compose_pooling_head(composer, *contrast.pooling, tower, patches);
  } else {
    const N row = tower.batch * tower.hidden;
    const ValueId token = composer.viewed("select", x, row);
    const ValueId y = composer.normalise(token, contrast.image_norm, tower.batch, tower.hidden,
                                         {.input = plain(tower.batch) > 1});
    bridge.image = composer.linear(y, *contrast.image_projection, tower.batch, tower.hidden,
                                   Workbook<N>::symbol("j", contrast.width));
    graph.hold(y);
  }
  bridge.operators_of_tower = composer.position();
  bridge.text = compose_embedding(composer, model, ids);
  return bridge;
}

template <class N>
ValueId compose_contrast(Composer<N>& composer, const Architecture& model, ValueId x, ValueId ids,
                         ValueId image) {
  const Contrast& contrast = *model.encoder_part->vision->contrast;
  const ValueId texts =
      composer.normalise(x, *model.final_norm, composer.sizes.tokens, composer.sizes.hidden);
  return ContrastWriter<N>(composer, contrast).write(texts, ids, image);
}

#define STEELYARD_CONTRAST(N)                                                         \
  template ContrastBridge compose_contrast_bridge(Composer<N>&, const Architecture&,  \
                                                  const Sizes<N>&, ValueId, ValueId); \
  template ValueId compose_contrast(Composer<N>&, const Architecture&, ValueId, ValueId, ValueId);
STEELYARD_CONTRAST(Checked)
STEELYARD_CONTRAST(Traced)
#undef STEELYARD_CONTRAST

}  // namespace steelyard
