#include "cli/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/read_invocation.h"

namespace steelyard {
namespace {

constexpr std::size_t kChunk = std::size_t{64} << 10;

Diagnostic unreadable(const std::string& path, const std::string& why) {
  return command_line_problem("E100", fmt::format("cannot read {}: {}", path, why));
}

// Adds what comes next: its size, 0 at the end, or less where `why` says what failed.
std::ptrdiff_t read_more(InputSource& source, std::string& text, std::string& why) {
  std::array<char, kChunk> chunk;  // not cleared: what was read of it is all that is used
  const std::ptrdiff_t size = source.read(chunk.data(), chunk.size(), why);
  if (size > 0) text.append(chunk.data(), static_cast<std::size_t>(size));
  return size;
}

}  // namespace

tl::expected<std::string, Diagnostic> read_input(const std::string& path, const InputKind& kind) {
  std::string why;
  const std::unique_ptr<InputSource> source = world().open(path, why);
  if (source == nullptr) return tl::unexpected(unreadable(path, why));
  std::string text;
  std::ptrdiff_t size = 1;
  while (size > 0 && text.size() <= kind.most) size = read_more(*source, text, why);
  if (size < 0) return tl::unexpected(unreadable(path, why));
  if (text.size() > kind.most)
    return tl::unexpected(command_line_problem(
        "E103", fmt::format("{} is larger than {} MiB: no {}", path, kind.most >> 20U, kind.name)));
  return text;
}

InputLines::InputLines(const std::string& path) : path_(path) {
  std::string why;
  source_ = world().open(path, why);
  if (source_ == nullptr) problem_ = unreadable(path, why);
}

InputLines::~InputLines() = default;

bool InputLines::fill() {
  if (ended_) return false;
  buffer_.erase(0, at_);
  at_ = 0;
  std::string why;
  const std::ptrdiff_t size = read_more(*source_, buffer_, why);
  if (size < 0) problem_ = unreadable(path_, why);
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
