// The judge of published rows: `steelyard validate` with a mapper for each table of tools/judge/rows.
//
//   steelyard_judge tools/judge/rows --source vtrain --rows      flags as of steelyard validate
//
// It is a tool of this repository: no formula, constant or mapper of it is in the program that users run.
#include <fmt/format.h>

#include <exception>
#include <string>
#include <vector>

#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/machine_world.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/validate_command.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

int judge_words(const std::vector<std::string>& words) {
  const Surroundings out = surroundings_of_stdout();
  const Surroundings err = surroundings_of_stderr();
  const Command* validate = find_command("validate");
  const auto invocation = read_invocation(*validate, words, out, err);
  if (invocation) return validate_with(row_sources(), *invocation);
  Invocation plain;
  plain.error_style = style_for({}, err);
  return refuse(plain, invocation.error(), "nothing judged");
}

}  // namespace
}  // namespace steelyard

int main(int argc, char** argv) {
  steelyard::prepare_signals();
  steelyard::ProgramWorld machine;
  const steelyard::InWorld here(machine);
  try {
    const int status = steelyard::judge_words({argv + 1, argv + argc});
    steelyard::flush_answer();
    return status;
  } catch (const std::exception& fault) {
    steelyard::flush_answer();
    steelyard::remark(fmt::format("internal error: {}\n", fault.what()));
    return steelyard::kInternal;
  }
}
