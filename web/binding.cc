// What the page may call: text in, text out. Each returned pointer stays valid until the next call.

#include <emscripten/emscripten.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <string>

#include "data/version.h"
#include "document/read.h"
#include "job/read.h"
#include "job/said_value.h"
#include "predict/suggest.h"
#include "report/prediction_json.h"

namespace {

using namespace steelyard;

const char* kept(std::string text) {
  static std::string answer;
  answer = std::move(text);
  return answer.c_str();
}

Diagnostics internal_fault(const char* what) {
  Diagnostic problem;
  problem.code = "E070";
  problem.message = std::string("internal error: ") + what;
  return {problem};
}

// A run file (TOML or JSON) in, steelyard.prediction/1 or steelyard.error/1 out. The page has no
// files: models are presets, sizes, or tables inside the run file.
std::string weigh(const char* run_file) {
  try {
    const auto document = read_document(run_file, "run");
    if (!document) return document_text(json_of(document.error()));
    const auto job = read_job(*document);
    if (!job) return document_text(json_of(job.error()));
    const Prediction prediction = predict(*job);
    const auto rewritten = [&](const RunEdits& edits) -> std::optional<Job> {
      Value changed = *document;
      for (const Suggestion::Edit& edit : edits) say(changed, edit.key, edit.to, Place{});
      auto read = read_job(changed);
      if (!read) return std::nullopt;
      return std::move(*read);
    };
    return document_text(json_of(*job, prediction, suggest(*job, prediction, rewritten), false));
  } catch (const std::exception& fault) {
    return document_text(json_of(internal_fault(fault.what())));
  }
}

}  // namespace

extern "C" {

EMSCRIPTEN_KEEPALIVE const char* steelyard_version() {
  return kept(std::string(steelyard::version()));
}

EMSCRIPTEN_KEEPALIVE const char* steelyard_weigh(const char* run_file) {
  return kept(weigh(run_file));
}

}  // extern "C"
