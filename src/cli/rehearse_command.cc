#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/against_run.h"
#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/paper_run.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "document/read.h"
#include "report/comparison.h"
#include "report/json_values.h"
#include "report/prediction_json.h"
#include "report/rehearsal.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

// More than any device has: what a script needs that does not fit is seen there.
constexpr std::int64_t kWithoutAnEnd = std::int64_t{4} << 40;
constexpr std::string_view kUsualRehearsalDevices = "1xh100-sxm-80gb";

int refuse_rehearsal(const Invocation& invocation, std::string message, std::string help = {}) {
  return refuse(invocation, {command_line_problem("E118", std::move(message), std::move(help))},
                "nothing rehearsed");
}

// The devices that --on says. A run of the smallest model carries them: the reader of run files then
// says what is wrong with them.
tl::expected<Cluster, Diagnostics> cluster_said(const Invocation& invocation) {
  const std::string* on = invocation.value("on");
  const std::vector<SaidKey> keys = {
      {"", on == nullptr ? std::string(kUsualRehearsalDevices) : *on, "--on"}};
  Value document = Value::table();
  set_path(document, "model", Value::string("smollm2-135m"), {});
  set_path(document, "engine", Value::string("ddp"), {});
  lay_over(document, edits_of(keys));
  auto job = job_of(document, "");
  if (!job) return tl::unexpected(job.error());
  return job->cluster;
}

std::optional<std::int64_t> steps_said(const Invocation& invocation) {
  const std::string* text = invocation.value("steps");
  if (text == nullptr) return 3;
  std::int64_t steps = 0;
  const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), steps);
  if (fault != std::errc() || end != text->data() + text->size() || steps < 1 || steps > 1000)
    return std::nullopt;
  return steps;
}

bool is_rank(const std::string& word) {
  return word == "last" || word == "all" ||
         (!word.empty() && word.size() < 8 &&
          std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; }));
}

// "0,7"; nothing where a word is none.
std::optional<std::string> ranks_said(const Invocation& invocation) {
  const auto found = invocation.flags.find("rank");
  if (found == invocation.flags.end()) return "0";
  std::string joined;
  for (const std::string& value : found->second) {
    std::size_t from = 0;
    for (;;) {
      const std::size_t comma = value.find(',', from);
      const std::string word =
          value.substr(from, comma == std::string::npos ? comma : comma - from);
      if (!is_rank(word)) return std::nullopt;
      joined += (joined.empty() ? "" : ",") + word;
      if (comma == std::string::npos) break;
      from = comma + 1;
    }
  }
  return joined;
}

struct Seen {
  std::vector<Rehearsal> ranks;
  std::vector<std::string> texts;  // as observed, in the same order
};

// Of each rank the last that was seen: a script may start helpers that use the device, too.
tl::expected<Seen, Diagnostics> read_seen(const PaperRunEnd& end) {
  std::map<std::int64_t, std::pair<Rehearsal, std::string>> by_rank;
  for (const std::string& text : end.observations) {
    const auto document = read_json(text, "the observation");
    if (!document) return tl::unexpected(document.error());
    auto rehearsal = read_rehearsal(*document);
    if (!rehearsal) return tl::unexpected(Diagnostics{rehearsal.error()});
    auto& here = by_rank[rehearsal->rank];
    if (here.second.empty() || rehearsal->phases.size() >= here.first.phases.size())
      here = {std::move(*rehearsal), text};
  }
  Seen seen;
  for (auto& [rank, both] : by_rank) {
    seen.ranks.push_back(std::move(both.first));
    seen.texts.push_back(std::move(both.second));
  }
  return seen;
}

bool ran_out_of_memory(const Seen& seen) {
  return std::any_of(seen.ranks.begin(), seen.ranks.end(),
                     [](const Rehearsal& rank) { return rank.error && rank.error->out_of_memory; });
}

// The rank whose script ended by its own fault; its traceback has been shown by Python itself.
const Rehearsal* failed_rank(const Seen& seen) {
  for (const Rehearsal& rank : seen.ranks)
    if (rank.failed_by_itself()) return &rank;
  return nullptr;
}

