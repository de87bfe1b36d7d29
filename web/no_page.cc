// The page serves no page and starts no command: it has no sockets and no processes.
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

int rehearse_command(const Invocation& invocation) {
  return refuse(invocation,
                {command_line_problem("E118", "a page starts no command",
                                      "steelyard rehearse, in a terminal, does")},
                "nothing rehearsed");
}

}  // namespace steelyard
