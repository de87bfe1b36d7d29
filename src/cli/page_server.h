// A folder of static files over http, for this machine alone: what `steelyard page` serves.
//
//   PageServer server("/usr/share/steelyard/page");
//   if (auto fault = server.listen(0)) return refuse(...);
//   server.port();      51234
//   server.serve();     until the program ends
//
// Listens on 127.0.0.1, answers GET and HEAD, and only requests that name this machine: a page of another origin that points
// its name here gets nothing. No file outside the folder is read, also not through a link.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace steelyard {

class PageServer {
 public:
  explicit PageServer(std::filesystem::path folder);
  ~PageServer();
  PageServer(const PageServer&) = delete;
  PageServer& operator=(const PageServer&) = delete;

  // Port 0: any that is free. Returns why not.
  std::optional<std::string> listen(std::uint16_t port);
  std::uint16_t port() const { return port_; }
  // Ends only when the socket fails; returns why.
  std::string serve();

  // The whole answer to the head of a request. (Public for its test.)
  std::string answer_to(std::string_view request) const;

 private:
  std::filesystem::path folder_;
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace steelyard
