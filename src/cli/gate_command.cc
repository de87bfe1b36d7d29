#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/rewritten.h"
#include "cli/run_input.h"
#include "cli/slurm_plugin.h"
#include "document/read.h"
#include "predict/host_room.h"
#include "report/json_values.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 4> kOfPartition = {"device", "devices_per_node", "machine",
                                                          "network"};

// gate.toml:
//   refuse = "does-not-fit"          # "tight": refuse what may not fit, too; "never": only say
//   headroom_gib = 2.0               # of the high end of the band, must stay free
//   [partition.h100]
//   device = "h100-sxm-80gb"
//   machine = "aws-p5"
struct Policy {
  std::string refuse = "does-not-fit";
  double headroom_gib = 0;
  Value partitions = Value::table();
};

tl::expected<Policy, Diagnostics> read_policy(const std::string& path) {
  const auto text = text_of_file(path);
  if (!text)
    return tl::unexpected(
        Diagnostics{command_line_problem("E100", fmt::format("cannot read {}", path))});
  const ReadValue document = read_toml(*text, path);
  if (!document) return tl::unexpected(document.error());
  Policy policy;
  Diagnostics problems;
  const auto refuse = [&](const Place& place, std::string message, std::string label) {
    problems.push_back({Severity::kError, "E605", std::move(message), place, std::move(label), {}});
  };
  for (const Value::Member& member : document->members()) {
    if (member.key == "refuse") {
      policy.refuse = word_of(member.value);
      if (policy.refuse != "does-not-fit" && policy.refuse != "tight" && policy.refuse != "never")
        refuse(member.value.place(), "refuse is not understood", "does-not-fit, tight or never");
    } else if (member.key == "headroom_gib") {
      if (member.value.is_number())
        policy.headroom_gib = member.value.as_number();
      else
        refuse(member.value.place(), "headroom_gib is not a number", "GiB that must stay free");
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
             "refuse, headroom_gib and [partition.NAME] are known");
    }
  }
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return policy;
}

std::string in_gib(Bytes bytes) {
  return fmt::format("{:.1f}", static_cast<double>(number(bytes)) / (1024.0 * 1024.0 * 1024.0));
}

// One job's answer; nothing when it is not understood, and the reason was said.
struct Answer {
  bool refused = false;
  std::string line;
  nlohmann::ordered_json document;
};

std::optional<Answer> judge(const Invocation& invocation, const std::string& word,
                            const Policy& policy) {
  const auto input = read_run(word);
  if (!input) {
    refuse(invocation, input.error(), "nothing weighed");
    return std::nullopt;
  }
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
  if (!weighed.prediction) {
    refuse(invocation, weighed.problems, "nothing weighed");
    return std::nullopt;
  }
  const Prediction& prediction = *weighed.prediction;
  const double headroom =
      static_cast<double>(number(prediction.usable) - number(prediction.peak.high)) /
      (1024.0 * 1024.0 * 1024.0);
  const bool crowded = policy.headroom_gib > 0 && headroom < policy.headroom_gib;
  Answer said;
  said.refused = policy.refuse != "never" &&
                 (prediction.verdict == Verdict::kDoesNotFit ||
                  (prediction.verdict == Verdict::kTight && policy.refuse == "tight") || crowded);
  said.line = fmt::format("{}: {}: needs {} GiB ({} to {}) on each {}, usable {}",
                          said.refused ? "refused" : "accepted", verdict_words(prediction.verdict),
                          in_gib(prediction.peak.device), in_gib(prediction.peak.low),
                          in_gib(prediction.peak.high), weighed.job->cluster.device->name,
                          in_gib(prediction.usable));
  if (const std::string lacks = host_sentence(*weighed.job, prediction.host_of_node);
      !lacks.empty())
    said.line += "; " + lacks;
  if (crowded && prediction.verdict != Verdict::kDoesNotFit)
    said.line += fmt::format("; {:.1f} must stay free", policy.headroom_gib);
  if (said.refused) {
    const auto suggestions =
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
  said.document = {{"schema", "steelyard.gate/1"},
                   {"refused", said.refused},
                   {"verdict", std::string(name_of(prediction.verdict))},
                   {"device_bytes", number(prediction.peak.device)},
                   {"low_bytes", number(prediction.peak.low)},
                   {"high_bytes", number(prediction.peak.high)},
                   {"usable_bytes", number(prediction.usable)},
                   {"line", said.line}};
  return said;
}

}  // namespace

int gate_command(const Invocation& invocation) {
  if (invocation.has("slurm-plugin")) {
    answer(slurm_plugin());
    return kDone;
  }
  if (invocation.words.empty())
    return refuse_words(invocation, "gate what: job scripts or run files");
  Policy policy;
  if (const std::string* file = invocation.value("policy")) {
    auto read = read_policy(*file);
    if (!read) return refuse(invocation, read.error(), "nothing weighed");
    policy = std::move(*read);
  }
  // Of several, as pre-commit names them, each line says whose it is.
  const bool several = invocation.words.size() > 1;
  int status = kDone;
  for (const std::string& word : invocation.words) {
    auto judged = judge(invocation, word, policy);
    if (!judged) {
      status = kBadInput;
      continue;
    }
    if (judged->refused && status == kDone) status = kFinding;
    if (several) judged->document["file"] = word;
    if (invocation.json)
      answer(several ? judged->document.dump() + "\n" : judged->document.dump(2) + "\n");
    else
      answer(several ? fmt::format("{}: {}\n", word, judged->line) : judged->line + "\n");
  }
  return status;
}

}  // namespace steelyard
