#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "cli/slurm_plugin.h"
#include "document/read.h"
#include "report/json_values.h"
#include "report/verdict_words.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

// gate.toml:
//   refuse = "does-not-fit"          # "tight": refuse what may not fit, too; "never": only say
//   headroom_gib = 2.0               # of the high end of the band, must stay free
//   [partition.h100]
//   device = "h100-sxm-80gb"
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
    } else if (member.key == "headroom_gib" && member.value.is_number()) {
      policy.headroom_gib = member.value.as_number();
    } else if (member.key == "partition" && member.value.is_table()) {
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

}  // namespace

int gate_command(const Invocation& invocation) {
  if (invocation.has("slurm-plugin")) {
    answer(slurm_plugin());
    return kDone;
  }
  if (invocation.words.size() != 1)
    return refuse_words(invocation, "gate what: one job script or run file");
  Policy policy;
  if (const std::string* file = invocation.value("policy")) {
    auto read = read_policy(*file);
    if (!read) return refuse(invocation, read.error(), "nothing weighed");
    policy = std::move(*read);
  }
  const auto input = read_run(invocation.words.front());
  if (!input) return refuse(invocation, input.error(), "nothing weighed");
  Value document = input->document;
  // What the cluster knows and the script does not: a partition's devices.
  if (const Value* partition = document.at("launch.partition"))
    if (const Value* known = policy.partitions.find(word_of(*partition));
        known != nullptr && known->is_table())
      for (const char* key : {"device", "devices_per_node"})
        if (const Value* value = known->find(key);
            value != nullptr && (std::string_view(key) == "device" ||
                                 document.at("cluster.devices_per_node") == nullptr))
          set_path(document, fmt::format("cluster.{}", key), *value, value->place());
  lay_over(document, edits_of(invocation.keys));
  const Weighed weighed = weigh_document(document, input->folder);
  if (!weighed.prediction) return refuse(invocation, weighed.problems, "nothing weighed");
  const Prediction& prediction = *weighed.prediction;
  const double headroom =
      static_cast<double>(number(prediction.usable) - number(prediction.peak.high)) /
      (1024.0 * 1024.0 * 1024.0);
  const bool crowded = policy.headroom_gib > 0 && headroom < policy.headroom_gib;
  const bool refused =
      policy.refuse != "never" &&
      (prediction.verdict == Verdict::kDoesNotFit ||
       (prediction.verdict == Verdict::kTight && policy.refuse == "tight") || crowded);
  std::string line = fmt::format("{}: {}: needs {} GiB ({} to {}) on each {}, usable {}",
                                 refused ? "refused" : "accepted",
                                 verdict_words(prediction.verdict), in_gib(prediction.peak.device),
                                 in_gib(prediction.peak.low), in_gib(prediction.peak.high),
                                 weighed.job->cluster.device->name, in_gib(prediction.usable));
  if (crowded && prediction.verdict != Verdict::kDoesNotFit)
    line += fmt::format("; {:.1f} must stay free", policy.headroom_gib);
  if (refused) {
    const auto suggestions = suggest(*weighed.job, prediction);
    if (!suggestions.empty()) {
      std::string change;
      for (const Suggestion::Edit& edit : suggestions.front().edits)
        change += fmt::format("{}{} = {}", change.empty() ? "" : ", ", edit.key, edit.to);
      line += "; fits with " + change;
    }
  }
  if (invocation.json) {
    answer(nlohmann::ordered_json{{"schema", "steelyard.gate/1"},
                                  {"refused", refused},
                                  {"verdict", std::string(name_of(prediction.verdict))},
                                  {"device_bytes", number(prediction.peak.device)},
                                  {"low_bytes", number(prediction.peak.low)},
                                  {"high_bytes", number(prediction.peak.high)},
                                  {"usable_bytes", number(prediction.usable)},
                                  {"line", line}}
               .dump(2) +
           "\n");
  } else {
    answer(line + "\n");
  }
  return refused ? kFinding : kDone;
}

}  // namespace steelyard
