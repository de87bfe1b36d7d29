#include "report/plan_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "report/json_values.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<PlanRow>& rows) {
  Json list = Json::array();
  for (const PlanRow& row : rows) list.push_back(json_of(row));
  return list;
}

Json json_of(const FirstQuestion& first) {
  Json moves = Json::array();
  for (const FirstQuestion::Move& move : first.moves)
    moves.push_back(
        {{"move", move.words}, {"device_bytes", number(move.need)}, {"fits", move.fits}});
  return {{"device_bytes", number(first.need)},
          {"activations_bytes", number(first.activations)},
          {"optimizer_bytes", number(first.optimizer)},
          {"parameters_bytes", number(first.replicated)},
          {"moves", std::move(moves)}};
}

Json json_of(const SearchCounts& counts) {
  return {{"layouts", counts.layouts},
          {"not_allowed", counts.not_allowed},
          {"certainly_too_large", counts.certainly_too_large},
          {"cannot_be_faster", counts.cannot_be_faster},
          {"not_asked", counts.not_asked},
          {"weighed", counts.weighed()},
          {"fits", counts.fits},
          {"tight", counts.tight},
          {"too_large", counts.too_large}};
}

Json rejected_json(const PlanAnswer& answer) {
  Json rejected = Json::array();
  for (const TooLarge& group : answer.result.too_large) {
    const Layout& layout = answer.space.layout(group.nearest);
    Json entry = {{"binds", group.certain ? "states_and_activations"
                            : group.host  ? "host"
                                          : std::string(name_of(group.binds))},
                  {"layouts", group.layouts},
                  {"least_excess_bytes", group.least_excess},
                  {"nearest", words_of(layout, " ")}};
    if (const WeighedLayout* fit = nearest_fit(answer.result, answer.space, layout))
      entry["smallest_change"] = words_of_change(layout, layout_of(answer.space, *fit));
    rejected.push_back(std::move(entry));
  }
  return rejected;
}

}  // namespace

Json json_of(const PlanRow& row) {
  const Layout& layout = row.layout;
  Json json = {{"engine", name_of(layout.engine)},
               {"implementation", name_of(layout.implementation)},
               {"devices", layout.devices()},
               {"tensor", layout.tensor},
               {"sequence_parallel", layout.sequence_parallel},
               {"context", layout.context},
               {"pipeline", layout.pipeline},
               {"virtual_pipeline", layout.chunks},
               {"schedule", name_of(layout.schedule)},
               {"expert", layout.expert},
               {"expert_tensor", layout.expert_tensor},
               {"data", layout.data},
               {"replicate", layout.replicate},
               {"zero_stage", layout.zero_stage},
               {"micro_batch", layout.micro_batch},
               {"gradient_accumulation", layout.accumulation},
               {"recompute", recompute_words(layout)},
               {"loss", name_of(layout.loss)},
               {"complexity", complexity_of(layout)}};
  if (!row.recipe.empty()) json["recipe"] = row.recipe;
  Json terms = Json::object();
  for (std::size_t i = 0; i < kTimeTerms; ++i)
    terms[std::string(name_of(static_cast<TimeTerm>(i)))] = row.time.terms.seconds[i];
  return {{"layout", std::move(json)},
          {"verdict", name_of(row.prediction.verdict)},
          {"device_bytes", number(row.prediction.peak.device)},
          {"low_bytes", number(row.prediction.peak.low)},
          {"high_bytes", number(row.prediction.peak.high)},
          {"host_bytes_of_node", number(row.prediction.host_of_node)},
          {"headroom_bytes", number(row.prediction.usable) - number(row.prediction.peak.device)},
          {"peak_stage", row.prediction.peak.pipeline},
          {"step_seconds", row.time.step.value()},
          {"low_seconds", row.time.low.value()},
          {"high_seconds", row.time.high.value()},
          {"tokens_per_second_per_device", row.time.tokens_per_second_per_device},
          {"model_flops_utilization", row.time.model_flops_utilization},
          {"terms", std::move(terms)},
          {"run", json_of(row.run)}};
}

