// Every code that a problem may carry, and why its rule exists: what `steelyard explain E210`
// prints.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "report/style.h"

namespace steelyard {

struct ErrorCode {
  std::string_view code;   // "E210"
  std::string_view title;  // "the product is not the device count"
  std::string_view why;
  bool dies_at_start = false;  // weighed, and the run stops before its first step is done
};

// In order of their codes. A test holds this list equal to the codes that the sources use.
const std::vector<ErrorCode>& error_codes();
const ErrorCode* find_error_code(std::string_view code);
// Whether one of them means that the run stops before its first step is done.
bool dies_at_start(const Diagnostics& problems);

std::string error_code_text(const ErrorCode& code, const Style& style);
nlohmann::ordered_json json_of(const ErrorCode& code);

}  // namespace steelyard
