#include "cli/against_run.h"

#include "cli/changed_files.h"
#include "cli/rewritten.h"

namespace steelyard {

tl::expected<AgainstRun, Diagnostics> weigh_against(const Invocation& invocation,
                                                    const std::string& word) {
  auto input = read_run(word);
  if (!input) return tl::unexpected(input.error());
  AgainstRun run{std::move(*input), {}, {}};
  run.document = run.input.document;
  lay_over(run.document, edits_of(invocation.keys));
  run.weighed = weigh_document(run.document, run.input.folder);
  if (!run.weighed.prediction) return tl::unexpected(run.weighed.problems);
  return run;
}

void hold_against(DiagnosisQuestion& question, const AgainstRun& run) {
  question.job = &*run.weighed.job;
  question.prediction = &*run.weighed.prediction;
  question.run = run.input.name;
  question.rewritten =
      rewritten(run.document, run.input.folder,
                run.input.tool.empty() ? tool_of(run.document) : std::string_view(run.input.tool));
  question.lines = lines_of_change(run.input);
  question.supposed = rewritten(run.document, run.input.folder, {});
}

}  // namespace steelyard
