// What the page may call: text in, text out, the functions of include/steelyard/steelyard.h by their names.
//
//   steelyard_call("weigh", '{"run": "llama-3.1-8b", "on": "8xh100-sxm-80gb"}')
//   {"status": 0, "document": {"schema": "steelyard.prediction/1", ...}, "remarks": "", "files": []}
//
// Where the request asks for "format": "text", "html" or "svg", "text" stands in place of "document". Each returned pointer
// stays valid until the next call.
//
// Files that are no text (a snapshot is a pickle) are held beside the requests, which then name them:
//
//   steelyard_room("snapshot.pickle", size)     where its bytes are to be written; 0: no memory. Calls that follow may name it
//   steelyard_release()                         forgets all of them
//
// Progress of a search is told to Module.onProgress(done, all, best seconds), where the page set it.

#include <emscripten/emscripten.h>
#include <steelyard/steelyard.h>

#include <exception>
#include <string>

namespace {

const char* kept(std::string text) {
  static std::string answer;
  answer = std::move(text);
  return answer.c_str();
}

steelyard::Surrounding& around() {
  static steelyard::Surrounding here;
  return here;
}

}  // namespace

// clang-format off
EM_JS(void, tell_progress, (double done, double all, double best), {
  if (Module["onProgress"]) Module["onProgress"](done, all, best);
});
// clang-format on

extern "C" {

EMSCRIPTEN_KEEPALIVE const char* steelyard_version() { return kept(steelyard::version_text()); }

EMSCRIPTEN_KEEPALIVE const char* steelyard_call(const char* verb, const char* request) {
  if (!around().progress)
    around().progress = [](long long done, long long all, double best) {
      tell_progress(static_cast<double>(done), static_cast<double>(all), best);
      return true;
    };
  return kept(steelyard::reply_json(steelyard::call(verb, request, around())));
}

EMSCRIPTEN_KEEPALIVE char* steelyard_room(const char* name, std::size_t size) {
  try {
    around().files.push_back({name, std::string(size, '\0')});
    return around().files.back().text.data();
  } catch (const std::exception&) {
    return nullptr;
  }
}

EMSCRIPTEN_KEEPALIVE void steelyard_release() { around().files.clear(); }

}  // extern "C"
