// What a failed or finished run left behind, whatever wrote it: one value for snapshots, logs, traces and dumps.
//
//   oom.pickle    snapshot   a failure: 1.96 GiB requested, 70.4 GiB live, and the history of every block
//   train.log     log        the same failure in words, 40 readings of a framework's memory lines, clues of the launch
//   slurm.err     slurm      a death on the host
//
// A reader (evidence_readers.h) makes one Evidence of one file; several files of one run are joined (incident.h). Absent is
// not zero: a number that the file does not say is std::nullopt. Sizes are bytes: a reader converts the units of its tool
// once. Text of others is kept as it was; whoever prints it makes it printable (document/printable.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "document/diagnostic.h"
#include "quantity/quantity.h"

namespace steelyard {

// Where a fact stands: "train.log", "line 812" · "oom.pickle", "event 2,780" · "entry ranks[3]".
struct EvidencePlace {
  std::string file;
  std::string at;  // empty: the file as a whole
};

// One allocation that failed, or one death.
struct MemoryFailure {
  enum class Kind : std::uint8_t {
    kDeviceAllocator,    // the caching allocator's own text, or an `oom` event
    kDeviceOutside,      // a driver, NCCL or library allocation beside the allocator
    kHost,               // the host's memory: DefaultCPUAllocator, cgroup, Ray, pinned memory
    kKilled,             // by a signal, from whom is not known
    kCollectiveTimeout,  // watchdog, heartbeat
    kHardware,           // ECC, Xid, a device that fell off the bus
    kOther               // an exception that is none of these
  };
  Kind kind = Kind::kOther;
  std::optional<std::int64_t> rank, device, step;
  std::string time;               // as written; empty: none
  std::optional<double> seconds;  // the same on a clock that orders failures of one file
  std::string
      phase;  // if the text says it: forward, backward, optimizer, load, checkpoint, evaluation
  std::string era;      // of the text's form: "2.2-2.8"
  std::string backend;  // "cuda", "hip", "xpu", "mps", "npu", "cpu"
  // Of the text. `tried` is the size of the new segment there; of an `oom` event the rounded request.
  std::optional<Bytes> tried, allocated, reserved, unallocated, free, capacity;
  std::optional<Bytes> allowed;  // by a memory fraction
  std::optional<Bytes> private_pools, own_process, other_processes;
  std::vector<std::string> frames;  // innermost first: "train.py:88 training_step"
  std::string message;              // the sentence that says it
  bool fatal = true;                // a warning, or one that the program caught and retried, is not
  bool consequence = false;  // of an earlier failure: SIGTERM, closing signals, a watchdog after it
  EvidencePlace place;
};

// One line of a framework, one memory_stats, one row of nvidia-smi: what was in use at one moment.
struct MemoryReading {
  std::string source;  // "megatron", "deepspeed", "torchtitan", "memory_stats", "nvidia-smi", ...
  std::optional<std::int64_t> rank, device, step;
  std::string time;
  std::optional<double> seconds;
  std::string phase, label;  // label: the words that name the moment, "after optimizer step"
  std::optional<Bytes> allocated, max_allocated, reserved, max_reserved, device_used, device_total,
      host_used;
  std::optional<std::int64_t> retries, ooms;
  std::optional<double> step_seconds;  // of a training line
  bool peak_is_since_last = false;  // the peak is of the time since the reading before, not of all
  EvidencePlace place;
};

// One entry of a flight recorder, or a line of the watchdog.
struct CollectiveState {
  std::optional<std::int64_t> rank;
  std::string group;                // its name or description
  std::vector<std::int64_t> ranks;  // of the group, where the file says them
  std::optional<std::int64_t> sequence;
  std::string operation;  // "all_reduce"
  std::string state;      // "scheduled", "started", "completed", "missing"
  std::string dtype;
  std::optional<std::int64_t> elements_in, elements_out;
  std::optional<double> seconds;
  EvidencePlace place;
};

// What says which run this was, so that its configuration is found without being named.
struct RunClues {
  std::vector<std::string> frameworks;  // "megatron-lm", "deepspeed", "transformers", ...
  std::optional<std::int64_t> world_size;
  std::map<std::string, std::string> arguments;  // a block of arguments, as printed
  std::vector<std::string> commands;             // launch lines
  std::vector<std::string> launch_files;         // configuration files that the text names
  std::vector<std::string> models;               // names of models
  std::vector<EvidencePlace> places;             // of the above, in no order
};

struct MemoryHistory;  // evidence/memory_history.h
struct DeviceMoment;   // evidence/replay.h
struct TraceTimes;     // evidence/trace_times.h

struct Evidence {
  std::string file;
  std::string
      kind;  // "snapshot", "log", "memory_stats", "nvidia-smi", "slurm", "kernel", "flight recorder", ...
  std::string era;  // of the format: "2.6-2.7"; empty: not told
  bool complete =
      true;  // of its kind: a ring that lost births, a cut file, a state without a history are not
  std::string why_incomplete;
  std::optional<std::int64_t> rank;  // of the whole file, by its name or its text
  std::vector<MemoryFailure> failures;
  std::vector<MemoryReading> readings;
  std::vector<CollectiveState> collectives;
  RunClues clues;
  std::shared_ptr<const MemoryHistory> history;  // of a snapshot, and where it leads
  std::shared_ptr<const std::vector<DeviceMoment>> moments;
  std::shared_ptr<const TraceTimes> trace;  // of a profiler trace
  std::optional<bool> finished;             // the log says that training ended well, or badly
  Diagnostics problems;
};

}  // namespace steelyard
