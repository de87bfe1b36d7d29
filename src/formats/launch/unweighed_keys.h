// Keys of launch files that change memory by a rule that is not known here: an import writes them into the run file, which is
// then refused by their names (training.unweighed); those of small effect are warnings.
//
//   {"unfrozen_parameters", "everything else is frozen, by patterns of regular expressions"}
#pragma once

#include <span>

#include "formats/launch/mapping.h"

namespace steelyard {

std::span<const UnweighedKey> unweighed_of_axolotl();
std::span<const UnweighedKey> unweighed_of_llama_factory();
std::span<const UnweighedKey> unweighed_of_trainer();
std::span<const UnweighedKey> unweighed_of_deepspeed();

// Preferences by a trainer that is not TRL's own: how it makes the logarithms of probabilities is not known here.
void refuse_preferences_of(ConfigReader& reading, std::string_view trainer, const Value& at);

}  // namespace steelyard
