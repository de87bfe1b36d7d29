// The kernel's OOM killer, in dmesg, syslog and journals of any locale.
//
//   oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/pod7,task_memcg=/pod7/a,task=python3,pid=71,uid=0
//   Memory cgroup out of memory: Killed process 71 (python3) total-vm:41kB, anon-rss:30kB, file-rss:2kB, shmem-rss:0kB, ...
//   memory: usage 125829120kB, limit 125829120kB, failcnt 91
//
// Sizes are kB of 1024 bytes. The limit's line stands above the other two.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 6> kKernelWords = {
    "oom-kill:constraint=", "Killed process ",    "Kill process ",
    "memory: usage ",       "invoked oom-killer", "oom_reaper: reaped"};

// Resident memory: what the task held when it was killed.
std::optional<Bytes> resident_of(std::string_view text) {
  std::optional<Bytes> sum;
  for (const std::string_view label : {"anon-rss:", "file-rss:", "shmem-rss:"})
    if (const auto size = size_behind(text, label)) sum = sum.value_or(Bytes(0)) + *size;
  return sum;
}

MemoryFailure& open_of(LogState& state) {
  if (!state.open_failure || state.open_failure->backend != "kernel") {
    state.open_failure = MemoryFailure{};
    state.open_failure->kind = MemoryFailure::Kind::kHost;
    state.open_failure->backend = "kernel";
  }
  return *state.open_failure;
}

bool read_kernel_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (text.find("memory: usage ") != std::string_view::npos) {
    MemoryFailure& open = open_of(state);
    open.capacity = size_behind(text, "limit ");
    return false;
  }
  if (const auto constraint = behind(text, "oom-kill:constraint=")) {
    MemoryFailure& open = open_of(state);
    open.era = constraint->starts_with("CONSTRAINT_MEMCG") ? "cgroup" : "whole machine";
    return false;
  }
  const std::size_t at = text.find("Kill");
  if (at == std::string_view::npos || text.find("process ", at) == std::string_view::npos)
    return false;
  if (text.find("out of memory") == std::string_view::npos &&
      text.find("Out of memory") == std::string_view::npos)
    return false;
  MemoryFailure failure = open_of(state);
  state.open_failure.reset();
  // Old kernels say what they will do, then what they did; the second has the sizes.
  const std::size_t begin = text.find("emory");
  failure.message = std::string(text.substr(begin > 20 ? text.find_first_not_of(' ') : 0, 400));
  failure.allocated = resident_of(text);
  if (failure.era.empty())
    failure.era = text.find("cgroup") != std::string_view::npos ? "cgroup" : "whole machine";
  const bool is_announced = text.substr(at).starts_with("Kill process");
  if (is_announced) {
    state.open_failure = failure;
    return false;
  }
  state.add(std::move(failure), line, at);
  return false;
}

}  // namespace

const LogLineReader kKernelLines{"kernel", kKernelWords, read_kernel_line};

}  // namespace steelyard
