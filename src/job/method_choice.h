// What is trained, and what scores beside it.
//
//   [training] method = "dpo"      pairs of sequences; a reference that scores them without gradients
//              reference = "model" | "adapter" | "precomputed"
#pragma once

#include "job/draft.h"

namespace steelyard {

// Needs the whole job: its model with adapters and what of it is frozen.
void choose_training_method(Draft& draft);

// The job of the model that scores: frozen whole, alone on its rank where the trainer's code leaves it whole there. Needs
// job.scorer.
Job job_of_scorer(const Job& job);
// Where its weights are divided and gathered all at once, the job that divides them.
bool gathers_scorer_at_once(const Job& job);
Job job_of_divided_scorer(const Job& job);

}  // namespace steelyard