namespace {

// Each stack with its fastest, and the run file that says it; or why there is none.
Json stacks_json(const PlanQuestion& question, const PlanAnswer& answer) {
  Json list = Json::array();
  const auto add = [&](const Stack* stack, const PlanRow* row, const std::string& reason) {
    Json entry = {{"stack", stack->name}, {"title", stack->title}};
    if (row == nullptr) {
      entry["reason"] = reason;
    } else {
      entry["precision"] = row->job.training.precision.name;
      for (const SearchedStack& searched : question.target.stacks)
        if (stack->runs(searched.engine, searched.implementation) && !searched.target.empty())
          entry["export"] = searched.target;
      // The run stands once, beside the layout.
      entry["layout"] = json_of(*row);
      entry["run"] = std::move(entry["layout"]["run"]);
      entry["layout"].erase("run");
    }
    list.push_back(std::move(entry));
  };
  for (const StackAnswer& one : answer.stacks)
    add(one.stack, one.row ? &*one.row : nullptr, one.reason);
  if (answer.stacks.empty() && !answer.rows.empty()) {
    const Layout& layout = answer.rows.front().layout;
    if (const Stack* stack = stack_of(layout.engine, layout.implementation, layout.zero_stage))
      add(stack, &answer.rows.front(), "");
  }
  for (const LeftOutStack& one : question.stacks.left_out)
    list.push_back({{"title", one.title}, {"reason", one.reason}});
  return list;
}

}  // namespace

Json json_of(const PlanQuestion& question, const PlanAnswer& answer) {
  Json json = {{"schema", "steelyard.plan/1"},
               {"verdict", !answer.rows.empty()        ? "fits"
                           : !answer.tight.empty()     ? "tight"
                           : answer.result.interrupted ? "not_finished"
                                                       : "nothing_fits"},
               {"devices", question.target.devices},
               {"device", question.target.device->name},
               {"global_batch", question.target.global_batch},
               {"sequence_length", question.target.sequence_length}};
  json["layouts"] = json_of(answer.rows);
  json["stacks"] = stacks_json(question, answer);
  if (answer.steadiness)
    json["steadiness"] = {{"fastest_step_seconds", answer.steadiness->fastest.value()},
                          {"on", answer.steadiness->there.machine->name},
                          {"step_seconds_there", answer.steadiness->there.step.value()},
                          {"fastest_step_seconds_there", answer.steadiness->fastest_there.value()}};
  if (!answer.front.empty()) json["front"] = json_of(answer.front);
  if (answer.simplest) json["simplest"] = json_of(*answer.simplest);
  json["tight"] = json_of(answer.tight);
  if (answer.rule_of_thumb) json["rule_of_thumb"] = json_of(answer.rule_of_thumb->row);
  if (answer.first_question) json["first_question"] = json_of(*answer.first_question);
  Json sensitivity = Json::array();
  for (const Sensitivity& what : answer.sensitivity)
    sensitivity.push_back(
        {{"change", what.change}, {"step_seconds", what.step}, {"gain", what.gain}});
  json["sensitivity"] = std::move(sensitivity);
  Json ways = Json::array();
  for (const WayOut& way : answer.ways_out) {
    Json entry = {{"change", way.change}, {"costs", way.cost}};
    if (way.row) entry["layout"] = json_of(*way.row);
    ways.push_back(std::move(entry));
  }
  json["ways_out"] = std::move(ways);
  json["counts"] = json_of(answer.result.counts);
  json["rejected"] = rejected_json(answer);
  Json refused = Json::array();
  for (const Refusal& refusal : answer.result.refusals)
    refused.push_back(
        {{"code", refusal.code}, {"layouts", refusal.layouts}, {"for_example", refusal.words}});
  json["not_allowed"] = std::move(refused);
  json["notes"] = answer.notes;
  json["assumptions"] = json_of(question.assumptions);
  json["interrupted"] = answer.result.interrupted;
  return json;
}

}  // namespace steelyard
