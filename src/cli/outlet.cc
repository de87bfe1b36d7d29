#include "cli/outlet.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace steelyard {
namespace {

bool hung_up = false;

extern "C" void interrupted(int) { _exit(130); }

void write(std::FILE* stream, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stream) != text.size()) hung_up = true;
}

}  // namespace

void answer(std::string_view text) {
  if (!hung_up) write(stdout, text);
}

void remark(std::string_view text) {
  // The talk stands after the answer so far, also when both go to one place.
  flush_answer();
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void flush_answer() {
  if (!hung_up && std::fflush(stdout) != 0) hung_up = true;
}

std::optional<std::string> text_of_file(const std::string& path, std::size_t most) {
  std::ifstream file;
  if (path != "-") {
    std::error_code failed;
    if (std::filesystem::is_directory(path, failed)) return std::nullopt;
    file.open(path, std::ios::binary);
    if (!file) return std::nullopt;
  }
  std::istream& from = path == "-" ? std::cin : file;
  std::string text;
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  while (from && text.size() <= most) {
    const std::size_t before = text.size();
    const std::size_t wanted = std::min(kChunk, most - before + 1);
    text.resize(before + wanted);
    from.read(text.data() + before, static_cast<std::streamsize>(wanted));
    text.resize(before + static_cast<std::size_t>(from.gcount()));
  }
  return text;
}

bool write_file(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.flush();
  return file.good();
}

void prepare_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, interrupted);
}

}  // namespace steelyard
