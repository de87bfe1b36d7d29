// A diagnosis as steelyard.diagnosis/1.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "diagnose/diagnosis.h"

namespace steelyard {

nlohmann::ordered_json json_of(const Diagnosis& diagnosis);

// Parts of it: {"text", "bytes", "source"} and {"change", "expect_bytes"}.
nlohmann::ordered_json json_of(const Proof& proof);
nlohmann::ordered_json json_of(const Experiment& experiment);

}  // namespace steelyard
