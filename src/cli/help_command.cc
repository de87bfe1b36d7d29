#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/outlet.h"
#include "cli/problems.h"

namespace steelyard {

int help_command(const Invocation& invocation) {
  if (invocation.words.empty()) {
    answer(overview_text(invocation.style));
    return kDone;
  }
  const Command* command = find_command(invocation.words.front());
  if (command == nullptr)
    return refuse_command(invocation.words.front(), invocation.error_style, false);
  answer(full_help(*command, invocation.style));
  return kDone;
}

}  // namespace steelyard
