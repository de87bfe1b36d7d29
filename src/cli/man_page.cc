#include "cli/man_page.h"

#include <fmt/format.h>

#include "cli/flags.h"
#include "cli/help.h"
#include "data/version.h"
#include "document/edit_distance.h"
#include "job/keys.h"

namespace steelyard {
namespace {

// Text of roff: no character steers it, and a minus can be copied as one.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\(rs";
    else if (c == '-')
      result += "\\-";
    else if (c == '\'')
      result += "\\(aq";
    else
      result += c;
  }
  // At the start of a line these two would be a request.
  if (!result.empty() && result.front() == '.') result.insert(0, "\\&");
  return result;
}

std::string page_head(const std::string& name, std::string_view summary) {
  std::string title = name;
  for (char& c : title)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return fmt::format(".TH {} 1 \"\" \"steelyard {}\"\n.SH NAME\n{} \\- {}\n", roff(title),
                     version(), roff(name), roff(summary));
}

std::string item(const std::string& names, const std::string& says) {
  return fmt::format(".TP\n.B {}\n{}\n", roff(names), roff(says));
}

std::string example(std::string_view line) { return fmt::format("{}\n", roff(line)); }

std::string exit_status() {
  return ".SH EXIT STATUS\n" + item("0", "fits (or tight, with a warning); done") +
         item("1", "does not fit; differs; a finding") +
         item("2", "the question is not understood") + item("70", "a defect of steelyard") +
         item("130", "interrupted");
}

std::string key_items() {
  std::string text = ".SH KEYS OF THE RUN FILE\n" +
                     item("--on [COUNTx]DEVICE",
                          "where it runs: 8xh100-sxm-80gb is cluster.device and cluster.devices");
  for (const Key& key : run_file_keys()) {
    std::string names = key.flag;
    for (const std::string& alias : key.flag_aliases) names += ", " + alias;
    std::string says(key.help);
    if (!key.names.empty()) says += "; " + any_of(key.names);
    text += item(names, fmt::format("{} ({}; absent: {})", says, key.path, key.fallback));
  }
  return text;
}

}  // namespace

std::string man_page() {
  std::string text =
      page_head("steelyard", "predicts memory and time of large-model training runs");
  text +=
      ".SH SYNOPSIS\n.B steelyard\n.I COMMAND\n[\\fIflags\\fR]\n.SH DESCRIPTION\n" +
      roff(
          "Predicts what a training run needs of each device, and how long its step takes, without "
          "a "
          "GPU and without the network; plans layouts that fit; says after an out-of-memory error "
          "what filled the memory.") +
      "\n.SH COMMANDS\n";
  for (const Command& command : commands())
    text += item(fmt::format("steelyard {} {}", command.name, command.arguments),
                 std::string(command.summary));
  text += exit_status() + ".SH ENVIRONMENT\n" +
          item("NO_COLOR", "no colours, where it is not empty") +
          item("CLICOLOR_FORCE", "colours also where nothing is a terminal") + ".SH SEE ALSO\n";
  std::string pages;
  for (const Command& command : commands())
    pages += fmt::format("{}.BR {} (1)", pages.empty() ? "" : " ,\n",
                         roff(fmt::format("steelyard-{}", command.name)));
  return text + pages + "\n";
}

std::string man_page(const Command& command) {
  std::string text = page_head(fmt::format("steelyard-{}", command.name), command.summary);
  text += fmt::format(".SH SYNOPSIS\n.B steelyard {}\n.I {}\n", roff(command.name),
                      roff(command.arguments));
  text += fmt::format(".SH DESCRIPTION\n{}\n.SH EXAMPLES\n.EX\n", roff(command.about));
  for (const std::string_view line : command.examples) text += example(line);
  text += ".EE\n.SH OPTIONS\n";
  for (const Flag& flag : flags())
    if (belongs(flag, command.name)) text += item(flag_names(flag), std::string(flag.help));
  text += item("-h, --help", "one screen; everything");
  if (command.run_keys) text += key_items();
  return text + exit_status() + ".SH SEE ALSO\n.BR steelyard (1)\n";
}

}  // namespace steelyard
