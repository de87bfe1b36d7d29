#include "cli/follow_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "cli/read_invocation.h"
#include "evidence/log_reader.h"

namespace steelyard {
namespace {

constexpr int kPauseMilliseconds = 200, kQuietMilliseconds = 3000;
constexpr std::size_t kPieceBytes = std::size_t{64} << 10, kLongestOpenLine = std::size_t{1} << 20;

volatile std::sig_atomic_t asked_to_stop = 0;
extern "C" void stop_following(int) { asked_to_stop = 1; }

// Ctrl-C ends the following and not the program, which still has its answer to give.
class StopSignals {
 public:
  StopSignals() {
    asked_to_stop = 0;
    struct sigaction action {};
    action.sa_handler = stop_following;  // without SA_RESTART: a read that waits returns
    ::sigaction(SIGINT, &action, &interrupt_);
    ::sigaction(SIGTERM, &action, &terminate_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals() {
    ::sigaction(SIGINT, &interrupt_, nullptr);
    ::sigaction(SIGTERM, &terminate_, nullptr);
  }

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

bool has_ended(const Evidence& evidence) {
  return evidence.finished.has_value() ||
         std::any_of(evidence.failures.begin(), evidence.failures.end(),
                     [](const MemoryFailure& failure) { return failure.fatal; });
}

class Following {
 public:
  Following(int descriptor, const std::string& name,
            const std::function<void(const Evidence&)>& look)
      : descriptor_(descriptor), reader_(name), look_(look) {
    struct stat facts {};
    // Stdin that is a file (< train.log) was written already: its end is the end.
    grows_ =
        descriptor != STDIN_FILENO && ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  }

  // errno of what went wrong, or 0.
  int run() {
    int quiet = 0;
    while (asked_to_stop == 0 && !(quiet >= kQuietMilliseconds && has_ended(reader_.so_far()))) {
      pollfd waiting{descriptor_, POLLIN, 0};
      // A file is always ready; only its end says that it has no more yet.
      if (!grows_ && ::poll(&waiting, 1, kPauseMilliseconds) <= 0) {
        quiet += kPauseMilliseconds;
        continue;
      }
      const ssize_t size = ::read(descriptor_, piece_.data(), piece_.size());
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return errno;
      if (size > 0) {
        quiet = 0;
        take(std::string_view(piece_.data(), static_cast<std::size_t>(size)));
        continue;
      }
      if (!grows_) break;
      begin_again_if_cut();
      ::poll(nullptr, 0, kPauseMilliseconds);
      quiet += kPauseMilliseconds;
    }
    return 0;
  }

  Evidence finish() && {
    if (!open_line_.empty()) feed(open_line_);
    look_(reader_.so_far());
    return std::move(reader_).finish();
  }

 private:
  void take(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      open_line_ += text.substr(0, end);
      if (end == std::string_view::npos) {
        if (open_line_.size() < kLongestOpenLine) return;
        text = {};
      } else {
        text.remove_prefix(end + 1);
      }
      feed(open_line_);
      open_line_.clear();
      look_(reader_.so_far());
    }
  }

  void feed(std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    reader_.feed(line);
  }

  // Truncated by a rotation of logs: what is written next stands at its front.
  void begin_again_if_cut() {
    struct stat facts {};
    const off_t at = ::lseek(descriptor_, 0, SEEK_CUR);
    if (::fstat(descriptor_, &facts) == 0 && at > facts.st_size) ::lseek(descriptor_, 0, SEEK_SET);
  }

  int descriptor_;
  bool grows_ = false;
  LogReader reader_;
  const std::function<void(const Evidence&)>& look_;
  std::string open_line_;
  std::array<char, kPieceBytes> piece_{};
};

}  // namespace

tl::expected<Evidence, Diagnostic> follow_log(const std::string& path,
                                              const std::function<void(const Evidence&)>& look) {
  const int descriptor =
      path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const auto unreadable = [&path](int why) {
    return tl::unexpected(command_line_problem(
        "E100", fmt::format("cannot read {}: {}", path,
                            why == ENOENT ? "no such file" : std::strerror(why))));
  };
  if (descriptor < 0) return unreadable(errno);
  const StopSignals signals;
  Following following(
      descriptor, path == "-" ? "<stdin>" : std::filesystem::path(path).filename().string(), look);
  const int failure = following.run();
  if (descriptor != STDIN_FILENO) ::close(descriptor);
  if (failure != 0) return unreadable(failure);
  return std::move(following).finish();
}

}  // namespace steelyard
