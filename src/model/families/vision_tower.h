// The towers of vision of CLIP and SigLIP, as models of their own and as a part of a multimodal one.
//
//   const Tower tower = read_tower(config);                        "image_size", "patch_size", heads
//   tower.image = add_patches(model.embedding_parameters, tower, "vision_tower.");
//   model.kinds = {tower_layer(config, tower.heads, Activation::kQuickGelu)};
#pragma once

#include <string>

#include "model/config.h"
#include "model/modules.h"

namespace steelyard {

struct Tower {
  HeadShape heads;
  Checked patches = 0;      // of one image
  bool class_token = true;  // CLIP's; SigLIP has none
  ImageInput image;
  Checked tokens() const { return patches + Checked(class_token ? 1 : 0); }
};
Tower read_tower(Config& config, bool class_token);

// The convolution over patches, the class token, the table of positions.
void add_patches(Tensors& tensors, Tower& tower, const std::string& prefix);
// The layers of their towers of text are the same.
Layer tower_layer(Config& config, const HeadShape& heads, Activation activation,
                  bool causal = false);

}  // namespace steelyard
