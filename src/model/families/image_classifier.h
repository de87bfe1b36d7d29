// What a tower of vision ends in as transformers' ...ForImageClassification: one product over classes, beside the published total.
//
//   add_image_classifier(config, model, hidden);     num_labels, or id2label's members, or two
#pragma once

#include "model/architecture.h"
#include "model/config.h"

namespace steelyard {

void add_image_classifier(Config& config, Architecture& model, Checked hidden);

}  // namespace steelyard
