// Our values in JSON: bytes as integers, values of documents as they are.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "document/value.h"
#include "quantity/quantity.h"

namespace steelyard {

inline std::int64_t number(Bytes bytes) { return bytes.value().value(); }
nlohmann::ordered_json json_of(const Value& value);

}  // namespace steelyard
