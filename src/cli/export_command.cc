#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/export_patch.h"
#include "cli/export_run.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "formats/launch/launch.h"

namespace steelyard {

int export_command(const Invocation& invocation) {
  const std::string* to = invocation.value("to");
  if (invocation.words.size() != (to == nullptr ? 2 : 1))
    return refuse_words(
        invocation,
        fmt::format("export to what, and which run: export RUN --to ENGINE; ENGINE is {} or slurm",
                    fmt::join(export_targets(), ", ")));
  std::string target = to == nullptr ? invocation.words[0] : *to;
  std::string word = invocation.words.back();
  if (to == nullptr && !is_export_target(target) && is_export_target(word)) std::swap(target, word);
  // A file of TRL's can be changed; no new one is written for it.
  if (!is_export_target(target) && target != "trl")
    return refuse(invocation, {unknown_target(target)}, "nothing exported");
  const auto input = read_run(word, invocation);
  if (!input) return refuse(invocation, input.error(), "nothing exported");
  Value document = input->document;
  lay_over(document, edits_of(invocation.keys));
  if (exports_own_file(invocation, *input, target))
    return export_own_file(invocation, *input, document, target);
  if (!is_export_target(target))
    return refuse(invocation, {unknown_target(target)}, "nothing exported");
  settle_and_say(document, target);
  const auto exported = exported_run(invocation, document, input->folder, input->name, target);
  if (!exported) return refuse(invocation, exported.error(), "nothing exported");
  return give_exported(invocation, target, *exported);
}

}  // namespace steelyard
