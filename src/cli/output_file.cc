#include "cli/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cli/read_invocation.h"
#include "world/world.h"

namespace steelyard {
namespace {

// Its name while one is written; a handler may take away nothing that it would have to allocate for.
std::array<char, 4096> unfinished{};
volatile std::sig_atomic_t is_unfinished = 0;

mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

std::string reason_of(int fault) {
  switch (fault) {
    case ENOENT:
      return "no such folder";
    case EACCES:
    case EPERM:
      return "permission denied";
    case EISDIR:
      return "it is a folder";
    case ENOSPC:
      return "no space left on the device";
    default:
      return std::strerror(fault);
  }
}

void forget_unfinished_file() {
  if (is_unfinished != 0) ::unlink(unfinished.data());
}

OutputFile::OutputFile(const std::string& path) : name_(path), path_(path) {
  if (world().keeps_files()) {
    kept_.emplace();
    return;
  }
  std::error_code failed;
  // The name of a link stays a link.
  const std::filesystem::path real = std::filesystem::canonical(path, failed);
  if (!failed) path_ = real.string();
  struct stat known {};
  const bool exists = ::stat(path_.c_str(), &known) == 0;
  if (exists && !S_ISREG(known.st_mode)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
  } else if (exists && ::access(path_.c_str(), W_OK) != 0) {
    // What nobody may write to is not replaced either.
    fail(errno);
  } else {
    open_beside();
  }
  if (!beside_.empty()) ::fchmod(descriptor_, exists ? known.st_mode & 07777 : usual_mode());
}

void OutputFile::open_beside() {
  beside_ = path_ + ".unfinished-XXXXXX";
  descriptor_ = ::mkostemp(beside_.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    fail(errno);
    beside_.clear();
  } else if (beside_.size() < unfinished.size()) {
    std::memcpy(unfinished.data(), beside_.c_str(), beside_.size() + 1);
    is_unfinished = 1;
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (beside_.empty()) return;
  ::unlink(beside_.c_str());
  is_unfinished = 0;
}

void OutputFile::fail(int why) {
  if (failure_ == 0) failure_ = why == 0 ? EIO : why;
}

void OutputFile::write(std::string_view text) {
  if (kept_) kept_->append(text);
  if (kept_) return;
  while (!text.empty() && failure_ == 0) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written >= 0)
      text.remove_prefix(static_cast<std::size_t>(written));
    else if (errno != EINTR)
      fail(errno);
  }
}

std::optional<Diagnostic> OutputFile::finish() {
  if (kept_) {
    world().keep_file(name_, *kept_);
    return std::nullopt;
  }
  if (descriptor_ >= 0 && ::close(descriptor_) != 0) fail(errno);
  descriptor_ = -1;
  if (failure_ == 0 && !beside_.empty()) {
    if (::rename(beside_.c_str(), path_.c_str()) != 0) {
      fail(errno);
    } else {
      beside_.clear();
      is_unfinished = 0;
    }
  }
  if (failure_ == 0) return std::nullopt;
  return command_line_problem("E621",
                              fmt::format("cannot write {}: {}", name_, reason_of(failure_)));
}

void make_folder(const std::string& path) {
  std::error_code seen_later;
  if (!world().keeps_files()) std::filesystem::create_directories(path, seen_later);
}

std::optional<Diagnostic> write_file(const std::string& path, std::string_view text) {
  OutputFile file(path);
  file.write(text);
  return file.finish();
}

}  // namespace steelyard
