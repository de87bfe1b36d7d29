#include "api/estimate_answer.h"

#include <nlohmann/json.hpp>

#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/run_input.h"
#include "picture/memory_bar.h"
#include "report/prediction_json.h"

namespace steelyard {

int answer_estimate(const Invocation& invocation, const Value& document,
                    const std::string& folder) {
  const Weighed weighed = weigh_document(document, folder, estimate);
  if (!weighed.prediction) return refuse(invocation, weighed.problems, "nothing estimated");
  const int status = weighed.prediction->verdict == Verdict::kDoesNotFit ? kFinding : kDone;
  const auto drawn = write_pictures(
      invocation, status,
      [&](const Frame& frame) { return memory_bar_svg(*weighed.prediction, frame); },
      [](const std::string&) { return Report{}; });
  if (drawn) return *drawn;
  answer(line_text(estimate_json_of(*weighed.job, *weighed.prediction)));
  return status;
}

}  // namespace steelyard
