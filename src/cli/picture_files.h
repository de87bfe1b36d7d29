// --svg FILE and --html FILE: the main chart of an answer, and the whole answer as a file that opens in a browser.
//
//   if (const auto status = write_pictures(invocation, kDone, [&] { return plan_svg(answered, frame); }, report)) return *status;
//
// Nothing is drawn unless one of the flags asks for it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "picture/report_page.h"
#include "plan/sweep.h"

namespace steelyard {

// Of the library's requests alone: how wide charts are, in pixels.
inline constexpr std::string_view kPictureWidth = "picture-width";
double picture_width(const Invocation& invocation);

// Refused where what is asked for has no picture: `why_not`, "--jobs", ... Nothing: go on.
std::optional<int> refuse_pictures(const Invocation& invocation, std::string_view why_not);

// The status to end with when a file could not be written or there is nothing to draw, or when FILE is -: the picture is then
// the whole answer, and `status` what the answer itself would have ended with. Else nothing.
std::optional<int> write_pictures(const Invocation& invocation, int status,
                                  const std::function<std::string(const Frame&)>& svg,
                                  const std::function<Report(const std::string& svg)>& report);

// Where the numbers of each pile at the peak come from.
std::vector<Derivation> derivations_of(const Weighing& weighing);
// "llama-3.1-8b on 8 x h100-sxm-80gb, fsdp2, 8,192 tokens a sequence"
std::string about_run(std::string_view name, const Job& job);
// The report of `weigh`, with the step's trace where one can be drawn. `width`: of its charts, in pixels.
Report report_of_weighing(const Weighing& weighing, const std::vector<Derivation>& derivations,
                          const Value& document, const std::string& folder, std::string about,
                          double width);

// The same for answers that are text: the terminal's words on 96 columns.
Report report_of_text(const Invocation& invocation, const std::string& text, std::string svg,
                      std::string answer_json);
// The style of that text.
Style report_text_style(const Invocation& invocation);

// The run as JSON, with the model's own file in it, so that it can be weighed on another machine.
std::string portable_run(const Value& document, const std::string& folder);

}  // namespace steelyard
