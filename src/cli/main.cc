// The program: words in, an answer on stdout, talk on stderr, a status.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/machine_world.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "data/version.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

// Words before "--" only: after it everything is a name.
bool says(const std::vector<std::string>& words, std::string_view flag) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, flag) != end;
}

// Before a command line is understood, its style can only be guessed from the surroundings.
Invocation plain_invocation(const std::vector<std::string>& words, const Surroundings& out,
                            const Surroundings& err) {
  Invocation invocation;
  invocation.style = style_for({}, out);
  invocation.error_style = style_for({}, err);
  invocation.json = says(words, "--json") || out.format == "json";
  return invocation;
}

int answer_words(std::vector<std::string> words) {
  const Surroundings out = surroundings_of_stdout();
  const Surroundings err = surroundings_of_stderr();
  Invocation plain = plain_invocation(words, out, err);
  set_outlets(plain.style, plain.error_style);
  if (words.empty()) {
    answer(overview_text(plain.style));
    return kBadInput;
  }
  const std::string name = words.front();
  if (name == "-h" || name == "--help") {
    answer(overview_text(plain.style));
    return kDone;
  }
  if (name == "-V" || name == "--version") {
    answer(fmt::format("steelyard {}\n", version()));
    return kDone;
  }
  const Command* command = find_command(name);
  if (command == nullptr) return refuse_command(name, plain.error_style, plain.json);
  words.erase(words.begin());
  // The first of the two that is said.
  const auto asked =
      std::find_if(words.begin(), std::find(words.begin(), words.end(), "--"),
                   [](const std::string& word) { return word == "-h" || word == "--help"; });
  if (asked != words.end() && *asked != "--") {
    answer(*asked == "-h" ? short_help(*command, plain.style) : full_help(*command, plain.style));
    return kDone;
  }
  const auto invocation = read_invocation(*command, words, out, err);
  if (!invocation) return refuse(plain, invocation.error(), "");
  set_outlets(invocation->style, invocation->error_style);
  try {
    return command->run(*invocation);
  } catch (const OverflowError& fault) {
    return refuse(
        *invocation,
        {command_line_problem("E107", fault.what(), "a size in the run file is far too large")},
        "nothing weighed");
  } catch (const std::bad_alloc&) {
    return refuse(*invocation, {command_line_problem("E623", "not enough memory for this input")},
                  "nothing done");
  }
}

}  // namespace
}  // namespace steelyard

int main(int argc, char** argv) {
  steelyard::prepare_signals();
  steelyard::ProgramWorld machine;
  const steelyard::InWorld here(machine);
  try {
    return steelyard::finished(steelyard::answer_words({argv + 1, argv + argc}));
  } catch (const std::exception& fault) {
    steelyard::flush_answer();
    steelyard::remark(fmt::format(
        "internal error: {}\nThis is a defect of steelyard, not of your input.\n", fault.what()));
    return steelyard::kInternal;
  }
}
