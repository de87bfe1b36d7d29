// What is trained, and what scores beside it.
//
//   [training] method = "dpo"      pairs of sequences; a reference that scores them without gradients
//              reference = "model" | "adapter" | "precomputed"
//              method = "kto"      single sequences, and a reference that scores them
//              method = "orpo" | "cpo"   pairs, of whose logits the loss is made, without a reference
//              method = "rm"       pairs; a head of one score in place of the vocabulary's
//              method = "grpo"     completions of its own; a reference where the loss asks one
#pragma once

#include "job/draft.h"

namespace steelyard {

// What is trained, and the model that this makes of the one that was read: before anything is decided of its tensors.
void take_method(Draft& draft);
// Needs the whole job: its model with adapters and what of it is frozen.
void choose_training_method(Draft& draft);

// Whether a trainer of transformers runs it: with two groups of parameters, of which one has weight decay.
bool has_two_groups(const Job& job);

// The job of the model that scores: frozen whole, alone on its rank where the trainer's code leaves it whole there. Needs
// job.scorer.
Job job_of_scorer(const Job& job);
// Whether its weights are divided over the data ranks, and gathered unit by unit as those of the trained one are.
bool divides_scorer(const Job& job);
// Where its weights are divided and gathered all at once, the job that divides them.
bool gathers_scorer_at_once(const Job& job);
Job job_of_divided_scorer(const Job& job);

}  // namespace steelyard
