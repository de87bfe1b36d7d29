// A diagnosis as steelyard.diagnosis/1.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "diagnose/diagnosis.h"

namespace steelyard {

nlohmann::ordered_json json_of(const Diagnosis& diagnosis);

}  // namespace steelyard