int refuse_failed(const Invocation& invocation, const Rehearsal& failed) {
  const RehearsedError& error = *failed.error;
  std::string help = "the script ended by itself: its traceback stands above";
  if (!failed.missing.empty()) help = failed.missing.front();
  if (!failed.unanswered.empty())
    help = fmt::format(
        "the device on paper had no answer to {}: that may be the cause, and is steelyard's to "
        "mend",
        failed.unanswered.front().first);
  const std::size_t line = error.text.find('\n');
  return refuse_rehearsal(invocation,
                          fmt::format("the script failed at {}: {}: {}", error.line, error.type,
                                      error.text.substr(0, line)),
                          std::move(help));
}

int refuse_unseen(const Invocation& invocation, const PaperRunEnd& end) {
  if (!end.problem.empty()) return refuse_rehearsal(invocation, end.problem);
  if (end.status != 0)
    return refuse_rehearsal(
        invocation,
        fmt::format("the command ended with status {} before it used the device", end.status),
        "what it said stands above: it is not steelyard's");
  return refuse_rehearsal(
      invocation, "the command never used a CUDA device of PyTorch",
      "it is started as it stands behind --: python train.py, torchrun ..., bash launch.sh");
}

// The record of the rank of the peak, with the run that it was held against.
int write_record(const Invocation& invocation, const Seen& seen, const Rehearsed& answer,
                 const AgainstRun* against) {
  const std::string* file = invocation.value("record");
  if (file == nullptr) return kDone;
  auto record = nlohmann::ordered_json::parse(seen.texts[peak_rank_index(answer.prediction)]);
  if (against != nullptr) record["run"] = json_of(against->document);
  const std::string text = document_text(record);
  if (*file == "-") {
    answer_file(text);
    return kDone;
  }
  if (const auto problem = write_file(*file, text))
    return refuse(invocation, {*problem}, "not written");
  return kDone;
}

// Weighed and rehearsed, pile by pile.
std::string against_text(const AgainstRun& run, const Rehearsed& answer, const Style& style) {
  return "\n" + comparison_text({"weighed", *run.weighed.job, *run.weighed.prediction},
                                {"rehearsed", *run.weighed.job, answer.prediction}, {}, style);
}

nlohmann::ordered_json against_json(const AgainstRun& run, const Rehearsed& answer) {
  return json_of(Compared{"weighed", *run.weighed.job, *run.weighed.prediction},
                 Compared{"rehearsed", *run.weighed.job, answer.prediction}, {});
}

int print_rehearsal(const Invocation& invocation, const RehearsalReport& report,
                    const AgainstRun* against) {
  const Rehearsed& answer_of = report.answer;
  if (invocation.json) {
    auto json = json_of(report);
    if (against != nullptr) json["against"] = against_json(*against, answer_of);
    answer(document_text(json));
  } else if (invocation.has("quiet")) {
    Style unbroken = invocation.style;
    unbroken.width = 400;
    answer(verdict_line(answer_of.prediction, unbroken));
  } else {
    std::string text = rehearsal_text(report, invocation.style);
    if (against != nullptr) text += against_text(*against, answer_of, invocation.style);
    answer(invocation.style.ascii ? plain_characters(text) : text);
  }
  return answer_of.prediction.verdict == Verdict::kDoesNotFit ? kFinding : kDone;
}

tl::expected<PaperRun, Diagnostic> run_said(const Invocation& invocation, const Cluster& cluster) {
  PaperRun run;
  run.command = *invocation.behind;
  run.device = cluster.device->name;
  run.devices = std::min(cluster.devices.value(), cluster.devices_per_node.value());
  run.outside = number(rehearsed_runtime(cluster).expected);
  const auto steps = steps_said(invocation);
  if (!steps)
    return tl::unexpected(command_line_problem("E005", "--steps is a number from 1 to 1000"));
  run.steps = *steps;
  const auto ranks = ranks_said(invocation);
  if (!ranks)
    return tl::unexpected(command_line_problem("E005", "--rank is not understood",
                                               "--rank 0, --rank 0,7, --rank last or --rank all"));
  run.ranks = *ranks;
  if (const std::string* weights = invocation.value("weights")) run.weights = *weights;
  if (const std::string* data = invocation.value("data")) {
    if (!data->starts_with("random:") || !is_rank(data->substr(7)) ||
        data->substr(7).find_first_not_of("0123456789") != std::string::npos)
      return tl::unexpected(command_line_problem("E005",
                                                 fmt::format("--data {} is not understood", *data),
                                                 "--data random:2048: samples of 2048 tokens"));
    run.data = data->substr(7);
  }
  if (const std::string* snapshot = invocation.value("snapshot")) run.snapshot = *snapshot;
  run.quiet = invocation.has("quiet");
  return run;
}

}  // namespace

