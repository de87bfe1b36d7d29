// What Slurm says of a job's end, and seff's report.
//
//   slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step tasks have been OOM Killed.
//   srun: error: node7: task 3: Out Of Memory
//   slurmstepd: error: *** JOB 71 ON node7 CANCELLED AT 2026-06-10T09:59:21 DUE TO TIME LIMIT ***
//   Memory Utilized: 61.20 GB / Memory Efficiency: 95.62% of 64.00 GB
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 12> kSlurmWords = {"oom-kill event",
                                                          "oom_kill event",
                                                          "exceeded memory limit",
                                                          "exceeded job memory limit",
                                                          "Exceeded job memory limit",
                                                          "Out Of Memory",
                                                          "DUE TO ",
                                                          "Memory Utilized: ",
                                                          "Memory Efficiency: ",
                                                          "State: OUT_OF_MEMORY",
                                                          ": Killed",
                                                          "CANCELLED AT "};

MemoryFailure slurm_failure(MemoryFailure::Kind kind, std::string_view message) {
  MemoryFailure failure;
  failure.kind = kind;
  failure.backend = "slurm";
  failure.message = std::string(without_spaces(message).substr(0, 300));
  return failure;
}

// "srun: error: node7: tasks 3-5: Killed"
std::optional<std::int64_t> first_task(std::string_view text) {
  for (const std::string_view label : {": task ", ": tasks "})
    if (auto rest = behind(text, label)) return take_printed_integer(*rest);
  return std::nullopt;
}

void read_seff(const LogLine& line, LogState& state) {
  const std::string_view text = line.text;
  if (text.find("State: OUT_OF_MEMORY") != std::string_view::npos) {
    state.add(slurm_failure(MemoryFailure::Kind::kHost, text), line);
    return;
  }
  if (const auto used = size_behind(text, "Memory Utilized: ")) {
    MemoryReading reading;
    reading.source = "slurm";
    reading.label = "seff";
    reading.host_used = used;
    state.add(std::move(reading), line);
    auto& failures = state.evidence.failures;
    if (!failures.empty() && failures.back().backend == "slurm") failures.back().allocated = used;
    return;
  }
  auto of = behind(text, "% of ");
  const auto limit = of ? take_printed_size(*of) : std::nullopt;
  if (!limit) return;
  auto& failures = state.evidence.failures;
  if (!failures.empty() && failures.back().backend == "slurm") failures.back().capacity = limit;
}

bool read_slurm_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  using Kind = MemoryFailure::Kind;
  const std::string_view text = line.text;
  const auto has = [text](std::string_view words) {
    return text.find(words) != std::string_view::npos;
  };
  if (has("oom-kill event") || has("oom_kill event")) {
    state.add(slurm_failure(Kind::kHost, text), line);
  } else if (has("xceeded memory limit") || has("xceeded job memory limit")) {
    MemoryFailure failure = slurm_failure(Kind::kHost, text);
    // "exceeded memory limit (134217728 > 67108864), being killed": kilobytes
    if (auto rest = behind(text, "limit (")) {
      if (const auto used = take_printed_number(*rest))
        failure.allocated = printed_bytes(*used, kKibibyte);
      if (const auto limit = behind(*rest, "> "))
        if (auto number = *limit; const auto most = take_printed_number(number))
          failure.capacity = printed_bytes(*most, kKibibyte);
    }
    state.add(std::move(failure), line);
  } else if (has("CANCELLED AT ") || has("DUE TO TIME LIMIT") || has("DUE TO PREEMPTION") ||
             has("DUE TO NODE FAILURE")) {
    if (!has("CANCELLED")) return false;
    MemoryFailure failure = slurm_failure(Kind::kOther, text);
    failure.era = has("TIME LIMIT")     ? "time limit"
                  : has("PREEMPTION")   ? "preemption"
                  : has("NODE FAILURE") ? "node failure"
                                        : "cancelled";
    // The job and each of its steps are cancelled at once: that is one end.
    auto& failures = state.evidence.failures;
    if (!failures.empty() && failures.back().era == failure.era) return false;
    state.add(std::move(failure), line);
  } else if (has("srun: error:") && has("Out Of Memory")) {
    MemoryFailure failure = slurm_failure(Kind::kHost, text);
    failure.rank = first_task(text);
    state.add(std::move(failure), line);
  } else if (has("srun: error:") && has(": Killed")) {
    MemoryFailure failure = slurm_failure(Kind::kKilled, text);
    failure.rank = first_task(text);
    state.add(std::move(failure), line);
  } else {
    read_seff(line, state);
  }
  return false;
}

}  // namespace

const LogLineReader kSlurmLines{"slurm", kSlurmWords, read_slurm_line};

}  // namespace steelyard
