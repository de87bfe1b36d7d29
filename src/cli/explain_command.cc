#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"
#include "diagnose/attribution_rules.h"
#include "diagnose/cause.h"
#include "document/edit_distance.h"
#include "model/catalogue.h"
#include "predict/explain.h"
#include "report/derivation.h"
#include "report/device_help.h"
#include "report/diagnosis_text.h"
#include "report/environment_help.h"
#include "report/error_codes.h"
#include "report/key_help.h"
#include "report/model_states.h"
#include "report/prediction_json.h"
#include "world/world.h"

namespace steelyard {
namespace {

void print(const Invocation& invocation, const std::string& text,
           const nlohmann::ordered_json& json) {
  if (invocation.json) {
    answer(document_text(json));
  } else {
    answer(invocation.style.ascii ? plain_characters(text) : text);
  }
}

// A word that names something of ours: an error code, a rule, a device or a key. A file or a model of that name wins.
bool explain_word(const Invocation& invocation, const std::string& word) {
  if (word.empty()) return false;
  const Style& style = invocation.style;
  if (const ErrorCode* code = find_error_code(word)) {
    print(invocation, error_code_text(*code, style), json_of(*code));
    return true;
  }
  if (const CauseFacts* cause = find_cause(word)) {
    const nlohmann::ordered_json json = {
        {"cause", std::string(cause->name)},      {"title", std::string(cause->title)},
        {"what", std::string(cause->what)},       {"proof", std::string(cause->proof)},
        {"counter", std::string(cause->counter)}, {"experiment", std::string(cause->experiment)},
        {"remedy", std::string(cause->remedy)}};
    print(invocation, cause_text(*cause, style), json);
    return true;
  }
  if (const AttributionRule* rule = find_attribution_rule(word)) {
    print(invocation, attribution_rule_text(*rule, style),
          {{"rule", std::string(rule->name)},
           {"title", std::string(rule->title)},
           {"what", std::string(rule->what)},
           {"needs", std::string(rule->needs)}});
    return true;
  }
  if (const Rule* rule = find_rule(word)) {
    print(invocation, rule_text(*rule, style), json_of(*rule));
    return true;
  }
  if (const Device* device = find_device(word).device) {
    print(invocation, device_text(*device, style), json_of(*device));
    return true;
  }
  if (const Key* key = find_key_by_path(word)) {
    print(invocation, key_text(*key, style), json_of(*key));
    return true;
  }
  if (const EnvironmentKey* key = environment_key_asked(word)) {
    print(invocation, environment_key_text(*key, style), json_of(*key));
    return true;
  }
  return false;
}

// The data-parallel ranks that the teaching table shows; a number that was said stands among them.
std::vector<std::int64_t> rows_for(std::int64_t said) {
  std::vector<std::int64_t> rows = {1, 4, 8, 16, 64};
  if (said > 1) rows = {1, said};
  return rows;
}

std::int64_t count_at(const Value& document, std::string_view path, std::int64_t absent) {
  const Value* value = document.at(path);
  return value != nullptr && value->is_integer() && value->as_integer() > 0 ? value->as_integer()
                                                                            : absent;
}

// A model and no device: what its states cost, for every recipe and ZeRO stage.
int explain_states(const Invocation& invocation, const RunInput& input, const Value& document) {
  // Everything but the device is read as it would be for a weighing, so that errors are the same.
  Value asked = document;
  lay_over(asked, {edit_of(key_of(KeyId::kDevice).path, "h100-sxm-80gb", "explain")});
  const Weighed weighed = weigh_document(asked, input.folder);
  if (!weighed.job) return refuse(invocation, weighed.problems, "nothing explained");
  const Job& job = *weighed.job;
  ModelStatesQuestion question;
  question.model = input.name;
  question.parameters = count_parameters(*job.model).total;
  question.guessed = job.model->guessed;
  question.precision = &job.training.precision;
  question.optimizer = &job.training.optimizer;
  question.tensor = count_at(document, "parallel.tensor", 1);
  question.pipeline = count_at(document, "parallel.pipeline", 1);
  const std::int64_t devices = count_at(document, "cluster.devices", 1);
  question.data_ranks = rows_for(
      count_at(document, "parallel.data", devices / (question.tensor * question.pipeline)));
  print(invocation, model_states_text(question, invocation.style), json_of(question));
  return kDone;
}

// An E and three digits: a code of ours, or a slip in one.
bool is_code(std::string_view word) {
  return word.size() == 4 && word.front() == 'E' &&
         word.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

// "explain activations" asks about a run that it does not name.
bool is_pile_or_phase(std::string_view word) {
  for (int i = 0; i < kPileCount; ++i)
    if (name_of(static_cast<Pile>(i)) == word) return true;
  for (int i = 0; i < kPhaseCount; ++i)
    if (name_of(static_cast<Phase>(i)) == word) return true;
  return false;
}

}  // namespace

int explain_command(const Invocation& invocation) {
  if (invocation.words.empty())
    return refuse_words(invocation, "explain what: a run file, a rule, an error code or a key");
  if (invocation.words.size() > 2)
    return refuse_words(
        invocation,
        fmt::format("explain takes a run and one selection, not also \"{}\"", invocation.words[2]));
  const std::string& word = invocation.words.front();
  const bool exists = word == "-" || world().kind_of(word) != PathKind::kNothing;
  if (!exists && invocation.words.size() == 1 && invocation.keys.empty() &&
      explain_word(invocation, word))
    return kDone;

  if (!exists && invocation.words.size() == 1 && is_pile_or_phase(word))
    return refuse_words(invocation, fmt::format("the {} of which run", word));

  if (!exists && is_code(word))
    return refuse(invocation,
                  {command_line_problem("E003", fmt::format("no problem has the code {}", word),
                                        "steelyard list errors names them all")},
                  "");

  const auto input = read_run(word, invocation);
  if (!input) return refuse(invocation, input.error(), "nothing explained");
  Value document = input->document;
  lay_over(document, edits_of(invocation.keys));
  if (input->text.empty() && document.at("cluster.device") == nullptr &&
      invocation.words.size() == 1)
    return explain_states(invocation, *input, document);

  const auto job = job_of(document, input->folder);
  if (!job) return refuse(invocation, job.error(), "nothing explained");
  warn(invocation, warnings_of_import(*input));
  warn(invocation, job->warnings);
  const Explained explained = explain(*job, invocation.words.size() > 1 ? invocation.words[1] : "");
  if (explained.problem) return refuse(invocation, {*explained.problem}, "nothing explained");
  if (explained.derivation)
    print(invocation,
          derivation_text(*explained.derivation, invocation.style, invocation.has("all")),
          json_of(*explained.derivation));
  return kDone;
}

}  // namespace steelyard