int rehearse_command(const Invocation& invocation) {
  if (!invocation.behind || invocation.behind->empty())
    return refuse_words(
        invocation,
        "rehearse what: the command stands behind --, as in steelyard rehearse -- python train.py");
  if (!invocation.words.empty())
    return refuse_words(invocation,
                        fmt::format("\"{}\" stands before --: the whole command stands behind it",
                                    invocation.words[0]));
#if defined(__APPLE__)
  return refuse_rehearsal(
      invocation, "macOS has no CUDA build of PyTorch: rehearse on Linux, no GPU is needed there");
#endif
  if (paper_files()->name == nullptr)
    return refuse_rehearsal(invocation, "this steelyard was built without the device on paper");
  const auto cluster = cluster_said(invocation);
  if (!cluster) return refuse(invocation, cluster.error(), "nothing rehearsed");
  if (cluster->device->is_amd() || cluster->device->is_a_size())
    return refuse_rehearsal(
        invocation,
        fmt::format("{} cannot be on paper: rehearse has NVIDIA's devices, by name",
                    cluster->device->name),
        "steelyard list devices");
  std::optional<AgainstRun> against;
  if (const std::string* word = invocation.value("against")) {
    auto run = weigh_against(invocation, *word);
    if (!run) return refuse(invocation, run.error(), "nothing rehearsed");
    against.emplace(std::move(*run));
  }
  auto run = run_said(invocation, *cluster);
  if (!run) return refuse(invocation, {run.error()}, "nothing rehearsed");

  const PaperRunEnd end = start_on_paper(*run);
  if (end.interrupted) return kInterrupted;
  auto seen = read_seen(end);
  if (!seen) return refuse(invocation, seen.error(), "nothing rehearsed");
  if (seen->ranks.empty()) return refuse_unseen(invocation, end);
  if (const Rehearsal* failed = failed_rank(*seen)) return refuse_failed(invocation, *failed);

  bool without_an_end = false;
  if (ran_out_of_memory(*seen)) {
    remark("out of memory: once more on a device without an end, to see what it needs\n");
    PaperRun larger = *run;
    larger.bytes = kWithoutAnEnd;
    larger.quiet = true;
    larger.snapshot.clear();
    auto more = read_seen(start_on_paper(larger));
    if (more && more->ranks.size() == seen->ranks.size() && failed_rank(*more) == nullptr &&
        !ran_out_of_memory(*more)) {
      for (std::size_t i = 0; i < more->ranks.size(); ++i) {
        more->ranks[i].failure = seen->ranks[i].failure;
        more->ranks[i].error = seen->ranks[i].error;
      }
      *seen = std::move(*more);
      without_an_end = true;
    }
  }
  Cluster whole = *cluster;
  whole.devices = Ranks(std::max(whole.devices.value(), seen->ranks.front().ranks));
  const Rehearsed answer = rehearsed_answer(seen->ranks, whole);
  if (answer.prediction.ranks.empty() || answer.prediction.peak.allocated == Bytes(0))
    return refuse_rehearsal(invocation,
                            "the command used the device, and no module of PyTorch ran on it");
  if (const int status = write_record(invocation, *seen, answer, against ? &*against : nullptr);
      status != kDone)
    return status;
  if (invocation.value("record") != nullptr && *invocation.value("record") == "-") return kDone;
  return print_rehearsal(
      invocation,
      {seen->ranks, answer, *invocation.behind, without_an_end, invocation.has("verbose")},
      against ? &*against : nullptr);
}

}  // namespace steelyard
