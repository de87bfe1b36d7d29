#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/input_file.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/rewritten.h"
#include "cli/run_input.h"
#include "cli/slurm_plugin.h"
#include "document/printable.h"
#include "document/read.h"
#include "predict/host_room.h"
#include "report/error_codes.h"
#include "report/gate_formats.h"
#include "report/json_values.h"
#include "report/prediction_json.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 4> kOfPartition = {"device", "devices_per_node", "machine",
                                                          "network"};

// gate.toml:
//   refuse = "does-not-fit"          # "tight": refuse what may not fit, too; "never": only say
//   not_weighed = "refuse"           # "accept": what becomes of a job that cannot be read or weighed
//   no_training = "accept"           # "refuse": of a script that launches none
//   headroom_gib = 2.0               # of the high end of the band, must stay free
//   [partition.h100]
//   device = "h100-sxm-80gb"
//   machine = "aws-p5"
struct Policy {
  std::string refuse = "does-not-fit";
  std::string not_weighed;  // empty: exit 2, and who asks decides
  std::string no_training = "accept";
  double headroom_gib = 0;
  Value partitions = Value::table();
};

// No device has more.
constexpr double kMostHeadroom = 4096;

tl::expected<Policy, Diagnostics> read_policy(const std::string& path) {
  const auto text = read_input(path, kPolicyFile);
  if (!text) return tl::unexpected(Diagnostics{text.error()});
  const ReadValue document = read_toml(*text, path);
  if (!document) return tl::unexpected(document.error());
  Policy policy;
  Diagnostics problems;
  const auto refuse = [&](const Place& place, std::string message, std::string label) {
    add_problem(problems,
                {Severity::kError, "E605", std::move(message), place, std::move(label), {}});
  };
  const auto one_of = [&](const Value::Member& member, std::string& word, std::string known,
                          std::initializer_list<std::string_view> words) {
    word = word_of(member.value);
    if (std::find(words.begin(), words.end(), word) == words.end())
      refuse(member.value.place(), member.key + " is not understood", std::move(known));
  };
  for (const Value::Member& member : document->members()) {
    if (member.key == "refuse") {
      one_of(member, policy.refuse, "does-not-fit, tight or never",
             {"does-not-fit", "tight", "never"});
    } else if (member.key == "not_weighed") {
      one_of(member, policy.not_weighed, "accept or refuse", {"accept", "refuse"});
    } else if (member.key == "no_training") {
      one_of(member, policy.no_training, "accept or refuse", {"accept", "refuse"});
    } else if (member.key == "headroom_gib") {
      if (!member.value.is_number())
        refuse(member.value.place(), "headroom_gib is not a number", "GiB that must stay free");
      else if (!(member.value.as_number() >= 0 && member.value.as_number() <= kMostHeadroom))
        refuse(member.value.place(), fmt::format("headroom_gib is {}", shown(member.value)),
               "GiB that must stay free: 0 or more, as a device has them");
      else
        policy.headroom_gib = member.value.as_number();
    } else if (member.key == "partition" && member.value.is_table()) {
      for (const Value::Member& partition : member.value.members())
        for (const Value::Member& known :
             partition.value.is_table() ? partition.value.members() : std::vector<Value::Member>{})
          if (std::find(kOfPartition.begin(), kOfPartition.end(), known.key) == kOfPartition.end())
            refuse(known.key_place(), fmt::format("unknown key \"{}\"", known.key),
                   fmt::format("a partition has {}", fmt::join(kOfPartition, ", ")));
      policy.partitions = member.value;
    } else {
      refuse(member.key_place(), fmt::format("unknown key \"{}\"", member.key),
             "refuse, not_weighed, no_training, headroom_gib and [partition.NAME] are known");
    }
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return policy;
}

std::string in_gib(Bytes bytes) {
  return fmt::format("{:.1f}", static_cast<double>(number(bytes)) / (1024.0 * 1024.0 * 1024.0));
}

std::vector<std::string> unread_keys(const RunInput& input) {
  std::vector<std::string> names;
  for (const std::string& name :
       input.imported == nullptr ? std::vector<std::string>{} : input.imported->unread)
    names.push_back(printable(name));
  return names;
}

// One job's answer, or why it is not weighed.
struct Answer {
  bool refused = false;
  std::string line;
  nlohmann::ordered_json document;
  Place place;       // of the value that a fix would change
  std::string rule;  // "does-not-fit"
  GateLevel level = GateLevel::kPassed;
};

// "does-not-fit": what a finding is called where others show it.
std::string rule_of(const Prediction& prediction, const Diagnostics& deaths, bool crowded) {
  if (!deaths.empty()) return "stops-at-start";
  if (crowded && prediction.verdict == Verdict::kFits) return "headroom";
  std::string rule(name_of(prediction.verdict));
  std::replace(rule.begin(), rule.end(), '_', '-');
  return rule;
}

// Where a reader would begin to mend it: what the suggestion changes, else the model.
Place first_place(const Value& document, const std::vector<Suggestion>& suggestions) {
  if (!suggestions.empty())
    for (const Suggestion::Edit& edit : suggestions.front().edits)
      if (const Value* value = document.at(edit.key); value != nullptr && value->place().line > 0)
        return value->place();
  const Value* model = document.at("model");
  return model == nullptr ? Place{} : model->place();
}

tl::expected<Answer, Diagnostics> judge(const Invocation& invocation, const std::string& word,
                                        const Policy& policy) {
  const auto input = read_run(word, invocation);
  if (!input) return tl::unexpected(input.error());
  Value document = input->document;
  // What the cluster knows and the script does not: a partition's devices.
  if (const Value* partition = document.at("launch.partition"))
    if (const Value* known = policy.partitions.find(word_of(*partition));
        known != nullptr && known->is_table())
      for (const std::string_view key : kOfPartition) {
        const Value* value = known->find(key);
        const std::string path = fmt::format("cluster.{}", key);
        if (value != nullptr && (key == "device" || document.at(path) == nullptr))
          set_path(document, path, *value, value->place());
      }
  lay_over(document, edits_of(invocation.keys));
  const Weighed weighed = weigh_document(document, input->folder);
  if (!weighed.prediction) return tl::unexpected(weighed.problems);
  const Prediction& prediction = *weighed.prediction;
  const double headroom =
      static_cast<double>(number(prediction.usable) - number(prediction.peak.high)) /
      (1024.0 * 1024.0 * 1024.0);
  const bool crowded = policy.headroom_gib > 0 && headroom < policy.headroom_gib;
  // It is weighed as if it ran; it does not.
  Diagnostics deaths;
  for (const Diagnostic& warning : weighed.job->warnings)
    if (dies_at_start({warning})) deaths.push_back(warning);
  Answer said;
  said.refused = policy.refuse != "never" &&
                 (prediction.verdict == Verdict::kDoesNotFit || !deaths.empty() ||
                  (prediction.verdict == Verdict::kTight && policy.refuse == "tight") || crowded);
  said.line = said.refused ? "refused: " : "accepted: ";
  for (const Diagnostic& death : deaths)
    said.line += fmt::format("stops at its start: {} ({}); ", death.message, death.code);
  said.line += fmt::format("{}: needs {} GiB ({} to {}) on each {}, usable {}",
                           verdict_words(prediction.verdict), in_gib(prediction.peak.device),
                           in_gib(prediction.peak.low), in_gib(prediction.peak.high),
                           weighed.job->cluster.device->name, in_gib(prediction.usable));
  if (const std::string lacks = host_sentence(*weighed.job, prediction.host_of_node);
      !lacks.empty())
    said.line += "; " + lacks;
  // A verdict of a job that was not read whole says so.
  const std::vector<std::string> unread = unread_keys(*input);
  if (!unread.empty()) said.line += fmt::format("; not read: {}", fmt::join(unread, ", "));
  if (crowded && prediction.verdict != Verdict::kDoesNotFit)
    said.line += fmt::format("; {:.1f} must stay free", policy.headroom_gib);
  std::vector<Suggestion> suggestions;
  if (said.refused && deaths.empty()) {
    suggestions =
        suggest(*weighed.job, prediction,
                rewritten(document, input->folder,
                          input->tool.empty() ? tool_of(document) : std::string_view(input->tool)));
    if (!suggestions.empty()) {
      std::string change;
      for (const Suggestion::Edit& edit : suggestions.front().edits)
        change += fmt::format("{}{} = {}", change.empty() ? "" : ", ", edit.key, edit.to);
      const bool sure = suggestions.front().verdict == Verdict::kFits;
      said.line += (sure ? "; fits with " : "; may fit with ") + change;
    }
  }
  said.place = deaths.empty() ? first_place(document, suggestions) : deaths.front().place;
  said.rule = rule_of(prediction, deaths, crowded);
  said.level = said.refused                                             ? GateLevel::kRefused
               : prediction.verdict == Verdict::kFits && deaths.empty() ? GateLevel::kPassed
                                                                        : GateLevel::kWarning;
  said.document = {{"schema", "steelyard.gate/1"},
                   {"refused", said.refused},
                   {"verdict", std::string(name_of(prediction.verdict))},
                   {"device_bytes", number(prediction.peak.device)},
                   {"low_bytes", number(prediction.peak.low)},
                   {"high_bytes", number(prediction.peak.high)},
                   {"usable_bytes", number(prediction.usable)},
                   {"line", said.line}};
  if (!unread.empty()) said.document["not_read"] = unread;
  if (!deaths.empty()) said.document["stops_at_start"] = json_of(deaths)["problems"];
  return said;
}

// A defect of ours in one job is that job's alone.
tl::expected<Answer, Diagnostics> judge_guarded(const Invocation& invocation,
                                                const std::string& word, const Policy& policy) {
  try {
    return judge(invocation, word, policy);
  } catch (const std::bad_alloc&) {
    return tl::unexpected(
        Diagnostics{command_line_problem("E623", "not enough memory for this input")});
  } catch (const std::exception& fault) {
    return tl::unexpected(
        Diagnostics{command_line_problem("E070", fmt::format("internal error: {}", fault.what()))});
  }
}

bool is_internal(const Diagnostics& problems) {
  return std::any_of(problems.begin(), problems.end(),
                     [](const Diagnostic& problem) { return problem.code == "E070"; });
}

// What the policy makes of a job that was not weighed; nothing when it does not say.
std::optional<Answer> by_policy(const Diagnostics& problems, const Policy& policy) {
  if (policy.not_weighed.empty()) return std::nullopt;
  const bool no_training = problems.size() == 1 && problems.front().code == "E604";
  const char* key = no_training ? "no_training" : "not_weighed";
  const std::string& word = no_training ? policy.no_training : policy.not_weighed;
  Answer said;
  said.refused = word == "refuse";
  said.level = said.refused ? GateLevel::kRefused : GateLevel::kWarning;
  said.rule = problems.front().code;
  said.place = problems.front().place;
  said.line =
      fmt::format("{}: not weighed ({} = \"{}\"): {}", said.refused ? "refused" : "accepted", key,
                  word, printable(problems.front().message));
  said.document = json_of(problems);
  said.document["schema"] = "steelyard.gate/1";
  said.document["refused"] = said.refused;
  said.document["verdict"] = nullptr;
  said.document["line"] = said.line;
  return said;
}

// Of several jobs, as pre-commit names them, each line says whose it is.
bool is_stream(const Invocation& invocation) { return invocation.words.size() > 1; }

void say(const Invocation& invocation, const std::string& word, Answer& said) {
  const bool several = is_stream(invocation);
  if (several) said.document["file"] = word;
  if (invocation.json)
    answer(several ? line_text(said.document) : document_text(said.document));
  else
    answer(several ? fmt::format("{}: {}\n", printable(word), said.line) : said.line + "\n");
}

// Why a job is not weighed. Where the policy has decided, JSON has it in the answer.
void say_problems(const Invocation& invocation, const std::string& word,
                  const Diagnostics& problems, bool decided) {
  if (invocation.json && decided) return;
  if (invocation.json && is_stream(invocation)) {
    nlohmann::ordered_json document = json_of(problems);
    document["file"] = word;
    answer(line_text(document));
    return;
  }
  refuse(invocation, problems, "nothing weighed");
  if (!decided && !invocation.json)
    remark(
        "the policy does not say what becomes of a job that is not weighed: not_weighed = "
        "\"accept\" or \"refuse\"\n");
}

GateFinding finding_at(const std::string& word, const Place& place) {
  GateFinding finding;
  finding.job = word;
  // A flag or a default has no line: the job as a whole, then.
  finding.file = place.line > 0 && !place.source.empty() ? place.source : word;
  finding.line = finding.file == place.source ? place.line : 0;
  finding.column = finding.line > 0 ? place.column : 0;
  return finding;
}

GateFinding finding_of(const std::string& word, const Answer& said) {
  GateFinding finding = finding_at(word, said.place);
  finding.rule = said.rule;
  finding.title = said.rule;
  std::replace(finding.title.begin(), finding.title.end(), '-', ' ');
  finding.level = said.level;
  finding.message = said.line;
  return finding;
}

GateFinding finding_of(const std::string& word, const Diagnostic& problem) {
  GateFinding finding = finding_at(word, problem.place);
  finding.rule = problem.code;
  const ErrorCode* known = find_error_code(problem.code);
  finding.title = known == nullptr ? problem.code : std::string(known->title);
  finding.level = GateLevel::kNotWeighed;
  finding.message = "not weighed: " + problem.message;
  if (!problem.label.empty()) finding.message += ": " + problem.label;
  if (!problem.help.empty()) finding.message += "; " + problem.help;
  return finding;
}

std::string in_format(std::string_view format, const std::vector<GateFinding>& findings) {
  if (format == "github") return github_text(findings);
  return format == "sarif" ? sarif_text(findings) : junit_text(findings);
}

}  // namespace

