#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/man_page.h"
#include "cli/outlet.h"
#include "cli/problems.h"

namespace steelyard {

int help_command(const Invocation& invocation) {
  const bool man = invocation.has("man");
  if (invocation.words.empty()) {
    answer(man ? man_page() : overview_text(invocation.style));
    return kDone;
  }
  const Command* command = find_command(invocation.words.front());
  if (command == nullptr)
    return refuse_command(invocation.words.front(), invocation.error_style, false);
  answer(man ? man_page(*command) : full_help(*command, invocation.style));
  return kDone;
}

}  // namespace steelyard
