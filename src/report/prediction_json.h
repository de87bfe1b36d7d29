// The JSON of answers: steelyard.prediction/1, steelyard.estimate/1, steelyard.error/1. Integers are bytes; names are
// fixed.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "document/diagnostic.h"
#include "predict/prediction.h"

namespace steelyard {

// Everything, or (brief) the verdict, the parameters, the peak and each distinct rank's own peak.
// `job` gives the device and what it warned about; it may be null when only a prediction was kept.
nlohmann::ordered_json json_of(const Job& job, const Prediction& prediction,
                               const std::vector<Suggestion>& suggestions, bool brief);

// steelyard.estimate/1, of estimate(): what a page shows while a slider moves. Verdict, peak, terms of the step's time, what the
// host keeps, warnings; each distinct rank's own peak, and phases with their piles of the fullest one alone.
nlohmann::ordered_json estimate_json_of(const Job& job, Prediction prediction);

nlohmann::ordered_json json_of(const std::vector<Assumption>& assumptions);

// {"schema": "steelyard.error/1", "error": "the first message", "problems": [...]}
nlohmann::ordered_json json_of(const Diagnostics& problems);

// One document of its own, indented, with a line end; or one line of JSON lines.
std::string document_text(const nlohmann::ordered_json& value);
std::string line_text(const nlohmann::ordered_json& value);

}  // namespace steelyard
