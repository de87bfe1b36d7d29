#include "job/prediction_choice.h"

#include <fmt/format.h>

#include "model/prediction.h"

namespace steelyard {

void choose_prediction(Draft& draft) {
  Job& job = draft.job();
  if (job.model == nullptr) return;
  const auto asked = draft.settings().count(KeyId::kPredictionLayers);
  if (!asked) {
    if (job.model->prediction_layers > 0)
      draft.assume(KeyId::kPredictionLayers, "0",
                   fmt::format("the {} of the model: no code trains {} unless told",
                               job.model->prediction_layers,
                               job.model->prediction_layers == 1 ? "one" : "them"));
    return;
  }
  if (*asked == 0 || !can_predict(*job.model)) return;
  job.model = with_prediction(*job.model, *asked);
}

}  // namespace steelyard
