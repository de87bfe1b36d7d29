// Predictions beside measured runs: how far off, what became of the runs, what was not asked, and the worst rows.
//
//   percent of measured                   rows   bias  median  95 %   max
//   nanotron-ultrascale  reserved        1,121   -3.1     4.2  15.8  40.2
//                        optimizer phase 1,121   -0.1     0.4   1.9   5.0
//
// The same figures are in the JSON, schema steelyard.validation/1; there each row also has the run file that was asked.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "document/diagnostic.h"
#include "report/style.h"
#include "validate/validate.h"

namespace steelyard {

struct ValidationView {
  bool every_row = false;  // each row with what was measured and predicted
  bool assumed = false;    // what the rows did not say
};

std::string validation_text(const std::vector<SourceResult>& results, const ValidationView& view,
                            const Style& style);

// `problems`: lines that were no rows.
nlohmann::ordered_json json_of(const std::vector<SourceResult>& results, const ValidationView& view,
                               const Diagnostics& problems);

}  // namespace steelyard
