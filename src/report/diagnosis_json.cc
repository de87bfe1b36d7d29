#include "report/diagnosis_json.h"

#include <nlohmann/json.hpp>

#include "diagnose/attribution_rules.h"
#include "report/fix_line.h"
#include "report/json_values.h"
#include "report/trace_shares.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

Json bytes_or_null(const std::optional<Bytes>& bytes) {
  return bytes ? Json(number(*bytes)) : Json(nullptr);
}
Json whole_or_null(const std::optional<std::int64_t>& whole) {
  return whole ? Json(*whole) : Json(nullptr);
}
Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json piles_of(const Piles& piles, const std::optional<Bytes>& slack,
              const std::optional<Bytes>& runtime) {
  Json json = Json::object();
  for (int index = 0; index < kPileCount; ++index) {
    const auto pile = static_cast<Pile>(index);
    json[std::string(name_of(pile))] = number(piles[pile]);
  }
  json["slack"] = bytes_or_null(slack);
  json["runtime"] = bytes_or_null(runtime);
  return json;
}

Json change_of(const std::vector<Suggestion::Edit>& edits, const std::string& words) {
  Json json = Json::object();
  for (const Suggestion::Edit& edit : edits) {
    const Json value = Json::parse(edit.to, nullptr, false);
    json[edit.key] = value.is_number_integer() ? value : Json(edit.to);
  }
  if (edits.empty()) json["launch"] = words;
  return json;
}

// What changes in the user's own files; `before` null: the line joins in front of this one; `after` null: it goes.
Json lines_of(const Fix& fix) {
  Json json = Json::array();
  for (const FixLine& one : fix.lines)
    json.push_back({{"file", one.file},
                    {"line", one.change.line},
                    {"before", text_or_null(one.change.before)},
                    {"after", text_or_null(one.change.after)}});
  return json;
}

Json failure_of(const Diagnosis& diagnosis) {
  const MemoryFailure& failure = diagnosis.failure;
  return {{"tried_bytes", bytes_or_null(failure.tried)},
          {"allocated_bytes", bytes_or_null(failure.allocated)},
          {"reserved_bytes", bytes_or_null(failure.reserved)},
          {"free_bytes", bytes_or_null(failure.free)},
          {"capacity_bytes", bytes_or_null(failure.capacity)},
          {"outside_bytes", bytes_or_null(diagnosis.outside)},
          {"other_processes_bytes", bytes_or_null(failure.other_processes)}};
}

// {"A2": 1048576, "A5": 4096}: the live bytes that each rule gave to a pile; A9's are the unaccounted.
Json bytes_by_rule(const Diagnosis& diagnosis) {
  if (!diagnosis.has_piles) return nullptr;
  Json json = Json::object();
  for (const AttributionRule& rule : attribution_rules())
    if (const Bytes bytes = diagnosis.by_rule[rule.number - 1U]; bytes > Bytes())
      json[std::string(rule.name)] = number(bytes);
  return json;
}

// The highest of a framework's own lines, and the least of the ranks beside it.
Json highest_of(const Diagnosis& diagnosis) {
  if (!diagnosis.highest) return nullptr;
  const HighestReading& highest = *diagnosis.highest;
  return {{"allocated_bytes", bytes_or_null(highest.allocated)},
          {"reserved_bytes", bytes_or_null(highest.reserved)},
          {"device_bytes", bytes_or_null(highest.device_used)},
          {"rank", whole_or_null(highest.rank)},
          {"step", whole_or_null(highest.step)},
          {"ranks", highest.ranks},
          {"least_rank", whole_or_null(highest.least_rank)},
          {"least_bytes", bytes_or_null(highest.least)},
          {"predicted_allocated_bytes", bytes_or_null(highest.predicted_allocated)},
          {"predicted_reserved_bytes", bytes_or_null(highest.predicted_reserved)},
          {"source", {{"file", highest.place.file}, {"at", highest.place.at}}}};
}

