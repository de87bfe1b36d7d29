#include <fmt/format.h>

#include "cli/command.h"
#include "cli/completion.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"

namespace steelyard {

int completion_command(const Invocation& invocation) {
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "completion for which shell: bash, zsh or fish");
  const std::string& shell = invocation.words.front();
  if (shell == "bash") {
    answer(bash_completion());
  } else if (shell == "zsh") {
    answer(zsh_completion());
  } else if (shell == "fish") {
    answer(fish_completion());
  } else {
    return refuse_words(invocation,
                        fmt::format("no completion for \"{}\": bash, zsh or fish", shell));
  }
  return kDone;
}

}  // namespace steelyard
