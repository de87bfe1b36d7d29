// The two ends of a model: from token ids to the residual stream, and from the residual stream to the loss.
#pragma once

#include "operators/composer.h"

namespace steelyard {

// Token (and position) embeddings, their norm and dropout. `ids` are the int64 token ids of the micro-batch.
// `gradient`: the parameter that the table's goes to, where the composer is another module's.
template <class N>
ValueId compose_embedding(Composer<N>& composer, const Architecture& model, ValueId ids,
                          std::optional<int> gradient = std::nullopt);

// Its two halves, where another module does the first: the rows of the tokens, and what is made of them.
template <class N>
ValueId compose_lookup(Composer<N>& composer, const Architecture& model, ValueId ids);
template <class N>
ValueId compose_behind_lookup(Composer<N>& composer, const Architecture& model, ValueId x,
                              ValueId ids);

// A tower of vision's (operators/patches.cc): patches of the `pixels`, behind a norm where there is one (`leaf_gradient`: of the convolution's
// output, where nothing of it is trained and a gradient is asked for all the same), and the logits of what the class token has become.
template <class N>
ValueId compose_patches(Composer<N>& composer, const ImageInput& image, const Norm* norm,
                        const Sizes<N>& sizes, ValueId pixels, SlotId leaf_gradient = -1);
template <class N>
ValueId compose_class_token(Composer<N>& composer, const Architecture& model, ValueId x);
template <class N>
ValueId compose_mean_of_patches(
    Composer<N>& composer, const Architecture& model, ValueId x,
    std::vector<ValueId>& locals);  // that the model's forward has names for

// Where a decoder follows an encoder (operators/encoder_decoder.cc): `x` is what the encoder's last layer gave.
struct Bridge {
  ValueId encoded = kNoValue;    // what every layer of the decoder reads
  ValueId decoded = kNoValue;    // what its first layer begins with
  ValueId mask = kNoValue;       // of its own attention, written out
  int operators_of_encoder = 0;  // when they have run, the encoder's forward returns
};
template <class N>
Bridge compose_bridge(Composer<N>& composer, const Architecture& model, ValueId x,
                      const N& source_tokens);

// The norm of a tower's class tokens, whose output nobody reads; `locals`: what it leaves until its forward returns.
template <class N>
void compose_class_norm(Composer<N>& composer, const Norm& norm, const Sizes<N>& tower,
                        ElementType type, std::vector<ValueId>& locals);

// Where a decoder follows a tower of vision (operators/vision_language.cc): `x` is what the layer that is read has given, of the
// sizes `tower`; `words` are the decoder's own embeddings.
struct VisionBridge {
  ValueId features = kNoValue;  // of all images, which the output of the model names
  ValueId merged = kNoValue;    // what the decoder's first layer begins with
  int operators_of_tower = 0;   // when they have run, the tower's hidden states are forgotten
};
template <class N>
VisionBridge compose_vision_bridge(Composer<N>& composer, const Architecture& model,
                                   const Sizes<N>& tower, ValueId x, ValueId words);

// Where two towers meet in a loss (operators/contrastive.cc): `x` is what the last layer of the tower of vision gave.
struct ContrastBridge {
  ValueId image = kNoValue;    // one row of each image, which the loss reads
  ValueId text = kNoValue;     // what the first layer of the tower of text begins with
  int operators_of_tower = 0;  // when they have run, the tower's forward returns
};
template <class N>
ContrastBridge compose_contrast_bridge(Composer<N>& composer, const Architecture& model,
                                       const Sizes<N>& tower, ValueId x, ValueId ids);
// Of the texts' last layer and the rows of the images, the loss.
template <class N>
ValueId compose_contrast(Composer<N>& composer, const Architecture& model, ValueId x, ValueId ids,
                         ValueId image);
// One row of each image, of its patches (operators/pooling_head.cc).
template <class N>
ValueId compose_pooling_head(Composer<N>& composer, const PoolingHead& head, const Sizes<N>& tower,
                             ValueId patches);

// Final norm, head and cross entropy: where backward starts. Gives the loss when the caller gets it as a tensor of its
// own, else kNoValue. `ids` are for modules that predict further tokens.
template <class N>
ValueId compose_head(Composer<N>& composer, const Architecture& model, ValueId x, ValueId labels,
                     ValueId ids);

// Where every stage of a pipeline has a part of the vocabulary (operators/vocabulary_output.cc): the final norm alone, on the last
// stage, and on each its part of the head and of the loss.
template <class N>
ValueId compose_final_norm(Composer<N>& composer, const Architecture& model, ValueId x);
// `gradient_in_forward`: that of `x` is made with the logits, and forward leaves two parts of it (lingering). `waits`: for
// the exchanges of the stages, which otherwise run beside layers.
template <class N>
void compose_vocabulary_output(Composer<N>& composer, const Architecture& model, ValueId x,
                               bool gradient_in_forward, bool waits);

// Those modules (operators/prediction.cc): what goes to the head, the model's own normalised output `x` first, parts of one
// tensor. `gradients`: for each module, the parameter of the table that it looks its tokens up in.
template <class N>
std::vector<ValueId> compose_predictions(Composer<N>& composer, const Architecture& model,
                                         ValueId x, ValueId ids, const std::vector<int>& gradients);

// Cross entropy alone, from logits that are there.
template <class N>
ValueId compose_cross_entropy(Composer<N>& composer, const Architecture& model, ValueId logits,
                              ValueId labels);

}  // namespace steelyard
