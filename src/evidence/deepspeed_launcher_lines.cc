// DeepSpeed's launcher: which command failed, and the clean-up of the others.
//
//   [INFO] [launch.py:180:main] dist_world_size=2
//   [INFO] [launch.py:335:sigkill_handler] Killing subprocess 71                     clean-up, no failure
//   [ERROR] [launch.py:341:sigkill_handler] ['python', 'train.py'] exits with return code = -9
#include <fmt/format.h>

#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 4> kLauncherWords = {
    "exits with return code = ", "Killing subprocess ", "dist_world_size=", "exits successfully"};

bool read_launcher_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (const auto size = integer_behind(text, "dist_world_size=")) {
    state.add_framework("deepspeed");
    if (state.steps_of_start > 0 || !state.evidence.failures.empty()) state.begin_start();
    state.evidence.clues.world_size = size;
    return false;
  }
  if (text.find("exits successfully") != std::string_view::npos) {
    if (!state.evidence.finished) state.evidence.finished = true;
    return false;
  }
  auto rest = behind(text, "exits with return code = ");
  const auto code = rest ? take_printed_integer(*rest) : std::nullopt;
  if (!code || *code == 0) return false;
  state.evidence.finished = false;
  MemoryFailure failure;
  failure.kind =
      *code == -9 || *code == 137 ? MemoryFailure::Kind::kKilled : MemoryFailure::Kind::kOther;
  failure.backend = "deepspeed";
  failure.message = fmt::format("exits with return code = {}", *code);
  state.add(std::move(failure), line);
  state.evidence.failures.back().frames.clear();
  return false;
}

}  // namespace

const LogLineReader kDeepSpeedLauncherLines{"deepspeed launcher", kLauncherWords,
                                            read_launcher_line};

}  // namespace steelyard
