// The page serves no page: it has no sockets.
#include "cli/command.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"

namespace steelyard {

int page_command(const Invocation& invocation) {
  return refuse(invocation,
                {command_line_problem("E630", "a page serves no page",
                                      "steelyard page, in a terminal, does")},
                "nothing served");
}

}  // namespace steelyard
