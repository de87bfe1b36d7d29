#include "cli/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cli/read_invocation.h"

namespace steelyard {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

Diagnostic unreadable(const std::string& path, int failure) {
  const std::string why = failure == ENOENT   ? "no such file"
                          : failure == EISDIR ? "it is a folder"
                          : failure == EACCES ? "permission denied"
                                              : std::strerror(failure);
  return command_line_problem("E100", fmt::format("cannot read {}: {}", path, why));
}

// errno, or 0.
int open_input(const std::string& path, int& descriptor) {
  descriptor = path == "-" ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  return descriptor < 0 ? errno : 0;
}

void close_input(int descriptor) {
  if (descriptor > STDIN_FILENO) ::close(descriptor);
}

// Adds what comes next: its size, 0 at the end, or less where errno says why not.
ssize_t read_more(int descriptor, std::string& text) {
  std::array<char, kChunk> chunk{};
  ssize_t size = -1;
  do size = ::read(descriptor, chunk.data(), chunk.size());
  while (size < 0 && errno == EINTR);
  if (size > 0) text.append(chunk.data(), static_cast<std::size_t>(size));
  return size;
}

}  // namespace

tl::expected<std::string, Diagnostic> read_input(const std::string& path, const InputKind& kind) {
  int descriptor = -1;
  if (const int failure = open_input(path, descriptor); failure != 0)
    return tl::unexpected(unreadable(path, failure));
  std::string text;
  ssize_t size = 1;
  while (size > 0 && text.size() <= kind.most) size = read_more(descriptor, text);
  const int failure = size < 0 ? errno : 0;
  close_input(descriptor);
  if (failure != 0) return tl::unexpected(unreadable(path, failure));
  if (text.size() > kind.most)
    return tl::unexpected(command_line_problem(
        "E103", fmt::format("{} is larger than {} MiB: no {}", path, kind.most >> 20U, kind.name)));
  return text;
}

InputLines::InputLines(const std::string& path) : path_(path) {
  if (const int failure = open_input(path, descriptor_); failure != 0)
    problem_ = unreadable(path, failure);
}

InputLines::~InputLines() { close_input(descriptor_); }

bool InputLines::fill() {
  if (ended_) return false;
  buffer_.erase(0, at_);
  at_ = 0;
  const ssize_t size = read_more(descriptor_, buffer_);
  if (size < 0) problem_ = unreadable(path_, errno);
  if (size <= 0) ended_ = true;
  return size > 0;
}

bool InputLines::next() {
  while (!problem_) {
    ++number_;
    std::size_t looked = 0;
    std::size_t end = buffer_.find('\n', at_);
    while (end == std::string::npos && buffer_.size() - at_ <= kConfigurationFile.most) {
      looked = buffer_.size() - at_;
      if (!fill()) break;
      end = buffer_.find('\n', at_ + looked);
    }
    if (problem_) return false;
    const std::size_t size = std::min(end, buffer_.size()) - at_;
    if (size > kConfigurationFile.most) {
      problem_ = command_line_problem(
          "E103", fmt::format("line {} of {} is larger than {} MiB", number_,
                              path_ == "-" ? "stdin" : path_, kConfigurationFile.most >> 20U));
      return false;
    }
    if (end == std::string::npos && size == 0) return false;
    line_.assign(buffer_, at_, size);
    at_ += size + (end == std::string::npos ? 0 : 1);
    if (line_.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
  return false;
}

}  // namespace steelyard
