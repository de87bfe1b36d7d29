#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/export_run.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "formats/launch/launch.h"

namespace steelyard {

int export_command(const Invocation& invocation) {
  if (invocation.words.size() != 2)
    return refuse_words(
        invocation,
        fmt::format("export to what, and which run: export ENGINE RUN; ENGINE is {} or slurm",
                    fmt::join(export_targets(), ", ")));
  std::string target = invocation.words[0];
  std::string word = invocation.words[1];
  if (!is_export_target(target) && is_export_target(word)) std::swap(target, word);
  if (!is_export_target(target))
    return refuse(invocation, {unknown_target(target)}, "nothing exported");
  const auto input = read_run(word);
  if (!input) return refuse(invocation, input.error(), "nothing exported");
  Value document = input->document;
  lay_over(document, edits_of(invocation.keys));
  settle_and_say(document, target);
  const auto exported = exported_run(invocation, document, input->folder, input->name, target);
  if (!exported) return refuse(invocation, exported.error(), "nothing exported");
  return give_exported(invocation, target, *exported);
}

}  // namespace steelyard
