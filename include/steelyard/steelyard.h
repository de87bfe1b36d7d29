// Steelyard as a library: a question as text in, an answer as text out.
//
//   #include <steelyard/steelyard.h>
//
//   const steelyard::Reply reply = steelyard::weigh(R"({"run": "llama-3.1-8b", "on": "8xh100-sxm-80gb"})");
//   reply.status   0 fits, done · 1 does not fit, or a finding · 2 the question is not understood
//   reply.text     {"schema": "steelyard.prediction/1", "verdict": "tight", ...}       sizes are bytes, times are seconds
//
// A request is a JSON object. All keys but the first few have the names of the program's flags (steelyard weigh --help),
// with "_" or "-":
//
//   "run"      what it is about: a preset's name, a size ("7b"), the name of a file, or a run file as a table
//   "on"       "8xh100-sxm-80gb": devices and their kind
//   "set"      {"training.micro_batch": 2, ...}: keys of the run file, laid over it
//   "files"    {"run.toml": "model = ...", ...}: the texts of files that the other keys name
//   "format"   "json" (absent), "text": as the program prints it, "html" or "svg" where the program has them
//   "picture_width"  pixels that charts are wide, 240 to 4000; absent: 720
//   "words"    in place of "run": all words of the command line, for commands that take more than one
//
// A request that does not begin with "{" is itself a run file in TOML; an object with "model" and without "run" is one in JSON.
//
// Nothing is thrown, nothing is global: calls on several threads do not meet. Without a machine (native.h) no file of
// the machine is read, no thread is started and no clock is asked. Errors are steelyard.error/1 documents: a list of problems, each with
// code, message, file, line and help. Schemas of all documents: share/steelyard/schemas, docs/schemas.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#if defined(_WIN32)
#define STEELYARD_API
#else
#define STEELYARD_API __attribute__((visibility("default")))
#endif

namespace steelyard {

// A text that goes by a name, as a file would.
struct NamedText {
  std::string name, text;
};

struct Reply {
  // 0 done · 1 a finding: does not fit, differs, refused · 2 bad input · 70 a defect of the library · 130 stopped.
  int status = 0;
  // The document; with "format" the text, the page or the picture.
  std::string text;
  // Warnings and hints, as the program says them beside its answer; JSON documents hold theirs.
  std::string remarks;
  // What the program would have written to files: "write", "snapshot", "trace", "to_folder".
  std::vector<NamedText> files;
};

class LocalMachine;  // this_machine() of native.h makes one

// What a call may use beside its request. Every member may stay empty.
struct Surrounding {
  // Texts that the request names. They go before files of the machine.
  std::vector<NamedText> files = {};
  // Called now and then by plan, from one thread at a time: layouts weighed, at most so many, the best step so far in seconds
  // (0: none fits yet). False ends the search with the best so far; the status is then 130.
  std::function<bool(long long done, long long all, double best_seconds)> progress = {};
  // Files, cores and the clock of this machine; null: none of them.
  std::shared_ptr<LocalMachine> machine = {};
};

// Does a run fit, how long is its step: steelyard.prediction/1. With "jobs": many runs, a line of JSON each.
STEELYARD_API Reply weigh(std::string_view request, const Surrounding& around = {}) noexcept;
// The same without the allocator's simulation and without suggestions, in a fraction of the time: verdict, peak, piles of each
// phase of the fullest rank, terms of the step's time, and "svg": the bar. steelyard.estimate/1, which says "estimated": true.
STEELYARD_API Reply estimate(std::string_view request, const Surrounding& around = {}) noexcept;
// The fastest layouts that fit: steelyard.plan/1. "minimize", "maximize", "why", "seconds" as the flags of that name.
STEELYARD_API Reply plan(std::string_view request, const Surrounding& around = {}) noexcept;
// The same question over a range of values: "over": ["training.sequence_length=2048..65536"].
STEELYARD_API Reply sweep(std::string_view request, const Surrounding& around = {}) noexcept;
// Where a number comes from: "selection" is a pile, an entry or a phase; or "run" is a rule, an error code or a key.
STEELYARD_API Reply explain(std::string_view request, const Surrounding& around = {}) noexcept;
// Two runs, or a run and a memory snapshot: "before", "after".
STEELYARD_API Reply compare(std::string_view request, const Surrounding& around = {}) noexcept;
// What filled the memory: "evidence": names of logs, snapshots, folders; "against": a run. steelyard.diagnosis/1.
STEELYARD_API Reply diagnose(std::string_view request, const Surrounding& around = {}) noexcept;
// Whether a job should start: steelyard.gate/1.
STEELYARD_API Reply gate(std::string_view request, const Surrounding& around = {}) noexcept;
// A launch configuration as a run file, and the way back ("to": an engine).
STEELYARD_API Reply import_launch_file(std::string_view request,
                                       const Surrounding& around = {}) noexcept;
STEELYARD_API Reply export_run(std::string_view request, const Surrounding& around = {}) noexcept;
// What a run file may name: "what": models, devices, engines, ...
STEELYARD_API Reply list(std::string_view request, const Surrounding& around = {}) noexcept;

// Any of these by name: weigh, plan, ..., import, export; also calibrate and validate.
STEELYARD_API Reply call(std::string_view verb, std::string_view request,
                         const Surrounding& around = {}) noexcept;

// A reply as one JSON object, for callers that take a single text: {"status", "document" or "text", "remarks", "files"}. A
// file is {"name", "text"}; one that is no UTF-8 (a snapshot is a pickle) is {"name", "base64"} and arrives as it was.
STEELYARD_API std::string reply_json(const Reply& reply);

// "0.1.0".
STEELYARD_API std::string version_text();

}  // namespace steelyard
