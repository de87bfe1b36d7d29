// What an entry of the ledger is called when it is shown.
//
//   log-softmax                 kept for backward
//   gradient of log-softmax     made by backward, in the shape of the tensor whose gradient it is
#pragma once

#include <string>
#include <string_view>

#include "ledger/program.h"

namespace steelyard {

inline std::string entry_name(const Slot& slot) {
  const std::string_view name = slot.name;
  const bool unnamed_gradient =
      std::string_view(slot.rule) == "autograd.input-gradient" && name.substr(0, 8) != "gradient";
  return unnamed_gradient ? "gradient of " + std::string(name) : std::string(name);
}

}  // namespace steelyard
