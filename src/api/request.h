// A request of the library, understood: the same call as the program's words and flags say.
//
//   {"run": "llama-3.1-8b", "on": "8xh100", "set": {"training.micro_batch": 2}, "brief": true}
//   steelyard weigh llama-3.1-8b --on 8xh100 --micro-batch 2 --brief --json
#pragma once

#include <steelyard/steelyard.h>

#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "cli/command.h"
#include "document/diagnostic.h"

namespace steelyard {

struct CallRequest {
  Invocation invocation;
  std::vector<NamedText>
      files;  // texts that the request holds, under the names that the invocation uses
};

// Problems: all at once, of keys that are unknown and values that are of no use.
tl::expected<CallRequest, Diagnostics> read_request(const Command& command, std::string_view text);

}  // namespace steelyard