Json against_of(const Diagnosis& diagnosis) {
  if (!diagnosis.against) return nullptr;
  Json json;
  json["run"] = diagnosis.run;
  json["piles"] =
      piles_of(diagnosis.against->piles, diagnosis.against->slack, diagnosis.against->runtime);
  json["growth"] = Json::object();
  for (const Growth& growth : diagnosis.growth)
    json["growth"][growth.what] = number(growth.measured - growth.predicted);
  return json;
}

}  // namespace

Json json_of(const Proof& proof) {
  return {{"text", proof.text},
          {"bytes", bytes_or_null(proof.bytes)},
          {"source", {{"file", proof.source.file}, {"at", proof.source.at}}}};
}

Json json_of(const Experiment& experiment) {
  Json expect = Json::object();
  for (const auto& [cause, bytes] : experiment.expect)
    expect[std::string(facts_of(cause).name)] = number(bytes);
  return {{"change", change_of(experiment.edits, experiment.change)}, {"expect_bytes", expect}};
}

Json json_of(const Diagnosis& diagnosis) {
  Json json;
  json["schema"] = "steelyard.diagnosis/1";
  json["verdict"] = std::string(facts_of(diagnosis.verdict).name);
  json["also"] = Json::array();
  json["proof"] = Json::array();
  double certainty =
      diagnosis.findings.empty() ? 0.5 : 1 - diagnosis.findings.front().certainty / 2;
  for (const Finding& finding : diagnosis.findings)
    if (finding.cause == diagnosis.verdict)
      certainty = finding.certainty;
    else
      json["also"].push_back(std::string(facts_of(finding.cause).name));
  json["certainty"] = certainty;
  json["when"] = {
      {"rank", whole_or_null(diagnosis.rank)},   {"device", whole_or_null(diagnosis.device)},
      {"step", whole_or_null(diagnosis.step)},   {"phase", text_or_null(diagnosis.phase)},
      {"event", whole_or_null(diagnosis.event)}, {"time", text_or_null(diagnosis.time)}};
  json["failure"] = failure_of(diagnosis);
  json["piles"] = nullptr;
  if (diagnosis.has_piles) {
    json["piles"] = piles_of(diagnosis.piles, diagnosis.slack, diagnosis.runtime);
    json["piles"]["unaccounted"] = number(diagnosis.unaccounted);
  }
  json["rules"] = bytes_by_rule(diagnosis);
  json["highest"] = highest_of(diagnosis);
  json["against"] = against_of(diagnosis);
  for (const Finding& finding : diagnosis.findings)
    for (const Proof& proof : finding.proof) {
      json["proof"].push_back({{"cause", std::string(facts_of(finding.cause).name)}});
      json["proof"].back().update(json_of(proof));
    }
  json["fixes"] = Json::array();
  for (const Fix& fix : diagnosis.fixes)
    json["fixes"].push_back(
        {{"change", change_of(fix.edits, fix.change)},
         {"text", fix.change},
         {"line", fix.lines.empty() ? Json(nullptr) : Json(fix_line_text(fix.lines.front()))},
         {"lines", lines_of(fix)},
         {"saves_bytes", bytes_or_null(fix.saves)},
         {"costs_seconds", fix.costs ? Json(fix.costs->value()) : Json(nullptr)},
         {"verdict", text_or_null(fix.verdict)}});
  json["experiments"] = Json::array();
  for (const Experiment& experiment : diagnosis.experiments)
    json["experiments"].push_back(json_of(experiment));
  json["evidence"] = Json::array();
  for (const Evidence& one : diagnosis.evidence) {
    json["evidence"].push_back({{"file", one.file},
                                {"kind", one.kind},
                                {"era", text_or_null(one.era)},
                                {"complete", one.complete}});
    if (one.trace != nullptr) json["evidence"].back()["trace"] = json_of(*one.trace);
  }
  json["problems"] = Json::array();
  for (const std::string& note : diagnosis.notes) json["problems"].push_back(note);
  return json;
}

}  // namespace steelyard
