#include "cli/problems.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/read_invocation.h"
#include "document/edit_distance.h"
#include "document/render.h"
#include "report/error_codes.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

std::string blocks(const Diagnostics& problems, std::string_view outcome, const Style& style) {
  const std::string text =
      render(problems, outcome, RenderStyle{style.colour, style.width, style.seal});
  return style.ascii ? plain_characters(text) : text;
}

int refuse(const Diagnostics& problems, std::string_view outcome, const Style& style, bool json) {
  if (json) {
    answer(document_text(json_of(problems)));
  } else {
    remark(blocks(problems, outcome, style));
  }
  return kBadInput;
}

}  // namespace

int refuse(const Invocation& invocation, const Diagnostics& problems, std::string_view outcome) {
  return refuse(problems, outcome, invocation.error_style, invocation.json);
}

void warn(const Invocation& invocation, const Diagnostics& warnings) {
  if (invocation.json) return;
  // Quiet or not: that the run dies at start is no remark.
  Diagnostics said = warnings;
  if (invocation.has("quiet"))
    std::erase_if(said, [](const Diagnostic& problem) { return !dies_at_start({problem}); });
  if (!said.empty()) remark(blocks(said, "", invocation.error_style));
}

int refuse_words(const Invocation& invocation, std::string_view message) {
  const Command& command = *invocation.command;
  return refuse(
      invocation,
      {command_line_problem("E003", std::string(message),
                            fmt::format("steelyard {} {}", command.name, command.arguments))},
      "");
}

Diagnostic unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) names.push_back(command.name);
  Diagnostic problem = command_line_problem("E001", fmt::format("unknown command \"{}\"", name));
  problem.help = did_you_mean("command", nearest_names(name, names));
  if (problem.help.empty()) problem.help = fmt::format("the commands are {}", any_of(names));
  return problem;
}

int refuse_command(std::string_view name, const Style& style, bool json) {
  return refuse({unknown_command(name)}, "", style, json);
}

}  // namespace steelyard
