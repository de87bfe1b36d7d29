// The Python module's one door: a verb and a request as text, an answer as text. The package around it gives both a shape.
//
//   >>> from steelyard import _core
//   >>> _core.call("weigh", '{"run": "llama-3.1-8b", "on": "8xh100-sxm-80gb"}', [], None, 0)
//   (0, '{\n  "schema": "steelyard.prediction/1", ...', '', [])
//
// The interpreter is released during a call, so that threads of Python weigh side by side.

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <steelyard/native.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace {

using NamedTexts = std::vector<std::pair<std::string, nb::bytes>>;

// Texts may quote a file of any encoding: what is not UTF-8 becomes U+FFFD.
nb::object text_of(const std::string& text) {
  PyObject* made =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

nb::tuple as_tuple(const steelyard::Reply& reply) {
  nb::list files;
  for (const steelyard::NamedText& file : reply.files)
    files.append(nb::make_tuple(text_of(file.name), nb::bytes(file.text.data(), file.text.size())));
  return nb::make_tuple(reply.status, text_of(reply.text), text_of(reply.remarks), files);
}

// Asks Python between two pieces of work: Ctrl-C, and a caller who wants to see how far it is. What Python raises ends the
// search and is raised again when it has ended.
class Listener {
 public:
  explicit Listener(nb::object progress) : progress_(std::move(progress)) {}

  bool go_on(long long done, long long all, double best_seconds) {
    const nb::gil_scoped_acquire python;
    if (fault_) return false;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (progress_.is_none()) return true;
      const nb::object best = best_seconds > 0 ? nb::object(nb::float_(best_seconds)) : nb::none();
      const nb::object answer = progress_(done, all, best);
      return answer.is_none() || nb::cast<bool>(answer);
    } catch (...) {
      fault_ = std::current_exception();
      return false;
    }
  }
  void raise() const {
    if (fault_) std::rethrow_exception(fault_);
  }

 private:
  nb::object progress_;
  std::exception_ptr fault_;
};

nb::tuple call(const std::string& verb, const std::string& request, const NamedTexts& files,
               nb::object progress, unsigned threads) {
  steelyard::Surrounding around;
  around.machine = steelyard::this_machine(threads);
  for (const auto& [name, text] : files)
    around.files.push_back({name, std::string(text.c_str(), text.size())});
  Listener listener(std::move(progress));
  around.progress = [&](long long done, long long all, double best) {
    return listener.go_on(done, all, best);
  };
  steelyard::Reply reply;
  {
    const nb::gil_scoped_release free;
    reply = steelyard::call(verb, request, around);
  }
  listener.raise();
  return as_tuple(reply);
}

nb::list call_many(const std::string& verb, const std::vector<std::string>& requests,
                   unsigned threads) {
  std::vector<steelyard::Reply> replies(requests.size());
  std::exception_ptr fault;
  {
    const nb::gil_scoped_release free;
    if (threads == 0) threads = std::max(1U, std::thread::hardware_concurrency());
    std::atomic<std::size_t> next{0};
    std::atomic<bool> stop{false};
    // One machine a thread: each call works alone on its own.
    const auto work = [&](bool listens) {
      steelyard::Surrounding around;
      around.machine = steelyard::this_machine(1);
      for (std::size_t i = next++; i < requests.size() && !stop; i = next++) {
        replies[i] = steelyard::call(verb, requests[i], around);
        if (!listens) continue;
        const nb::gil_scoped_acquire python;
        if (PyErr_CheckSignals() == 0) continue;
        fault = std::make_exception_ptr(nb::python_error());
        stop = true;
      }
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < threads && i < requests.size(); ++i) others.emplace_back(work, false);
    work(true);
    for (std::thread& other : others) other.join();
  }
  if (fault) std::rethrow_exception(fault);
  nb::list answers;
  for (const steelyard::Reply& reply : replies) answers.append(as_tuple(reply));
  return answers;
}

}  // namespace

NB_MODULE(_core, module) {
  module.def(
      "call", &call, nb::arg("verb"), nb::arg("request"), nb::arg("files"),
      nb::arg("progress").none(), nb::arg("threads"),
      nb::sig(
          "def call(verb: str, request: str, files: collections.abc.Sequence[tuple[str, bytes]], "
          "progress: collections.abc.Callable[[int, int, float | None], bool | None] | None, "
          "threads: int) -> tuple[int, str, str, list[tuple[str, bytes]]]"),
      "Answers a request: status, document, remarks, files that the program would have written.");
  module.def(
      "call_many", &call_many, nb::arg("verb"), nb::arg("requests"), nb::arg("threads"),
      nb::sig("def call_many(verb: str, requests: collections.abc.Sequence[str], threads: int) -> "
              "list[tuple[int, str, str, list[tuple[str, bytes]]]]"),
      "Answers many requests on several threads (0: all cores), in their order.");
  module.def("version", &steelyard::version_text, "\"0.1.0\"");
}
