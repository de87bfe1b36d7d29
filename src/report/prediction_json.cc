#include "report/prediction_json.h"

#include <nlohmann/json.hpp>

#include "predict/step_band.h"
#include "report/json_values.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

// The first rank of its kind: in groups of several ranks it stands first.
Json coordinates_of(const Parallel& parallel, std::int64_t pipeline) {
  Json coordinates = {{"pipeline", pipeline}};
  if (parallel.context > 1) coordinates["context"] = 0;
  if (parallel.expert > 1) coordinates["expert"] = 0;
  return coordinates;
}

Json json_of(const PhasePrediction& phase) {
  Json piles = Json::object();
  for (int i = 0; i < kPileCount; ++i) {
    const auto pile = static_cast<Pile>(i);
    piles[std::string(name_of(pile))] = number(phase.piles[pile]);
  }
  piles["slack"] = number(phase.slack);
  piles["runtime"] = number(phase.runtime);
  return {{"phase", name_of(phase.phase)},
          {"allocated_bytes", number(phase.allocated)},
          {"reserved_bytes", number(phase.reserved)},
          {"piles", std::move(piles)}};
}

Json json_of(const Parallel& parallel, const RankPrediction& rank, bool brief) {
  Json result = {{"rank", rank.rank},
                 {"coordinates", coordinates_of(parallel, rank.pipeline)},
                 {"replicas", rank.replicas},
                 {"phase", name_of(rank.phase)},
                 {"allocated_bytes", number(rank.allocated)},
                 {"reserved_bytes", number(rank.reserved)},
                 {"device_bytes", number(rank.device)},
                 {"resident_bytes", number(rank.resident)}};
  if (brief && rank.estimated) result["estimated"] = true;
  if (brief) return result;
  Json phases = Json::array();
  for (const PhasePrediction& phase : rank.phases) phases.push_back(json_of(phase));
  result["phases"] = std::move(phases);
  const FirstStep& first = rank.first_step;
  Json first_phases = Json::array();
  for (const PhasePrediction& phase : first.phases) first_phases.push_back(json_of(phase));
  result["first_step"] = {{"phase", name_of(first.phase)},
                          {"allocated_bytes", number(first.allocated)},
                          {"reserved_bytes", number(first.reserved)},
                          {"device_bytes", number(first.device)},
                          {"phases", std::move(first_phases)}};
  return result;
}

Json json_of(const Suggestion& suggestion) {
  Json change = Json::object();
  for (const Suggestion::Edit& edit : suggestion.edits) change[edit.key] = edit.to;
  // Null where no times are known of the device: a cost that nobody computed is not zero.
  return {{"change", std::move(change)},
          {"says", suggestion.change},
          {"saves_bytes", number(suggestion.saves)},
          {"peak_device_bytes", number(suggestion.peak)},
          {"costs_seconds", suggestion.costs ? Json(suggestion.costs->value()) : Json(nullptr)},
          {"moves_cost_to", suggestion.moves_cost_to},
          {"cost", suggestion.cost},
          {"verdict", name_of(suggestion.verdict)}};
}

Json json_of(const StepTime& time) {
  Json terms = Json::object();
  Json hidden = Json::object();
  for (std::size_t i = 0; i < kTimeTerms; ++i) {
    const auto term = static_cast<TimeTerm>(i);
    terms[std::string(name_of(term))] = time.terms[term];
    if (time.hidden[term] > 0) hidden[std::string(name_of(term))] = time.hidden[term];
  }
  return {{"step_seconds", time.step.value()},
          {"low_seconds", time.low.value()},
          {"high_seconds", time.high.value()},
          {"tokens_per_second_per_device", time.tokens_per_second_per_device},
          {"model_flops_utilization", time.model_flops_utilization},
          {"hardware_flops_utilization", time.hardware_flops_utilization},
          {"terms", std::move(terms)},
          {"hidden", std::move(hidden)}};
}

Json json_of(const Diagnostic& problem) {
  Json result = {{"severity", problem.severity == Severity::kError ? "error" : "warning"},
                 {"code", problem.code},
                 {"message", problem.message}};
  if (!problem.place.source.empty()) result["source"] = problem.place.source;
  if (problem.place.line > 0) result["line"] = problem.place.line;
  if (problem.place.column > 0) result["column"] = problem.place.column;
  if (!problem.label.empty()) result["label"] = problem.label;
  if (!problem.help.empty()) result["help"] = problem.help;
  return result;
}

}  // namespace

