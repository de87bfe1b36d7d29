#include "cli/outlet.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

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

std::optional<std::string> text_of_file(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::error_code failed;
  if (std::filesystem::is_directory(path, failed)) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  text << file.rdbuf();
  return text.str();
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
