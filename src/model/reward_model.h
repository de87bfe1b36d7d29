// A decoder whose head gives one score of a sequence: AutoModelForSequenceClassification with one label.
//
//   model.norm.weight   [4096]
//   score.weight        [1, 4096]      in place of lm_head.weight, tied or not
#pragma once

#include "model/architecture.h"

namespace steelyard {

Architecture reward_model(const Architecture& decoder);

}  // namespace steelyard
