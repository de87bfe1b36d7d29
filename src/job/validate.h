// Whether the layout divides this model: heads, widths, experts, sequence.
#pragma once

#include <string>

#include "job/draft.h"

namespace steelyard {

// Adds an error for everything that cannot be cut as asked, each with what would fit.
void validate(Draft& draft);

// Why `tensor` ranks cannot share this model under this engine: "tensor 8 does not divide 12 heads"; empty when
// they can. Also for whoever searches for layouts.
std::string tensor_fault(const Architecture& model, Engine engine, std::int64_t tensor);

}  // namespace steelyard
