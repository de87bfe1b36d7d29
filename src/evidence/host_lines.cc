// Deaths for want of the host's memory, as programs and Ray say them.
//
//   DefaultCPUAllocator: can't allocate memory: you tried to allocate 8589934592 bytes. Error code 12
//   DataLoader worker (pid 71) is killed by signal: Killed.
//   Memory on the node (IP: 10.0.0.4, ID: 5b) where the task was running was 118.41GB / 120.00GB (0.986), which exceeds ...
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 15> kHostWords = {"DefaultCPUAllocator",
                                                         "you tried to allocate ",
                                                         "is killed by signal: ",
                                                         "insufficient shared memory",
                                                         "ray.exceptions.OutOfMemoryError",
                                                         "Memory on the node (IP",
                                                         "Cannot allocate memory",
                                                         "MemoryError",
                                                         "Unable to allocate ",
                                                         "OOMKilled",
                                                         "exit code 137",
                                                         "pin_memory",
                                                         "cudaHostAlloc",
                                                         "Killed",
                                                         "std::bad_alloc"};

MemoryFailure host_failure(std::string_view text, std::size_t at) {
  MemoryFailure failure;
  failure.kind = MemoryFailure::Kind::kHost;
  failure.backend = "cpu";
  failure.message = std::string(text.substr(at, 400));
  return failure;
}

bool read_allocators(const LogLine& line, LogState& state) {
  const std::string_view text = line.text;
  // "DefaultCPUAllocator: can't allocate memory" and Windows' "DefaultCPUAllocator: not enough memory"
  if (const auto rest = behind(text, "you tried to allocate ")) {
    const std::size_t at = text.find("DefaultCPUAllocator");
    MemoryFailure failure = host_failure(text, at == std::string_view::npos ? 0 : at);
    failure.tried = size_behind(text, "you tried to allocate ");
    state.add(std::move(failure), line);
    return true;
  }
  // numpy: "Unable to allocate 24.0 GiB for an array with shape ..."
  if (text.find("for an array with shape") != std::string_view::npos) {
    MemoryFailure failure = host_failure(text, 0);
    failure.tried = size_behind(text, "Unable to allocate ");
    state.add(std::move(failure), line);
    return true;
  }
  for (const std::string_view words : {"Cannot allocate memory", "MemoryError", "std::bad_alloc"}) {
    const std::size_t at = text.find(words);
    if (at == std::string_view::npos || text.find("OutOfMemoryError") != std::string_view::npos)
      continue;
    const bool is_message = words != "MemoryError" || without_spaces(text).starts_with(words);
    if (!is_message) continue;
    state.add(host_failure(text, at), line, at);
    return true;
  }
  return false;
}

bool read_ray(const LogLine& line, LogState& state) {
  const std::string_view text = line.text;
  const std::size_t at = text.find("Memory on the node (IP");
  const std::size_t named = text.find("ray.exceptions.OutOfMemoryError");
  if (at == std::string_view::npos && named == std::string_view::npos) return false;
  MemoryFailure failure = host_failure(text, at == std::string_view::npos ? named : at);
  failure.backend = "ray";
  // "... was running was 118.41GB / 120.00GB (0.986)"
  if (auto was = behind(failure.message, " was running was ")) {
    failure.allocated = take_printed_size(*was);
    if (was->starts_with(" / ")) {
      was->remove_prefix(3);
      failure.capacity = take_printed_size(*was);
    }
  }
  auto& failures = state.evidence.failures;
  // The exception's name and its sentence are one failure.
  if (!failures.empty() && failures.back().backend == "ray" && !failures.back().capacity) {
    failures.back().capacity = failure.capacity;
    failures.back().allocated = failure.allocated;
    return true;
  }
  state.add(std::move(failure), line);
  return true;
}

bool read_workers(const LogLine& line, LogState& state) {
  const std::string_view text = line.text;
  const std::size_t at = text.find("DataLoader worker (pid");
  if (at != std::string_view::npos &&
      text.find("is killed by signal: ") != std::string_view::npos) {
    MemoryFailure failure = host_failure(text, at);
    const bool bus = text.find("Bus error") != std::string_view::npos;
    const bool killed = text.find("signal: Killed") != std::string_view::npos;
    failure.backend = bus ? "shm" : "dataloader";
    // Aborted, or a segmentation fault: not for want of memory.
    if (!bus && !killed) failure.kind = MemoryFailure::Kind::kOther;
    state.add(std::move(failure), line, at);
    return true;
  }
  const std::size_t shm = text.find("insufficient shared memory");
  if (shm == std::string_view::npos) return false;
  MemoryFailure failure = host_failure(text, 0);
  failure.backend = "shm";
  state.add(std::move(failure), line);
  return true;
}

bool read_pods(const LogLine& line, LogState& state) {
  const std::string_view text = line.text;
  for (const std::string_view words : {"OOMKilled", "exit code 137"}) {
    const std::size_t at = text.find(words);
    if (at == std::string_view::npos || text.find("OOMKilled\": false") != std::string_view::npos ||
        text.find("OOMKilled=false") != std::string_view::npos)
      continue;
    MemoryFailure failure = host_failure(text, at > 80 ? at - 80 : 0);
    failure.backend = "kubernetes";
    if (words == "exit code 137") failure.kind = MemoryFailure::Kind::kKilled;
    state.add(std::move(failure), line, at);
    return true;
  }
  // "run.sh: line 11: 33333 Killed   python train.py" of a shell
  const std::size_t at = text.find(" Killed ");
  if (at == std::string_view::npos || text.find(": line ") >= at) return false;
  MemoryFailure failure = host_failure(text, 0);
  failure.kind = MemoryFailure::Kind::kKilled;
  failure.backend = "shell";
  state.add(std::move(failure), line, at);
  return true;
}

bool read_host_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  if (read_allocators(line, state) || read_ray(line, state) || read_workers(line, state))
    return false;
  if (line.text.find("CUDA error") != std::string::npos &&
      line.text.find("cudaHostAlloc") != std::string::npos) {
    state.add(host_failure(line.text, 0), line);
    return false;
  }
  read_pods(line, state);
  return false;
}

}  // namespace

const LogLineReader kHostLines{"host", kHostWords, read_host_line};

}  // namespace steelyard
