#include "report/experiment_plan_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "document/edit_distance.h"
#include "document/read.h"
#include "report/diagnosis_json.h"
#include "report/json_values.h"
#include "report/prediction_json.h"

namespace steelyard {
namespace {

constexpr std::string_view kPlanSchema = "steelyard.experiments/1";
constexpr std::int64_t kMostBytesOfPlan = std::int64_t{1} << 50;  // of a device's peak, a pebibyte

// Reads a plan, and says all that is wrong with it.
class PlanReader {
 public:
  PlannedExperiments read(const Value& document) {
    PlannedExperiments plan;
    plan.run = text_at(document, "run", false);
    if (const Value* files = document.find("evidence"); files != nullptr && files->is_array())
      for (const Value& file : files->items())
        if (file.is_string()) plan.evidence.push_back(file.as_string());
    plan.peak = bytes_at(document, "peak_bytes", 1);
    for (const Value& cause : list_at(document, "causes")) plan.causes.push_back(finding_of(cause));
    for (const Value& run : list_at(document, "experiments"))
      plan.runs.push_back(experiment_of(run, plan));
    return plan;
  }

  Diagnostics problems;

 private:
  void say(const Value& at, std::string message, std::string expected) {
    add_problem(problems,
                {Severity::kError, "E117", std::move(message), at.place(), std::move(expected),
                 "diagnose --plan-experiment --to-folder writes one"});
  }

  const Value* member(const Value& of, std::string_view key) {
    const Value* value = of.find(key);
    if (value == nullptr) say(of, fmt::format("a plan of experiments without \"{}\"", key), "");
    return value;
  }

  std::string text_at(const Value& of, std::string_view key, bool needed = true) {
    const Value* value = needed ? member(of, key) : of.find(key);
    if (value == nullptr) return "";
    if (value->is_string()) return value->as_string();
    if (needed) say(*value, fmt::format("\"{}\" is {}", key, shown(*value)), "a text was expected");
    return "";
  }

  Bytes bytes_at(const Value& of, std::string_view key, std::int64_t least) {
    const Value* value = member(of, key);
    return value == nullptr ? Bytes() : bytes_of(*value, key, least);
  }

  Bytes bytes_of(const Value& value, std::string_view key, std::int64_t least) {
    if (value.is_integer() && value.as_integer() >= least && value.as_integer() <= kMostBytesOfPlan)
      return Bytes(value.as_integer());
    say(value, fmt::format("\"{}\" is {}", key, shown(value)), "a number of bytes was expected");
    return {};
  }

  std::vector<Value> list_at(const Value& of, std::string_view key) {
    const Value* value = member(of, key);
    if (value == nullptr) return {};
    if (value->is_array() && !value->items().empty() && value->items().size() <= 64)
      return value->items();
    say(*value, fmt::format("\"{}\" is {}", key, shown(*value)), "a list was expected");
    return {};
  }

  Cause cause_named(const Value& at, const std::string& name) {
    if (const CauseFacts* facts = find_cause(name)) return facts->cause;
    std::vector<std::string_view> names;
    for (const CauseFacts& facts : causes()) names.push_back(facts.name);
    say(at, fmt::format("\"{}\" is no cause", name),
        did_you_mean("cause", nearest_names(name, names)));
    return Cause::kHealthy;
  }

  Finding finding_of(const Value& value) {
    Finding finding;
    finding.cause = cause_named(value, text_at(value, "cause"));
    if (const Value* sure = member(value, "certainty"); sure != nullptr) {
      if (sure->is_number() && sure->as_number() >= 0 && sure->as_number() <= 1)
        finding.certainty = sure->as_number();
      else
        say(*sure, fmt::format("\"certainty\" is {}", shown(*sure)), "between 0 and 1");
    }
    const Value* proofs = value.find("proof");
    if (proofs == nullptr || !proofs->is_array()) return finding;
    for (const Value& one : proofs->items()) {
      Proof proof;
      proof.text = text_at(one, "text");
      if (const Value* bytes = one.find("bytes"); bytes != nullptr && bytes->is_integer())
        proof.bytes = bytes_of(*bytes, "bytes", 0);
      if (const Value* source = one.find("source"))
        proof.source = {text_at(*source, "file", false), text_at(*source, "at", false)};
      finding.proof.push_back(std::move(proof));
    }
    return finding;
  }

  Experiment experiment_of(const Value& value, const PlannedExperiments& plan) {
    Experiment experiment;
    experiment.change = text_at(value, "text");
    if (const Value* change = value.find("change"); change != nullptr && change->is_table())
      for (const Value::Member& edit : change->members())
        experiment.edits.push_back(
            {edit.key, "", edit.value.is_string() ? edit.value.as_string() : shown(edit.value)});
    const Value* expect = member(value, "expect_bytes");
    if (expect == nullptr) return experiment;
    if (!expect->is_table()) {
      say(*expect, fmt::format("\"expect_bytes\" is {}", shown(*expect)),
          "bytes for each cause were expected");
      return experiment;
    }
    for (const Value::Member& one : expect->members())
      experiment.expect.emplace_back(cause_named(one.value, one.key),
                                     bytes_of(one.value, one.key, -kMostBytesOfPlan));
    for (const Finding& finding : plan.causes)
      if (expect->find(facts_of(finding.cause).name) == nullptr)
        say(*expect, fmt::format("nothing is expected if it is {}", facts_of(finding.cause).name),
            "");
    return experiment;
  }
};

}  // namespace

std::string experiment_plan_text(const PlannedExperiments& plan) {
  nlohmann::ordered_json json = {{"schema", std::string(kPlanSchema)},
                                 {"run", plan.run},
                                 {"evidence", plan.evidence},
                                 {"peak_bytes", number(plan.peak)},
                                 {"causes", nlohmann::ordered_json::array()},
                                 {"experiments", nlohmann::ordered_json::array()}};
  for (const Finding& finding : plan.causes) {
    json["causes"].push_back({{"cause", std::string(facts_of(finding.cause).name)},
                              {"certainty", finding.certainty},
                              {"proof", nlohmann::ordered_json::array()}});
    for (const Proof& proof : finding.proof)
      json["causes"].back()["proof"].push_back(json_of(proof));
  }
  std::size_t folder = 0;
  for (const Experiment& run : plan.runs) {
    json["experiments"].push_back(json_of(run));
    json["experiments"].back()["text"] = run.change;
    json["experiments"].back()["folder"] = std::to_string(++folder);
  }
  return document_text(json);
}

bool is_experiment_plan(std::string_view text) {
  return text.substr(0, 200).find(kPlanSchema) != std::string_view::npos;
}

tl::expected<PlannedExperiments, Diagnostics> read_experiment_plan(std::string_view text,
                                                                   std::string_view name) {
  const ReadValue document = read_json(text, name);
  if (!document) return tl::unexpected(document.error());
  PlanReader reader;
  PlannedExperiments plan = reader.read(*document);
  if (!reader.problems.empty()) return tl::unexpected(std::move(reader.problems));
  return plan;
}

}  // namespace steelyard
