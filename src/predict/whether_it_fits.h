// Whether a run fits, where nobody asks how near it is: for a search of changes, most of which do not make it fit.
//
//   decided_whether_it_fits(job).verdict   kFits, or what the host says; kTight where the device may be too small by any number
//
// What fits has the numbers of decided(), and what does not those of estimate(): what is allocated is the same in both.
#pragma once

#include "predict/prediction.h"

namespace steelyard {

Prediction decided_whether_it_fits(const Job& job);

}  // namespace steelyard