Json json_of(const Job& job, const Prediction& prediction,
             const std::vector<Suggestion>& suggestions, bool brief) {
  const PeakPrediction& peak = prediction.peak;
  Json result = {{"schema", "steelyard.prediction/1"}, {"verdict", name_of(prediction.verdict)}};
  // Of what is reserved: the allocator was not played.
  if (prediction.estimated) result["estimated"] = true;
  result["device"] = {{"name", job.cluster.device ? job.cluster.device->name : ""},
                      {"capacity_bytes", number(prediction.capacity)},
                      {"usable_bytes", number(prediction.usable)}};
  result["parameters"] = {{"total", prediction.parameters.total},
                          {"active", prediction.parameters.active},
                          {"trainable", prediction.trainable}};
  result["peak"] = {{"rank", peak.rank},
                    {"coordinates", coordinates_of(job.parallel, peak.pipeline)},
                    {"phase", name_of(peak.phase)},
                    {"allocated_bytes", number(peak.allocated)},
                    {"reserved_bytes", number(peak.reserved)},
                    {"device_bytes", number(peak.device)},
                    {"low_bytes", number(peak.low)},
                    {"high_bytes", number(peak.high)}};
  Json ranks = Json::array();
  for (const RankPrediction& rank : prediction.ranks)
    ranks.push_back(json_of(job.parallel, rank, brief));
  result["ranks"] = std::move(ranks);
  if (prediction.time) {
    result["time"] = json_of(*prediction.time);
    const StepBand band = step_band(job);
    result["time"]["band"] = {{"backed", band.backed}, {"says", band.says}};
    if (const Machine* machine = job.cluster.machine.get())
      result["time"]["machine"] = {{"name", machine->name},
                                   {"assumed", !job.cluster.machine_said},
                                   {"network_bytes_per_second", machine->network().value()}};
  }
  // Weighed, and the run stops before its first step is done: a warning says why.
  if (job.dies_at_start) result["dies_at_start"] = true;
  if (brief) return result;

  result["host_bytes"] = number(prediction.host);
  result["host_pinned_bytes"] = number(prediction.pinned);
  result["host_bytes_of_node"] = number(prediction.host_of_node);
  result["host_verdict"] = name_of(prediction.host_verdict);
  result["nvme_bytes"] = number(prediction.nvme);
  Json holdings = Json::array();
  for (const HostHolding& holding : prediction.holdings)
    holdings.push_back({{"name", holding.name},
                        {"place", name_of(holding.place)},
                        {"bytes", number(holding.bytes)},
                        {"rule", holding.rule}});
  result["beside_the_device"] = std::move(holdings);
  result["weights_alone_bytes"] = number(prediction.weights_alone);
  Json suggested = Json::array();
  for (const Suggestion& suggestion : suggestions) suggested.push_back(json_of(suggestion));
  result["suggestions"] = std::move(suggested);
  result["assumptions"] = json_of(prediction.assumptions);
  result["warnings"] = prediction.warnings;
  return result;
}

Json estimate_json_of(const Job& job, Prediction prediction) {
  prediction.estimated = true;
  Json result = json_of(job, prediction, {}, true);
  result["schema"] = "steelyard.estimate/1";
  for (std::size_t i = 0; i < prediction.ranks.size(); ++i)
    if (prediction.ranks[i].rank == prediction.peak.rank)
      result["ranks"][i] = json_of(job.parallel, prediction.ranks[i], false);
  result["host_bytes"] = number(prediction.host);
  result["host_bytes_of_node"] = number(prediction.host_of_node);
  result["host_verdict"] = name_of(prediction.host_verdict);
  result["assumptions"] = json_of(prediction.assumptions);
  result["warnings"] = prediction.warnings;
  return result;
}

Json json_of(const std::vector<Assumption>& assumptions) {
  Json list = Json::array();
  for (const Assumption& assumption : assumptions)
    list.push_back(
        {{"key", assumption.key}, {"value", assumption.value}, {"reason", assumption.reason}});
  return list;
}

Json json_of(const Diagnostics& problems) {
  Json listed = Json::array();
  std::int64_t more = 0;
  for (const Diagnostic& problem : problems) {
    more += problem.more;
    if (problem.more == 0) listed.push_back(json_of(problem));
  }
  Json document = {{"schema", "steelyard.error/1"},
                   {"error", problems.empty() ? std::string("unknown") : problems.front().message},
                   {"problems", std::move(listed)}};
  if (more > 0) document["more"] = more;
  return document;
}

std::string document_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string line_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace steelyard
