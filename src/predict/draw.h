// Of layouts that are as fast as each other for all that we can tell, the one that loses least whichever machine the devices
// turn out to stand in: what is planned where a run over several machines does not say what they are.
//
//           on hgx-a100, assumed     on google-a2-ultra      loses at most
//   a       12.2 s                   23.1 s   +29 %          29 %
//   b       12.3 s   +0.8 %          17.9 s                  0.8 %    <- the answer
//   c       12.6 s   +3.3 %          17.5 s                           no draw
//
// A loss on a machine is the step over the least of the layouts' there; the answer has the least greatest loss (minimax
// regret: L. J. Savage, "The theory of statistical decision", Journal of the American Statistical Association 46, 1951).
#pragma once

#include <cstddef>
#include <vector>

namespace steelyard {

// Up to here the predicted order of two layouts says nothing: of 613 published pairs predicted so near each other 55 % were
// measured in that order, of those 5 to 10 % apart 81 % (validate --ranking prints it; docs/validation.md).
constexpr double kDraw = 0.01;

// `steps[i]`: of layout i on each of the machines, in one order, the machine assumed first; all on as many.
// Those that draw with the fastest on the first machine, least greatest loss first; of equals the earlier first.
std::vector<std::size_t> steadiest_first(const std::vector<std::vector<double>>& steps);

}  // namespace steelyard
