// A verdict as a person says it, and in its colour.
#pragma once

#include <string>

#include "predict/prediction.h"
#include "report/style.h"

namespace steelyard {

inline std::string verdict_words(Verdict verdict) {
  return verdict == Verdict::kDoesNotFit ? "does not fit" : std::string(name_of(verdict));
}

inline Ink ink_of(Verdict verdict) {
  if (verdict == Verdict::kFits) return Ink::kGood;
  return verdict == Verdict::kTight ? Ink::kWarning : Ink::kBad;
}

}  // namespace steelyard
