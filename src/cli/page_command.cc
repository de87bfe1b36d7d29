#include <fmt/format.h>
#include <spawn.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/page_server.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"

extern char** environ;

namespace steelyard {
namespace {

namespace fs = std::filesystem;

// Where an installed program keeps the page, and where a build does.
constexpr std::array<const char*, 3> kPlaces = {"../share/steelyard/page", "../page", "../../page"};

std::optional<fs::path> page_folder(const Invocation& invocation) {
  std::error_code fault;
  if (const std::string* given = invocation.value("folder")) {
    if (fs::is_regular_file(fs::path(*given) / "index.html", fault)) return fs::path(*given);
    return std::nullopt;
  }
  const fs::path program = fs::read_symlink("/proc/self/exe", fault);
  if (fault) return std::nullopt;
  for (const char* place : kPlaces) {
    const fs::path folder = program.parent_path() / place;
    if (fs::is_regular_file(folder / "index.html", fault)) return folder;
  }
  return std::nullopt;
}

std::optional<std::uint16_t> port_in(const std::string& text) {
  std::uint16_t port = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

// The user's own browser; whether there was a program to open it.
bool open_browser(const std::string& address) {
#if defined(__APPLE__)
  const char* opener = "open";
#else
  const char* opener = "xdg-open";
#endif
  std::string name = opener, word = address;
  std::array<char*, 3> words = {name.data(), word.data(), nullptr};
  // Whoever opened it is not waited for.
  std::signal(SIGCHLD, SIG_IGN);
  pid_t child = 0;
  posix_spawn_file_actions_t quiet{};
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
  posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1, 0);
  const int fault = posix_spawnp(&child, opener, &quiet, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  return fault == 0;
}

}  // namespace

int page_command(const Invocation& invocation) {
  if (!invocation.words.empty())
    return refuse_words(invocation, "page takes no words: the run is chosen in the browser");
  std::uint16_t wanted = 0;
  if (const std::string* text = invocation.value("port")) {
    const auto port = port_in(*text);
    if (!port)
      return refuse(invocation,
                    {command_line_problem("E005", fmt::format("--port {}: no port", *text),
                                          "0 to 65535; 0 is any that is free")},
                    "nothing served");
    wanted = *port;
  }
  const auto folder = page_folder(invocation);
  if (!folder) {
    const std::string* given = invocation.value("folder");
    return refuse(
        invocation,
        {command_line_problem("E630",
                              given != nullptr ? fmt::format("{}: no index.html in it", *given)
                                               : std::string("the page is not beside this program"),
                              "`make page` builds it; --folder FOLDER says where it is")},
        "nothing served");
  }
  PageServer server(*folder);
  if (const auto fault = server.listen(wanted))
    return refuse(invocation,
                  {command_line_problem("E630", fmt::format("port {}: {}", wanted, *fault),
                                        "without --port any free one is taken")},
                  "nothing served");
  const std::string address = fmt::format("http://127.0.0.1:{}/", server.port());
  answer(address + "\n");
  flush_answer();
  const bool opened = !invocation.has("no-open") && open_browser(address);
  remark(opened ? "served to this machine alone; Ctrl-C ends it\n"
                : "open that address in a browser; served to this machine alone; Ctrl-C ends it\n");
  const std::string why = server.serve();
  return refuse(invocation, {command_line_problem("E630", fmt::format("serving ended: {}", why))},
                "");
}

}  // namespace steelyard
