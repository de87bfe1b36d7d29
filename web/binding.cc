// What the page may call: text in, text out. Each returned pointer stays valid until the next call.

#include <emscripten/emscripten.h>

#include <string>

#include "data/version.h"

namespace {

const char* kept(std::string text) {
  static std::string answer;
  answer = std::move(text);
  return answer.c_str();
}

}  // namespace

extern "C" {

EMSCRIPTEN_KEEPALIVE const char* steelyard_version() {
  return kept(std::string(steelyard::version()));
}

}  // extern "C"
