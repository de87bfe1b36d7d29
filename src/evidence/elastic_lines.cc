// torchrun's and torch elastic's report of children that died.
//
//   failed (exitcode: -9) local_rank: 4 (pid: 71) of binary: /usr/bin/python3
//   Sending process 72 closing signal SIGTERM                      a victim, no failure
//   Root Cause (first observed failure):
//     time      : 2026-06-08_19:04:45
//     rank      : 4 (local_rank: 4)
//     exitcode  : -9 (pid: 71)
//     traceback : Signal 9 (SIGKILL) received by PID 71
//
// Its "root cause" is the child that was seen dead first, to a second: a traceback above it says more.
#include <fmt/format.h>

#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 7> kElasticWords = {
    "failed (exitcode: ", "  exitcode  : ",        "  rank      : ", "Root Cause (first observed",
    "Failures:",          "torch.distributed.run", "  time      : "};

using DeathKind = MemoryFailure::Kind;

struct ExitCode {
  std::int64_t code;
  std::string_view words;
  DeathKind kind;
};
constexpr std::array<ExitCode, 9> kExitCodes = {{{-9, "SIGKILL", DeathKind::kKilled},
                                                 {137, "SIGKILL", DeathKind::kKilled},
                                                 {-7, "SIGBUS", DeathKind::kHost},
                                                 {135, "SIGBUS", DeathKind::kHost},
                                                 {-6, "SIGABRT", DeathKind::kOther},
                                                 {134, "SIGABRT", DeathKind::kOther},
                                                 {-11, "SIGSEGV", DeathKind::kOther},
                                                 {139, "SIGSEGV", DeathKind::kOther},
                                                 {-15, "SIGTERM", DeathKind::kKilled}}};

void add_exit(std::int64_t code, std::optional<std::int64_t> rank, std::string_view pid,
              const LogLine& line, LogState& state) {
  if (code == 0) return;
  MemoryFailure failure;
  failure.kind = DeathKind::kOther;
  failure.backend = "elastic";
  failure.rank = rank;
  std::string words = "exit code " + std::to_string(code);
  for (const ExitCode& known : kExitCodes) {
    if (known.code != code) continue;
    failure.kind = known.kind;
    words += fmt::format(" ({})", known.words);
  }
  failure.message = fmt::format("{}, process {}", words, pid);
  // The line and the block tell of one child.
  for (MemoryFailure& before : state.evidence.failures) {
    if (before.backend != "elastic" || before.message != failure.message) continue;
    if (rank && (!before.rank || before.rank != rank)) before.rank = rank;
    return;
  }
  state.add(std::move(failure), line);
  MemoryFailure& added = state.evidence.failures.back();
  // A child ended by SIGTERM was told to: somebody else died before it.
  if (code == -15) added.consequence = true;
  if (added.backend == "elastic") added.frames.clear();
}

std::string_view pid_of(std::string_view text) {
  const auto rest = behind(text, "(pid: ");
  return rest ? rest->substr(0, rest->find_first_not_of("0123456789")) : std::string_view("?");
}

bool read_elastic_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (text.find("torch.distributed.run") != std::string_view::npos) {
    // A launcher's first words; the block's own title has no more than the same.
    if (text.find("multiprocessing") == std::string_view::npos && state.steps_of_start > 0)
      state.begin_start();
    return false;
  }
  if (auto rest = behind(text, "failed (exitcode: ")) {
    const auto code = take_printed_integer(*rest);
    if (code) add_exit(*code, integer_behind(*rest, "local_rank: "), pid_of(*rest), line, state);
    return false;
  }
  // The block: rank, then exit code
  if (const auto rank = integer_behind(text, "rank      : ")) {
    state.open_failure = MemoryFailure{};
    state.open_failure->rank = rank;
    state.open_failure->backend = "elastic";
    return false;
  }
  if (auto rest = behind(text, "exitcode  : ")) {
    const auto code = take_printed_integer(*rest);
    const bool open = state.open_failure && state.open_failure->backend == "elastic";
    if (code)
      add_exit(*code, open ? state.open_failure->rank : std::nullopt, pid_of(*rest), line, state);
    if (open) state.open_failure.reset();
  }
  return false;
}

}  // namespace

const LogLineReader kElasticLines{"elastic", kElasticWords, read_elastic_line};

}  // namespace steelyard
