// What the page may call: text in, text out, the functions of include/steelyard/steelyard.h by their names.
//
//   steelyard_call("weigh", '{"run": "llama-3.1-8b", "on": "8xh100-sxm-80gb"}')
//   {"status": 0, "document": {"schema": "steelyard.prediction/1", ...}, "remarks": "", "files": []}
//
// Where the request asks for "format": "text", "html" or "svg", "text" stands in place of "document". Each returned pointer
// stays valid until the next call.

#include <emscripten/emscripten.h>
#include <steelyard/steelyard.h>

#include <string>

namespace {

const char* kept(std::string text) {
  static std::string answer;
  answer = std::move(text);
  return answer.c_str();
}

}  // namespace

extern "C" {

EMSCRIPTEN_KEEPALIVE const char* steelyard_version() { return kept(steelyard::version_text()); }

EMSCRIPTEN_KEEPALIVE const char* steelyard_call(const char* verb, const char* request) {
  return kept(steelyard::reply_json(steelyard::call(verb, request)));
}

}  // extern "C"
