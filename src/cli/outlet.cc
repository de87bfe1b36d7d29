#include "cli/outlet.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "cli/exit_status.h"
#include "cli/output_file.h"
#include "document/printable.h"
#include "world/world.h"

namespace steelyard {
namespace {

// Set once, before a command runs.
Style answer_style;
Style talk_style;

bool ended = false;  // nobody reads any more, or nothing can be written
int failure = 0;     // why, unless the reader hung up

extern "C" void interrupted(int) {
  forget_unfinished_file();
  _exit(kInterrupted);
}

void end() {
  ended = true;
  if (errno != EPIPE) failure = errno == 0 ? EIO : errno;
}

void write(std::string_view text) {
  if (ended) return;
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) end();
}

std::string shown(std::string_view text, const Style& style) {
  const std::string safe = harmless(text, style.colour ? &style.seal : nullptr);
  return style.ascii ? plain_characters(safe) : safe;
}

}  // namespace

void set_outlets(const Style& answer, const Style& talk) {
  answer_style = answer;
  talk_style = talk;
}

void answer(std::string_view text) {
  if (!world().take_answer(shown(text, Style{}))) write(shown(text, answer_style));
}

void answer_file(std::string_view text) {
  if (world().take_answer(text)) return;
  if (::isatty(STDOUT_FILENO) == 1)
    answer(text);
  else
    write(text);
}

void remark(std::string_view text) {
  if (world().take_remark(shown(text, Style{}))) return;
  // The talk stands after the answer so far, also when both go to one place.
  flush_answer();
  const std::string safe = shown(text, talk_style);
  std::fwrite(safe.data(), 1, safe.size(), stderr);
}

void status_line(std::string_view text) {
  flush_answer();
  const std::string line = "\r\033[K" + shown(text, talk_style);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void flush_answer() {
  if (ended) return;
  errno = 0;
  if (std::fflush(stdout) != 0) end();
}

int finished(int status) {
  flush_answer();
  if (failure == 0) return status;
  remark(
      fmt::format("error[{}]: the answer could not be written: {}\n", "E620", reason_of(failure)));
  return kBadInput;
}

void prepare_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than allowed is an error of its write
  std::signal(SIGINT, interrupted);
}

}  // namespace steelyard
