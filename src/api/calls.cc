// The functions of steelyard.h: each is a command of the program in a world of its own.
#include <fmt/format.h>
#include <steelyard/steelyard.h>

#include <exception>
#include <new>
#include <nlohmann/json.hpp>

#include "api/call_world.h"
#include "api/estimate_answer.h"
#include "api/request.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "data/version.h"
#include "quantity/checked.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

// `weigh` without the allocator: verdict, piles and time, no suggestions; "svg": the same bar.
int estimate_command(const Invocation& invocation) {
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "estimate takes one run file or model");
  const auto input = read_run(invocation.words.front(), invocation);
  if (!input) return refuse(invocation, input.error(), "nothing estimated");
  Value document = input->document;
  lay_over(document, edits_of(invocation.keys));
  return answer_estimate(invocation, document, input->folder);
}

const Command* command_called(std::string_view verb) {
  static const Command estimates = {"estimate", "RUN|MODEL", "", "", {}, true, estimate_command};
  if (verb == estimates.name) return &estimates;
  // These print for a shell or open a browser, and have no document.
  const Command* command = find_command(verb);
  return command == nullptr || word_keys(*command).empty() ? nullptr : command;
}

void refuse_call(Reply& reply, const Diagnostics& problems, int status = kBadInput) {
  reply.status = status;
  reply.text = document_text(json_of(problems));
}

void run_command(const Command& command, std::string_view request, const Surrounding& around,
                 Reply& reply) {
  const auto asked = read_request(command, request);
  if (!asked) return refuse_call(reply, asked.error());
  CallWorld here(around, asked->files, reply);
  const InWorld scope(here);
  const auto fault = [&](Diagnostic problem, int status) {
    reply.text.clear();
    refuse_call(reply, {std::move(problem)}, status);
  };
  try {
    reply.status = command.run(asked->invocation);
  } catch (const OverflowError& overflow) {
    fault(command_line_problem("E107", overflow.what(), "a size in the run file is far too large"),
          kBadInput);
  } catch (const std::bad_alloc&) {
    fault(command_line_problem("E623", "not enough memory for this input"), kBadInput);
  }
}

}  // namespace

Reply call(std::string_view verb, std::string_view request, const Surrounding& around) noexcept {
  Reply reply;
  try {
    try {
      if (const Command* command = command_called(verb))
        run_command(*command, request, around, reply);
      else
        refuse_call(reply, {unknown_command(verb)});
    } catch (const std::exception& fault) {
      refuse_call(reply,
                  {command_line_problem("E070", fmt::format("internal error: {}", fault.what()))},
                  kInternal);
    }
  } catch (...) {
    // Not even the sentence about it could be written.
    reply.status = kInternal;
  }
  return reply;
}

Reply weigh(std::string_view request, const Surrounding& around) noexcept {
  return call("weigh", request, around);
}
Reply estimate(std::string_view request, const Surrounding& around) noexcept {
  return call("estimate", request, around);
}
Reply plan(std::string_view request, const Surrounding& around) noexcept {
  return call("plan", request, around);
}
Reply sweep(std::string_view request, const Surrounding& around) noexcept {
  return call("sweep", request, around);
}
Reply explain(std::string_view request, const Surrounding& around) noexcept {
  return call("explain", request, around);
}
Reply compare(std::string_view request, const Surrounding& around) noexcept {
  return call("compare", request, around);
}
Reply diagnose(std::string_view request, const Surrounding& around) noexcept {
  return call("diagnose", request, around);
}
Reply gate(std::string_view request, const Surrounding& around) noexcept {
  return call("gate", request, around);
}
Reply import_launch_file(std::string_view request, const Surrounding& around) noexcept {
  return call("import", request, around);
}
Reply export_run(std::string_view request, const Surrounding& around) noexcept {
  return call("export", request, around);
}
Reply list(std::string_view request, const Surrounding& around) noexcept {
  return call("list", request, around);
}

std::string version_text() { return std::string(version()); }

}  // namespace steelyard