int gate_command(const Invocation& invocation) {
  if (invocation.has("slurm-plugin")) {
    answer(slurm_plugin());
    return kDone;
  }
  if (invocation.words.empty())
    return refuse_words(invocation, "gate what: job scripts or run files");
  const std::string* format = invocation.value("format");
  const bool shown_by_others = format != nullptr && *format != "text";
  if (shown_by_others && invocation.json)
    return refuse_words(invocation, "--json and --format are two forms of one answer");
  Policy policy;
  if (const std::string* file = invocation.value("policy")) {
    auto read = read_policy(*file);
    if (!read) return refuse(invocation, read.error(), "nothing weighed");
    policy = std::move(*read);
  }
  int status = kDone;
  std::vector<GateFinding> findings;
  for (const std::string& word : invocation.words) {
    auto judged = judge_guarded(invocation, word, policy);
    std::optional<Answer> decided;
    if (judged)
      decided = std::move(*judged);
    else
      decided = by_policy(judged.error(), policy);
    if (!decided)
      status = std::max(status, is_internal(judged.error()) ? kInternal : kBadInput);
    else if (decided->refused && status == kDone)
      status = kFinding;
    if (shown_by_others) {
      if (decided)
        findings.push_back(finding_of(word, *decided));
      else
        for (const Diagnostic& problem : judged.error())
          findings.push_back(finding_of(word, problem));
      continue;
    }
    if (!judged) say_problems(invocation, word, judged.error(), decided.has_value());
    if (decided) say(invocation, word, *decided);
  }
  if (shown_by_others) answer(in_format(*format, findings));
  return status;
}

}  // namespace steelyard
