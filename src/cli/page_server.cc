#include "cli/page_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace steelyard {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestHead = 16'384;
constexpr std::size_t kMostConnections = 64;

struct MediaType {
  std::string_view ending, type;
};
constexpr std::array kMediaTypes = {
    MediaType{".html", "text/html; charset=utf-8"},
    MediaType{".js", "text/javascript; charset=utf-8"},
    MediaType{".css", "text/css; charset=utf-8"},
    MediaType{".wasm", "application/wasm"},
    MediaType{".svg", "image/svg+xml"},
    MediaType{".png", "image/png"},
    MediaType{".json", "application/json"},
};

std::string_view type_of(const fs::path& file) {
  for (const MediaType& row : kMediaTypes)
    if (file.extension() == row.ending) return row.type;
  return "application/octet-stream";
}

std::string response(std::string_view status, std::string_view type, std::string_view body,
                     bool with_body) {
  return fmt::format(
             "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-cache\r\n"
             "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
             status, type, body.size()) +
         std::string(with_body ? body : std::string_view());
}

std::string refusal(std::string_view status) {
  return response(status, "text/plain; charset=utf-8", fmt::format("{}\n", status), true);
}

int digit_of(char character) {
  if (character >= '0' && character <= '9') return character - '0';
  if (character >= 'a' && character <= 'f') return character - 'a' + 10;
  if (character >= 'A' && character <= 'F') return character - 'A' + 10;
  return -1;
}

// "/core/steelyard.js?x" is "core/steelyard.js"; nothing where it is no plain name.
std::optional<std::string> name_in(std::string_view target) {
  target = target.substr(0, target.find_first_of("?#"));
  if (!target.starts_with('/')) return std::nullopt;
  target.remove_prefix(1);
  std::string name;
  for (std::size_t i = 0; i < target.size(); ++i) {
    char character = target[i];
    if (character == '%') {
      const int high = i + 2 < target.size() ? digit_of(target[i + 1]) : -1;
      const int low = i + 2 < target.size() ? digit_of(target[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      character = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(character) < 0x20 || character == '\\') return std::nullopt;
    name += character;
  }
  if (name.empty() || name.ends_with('/')) name += "index.html";
  return name;
}

bool is_below(const fs::path& file, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return end == folder.end() && rest != file.end();
}

std::string_view header_of(std::string_view request, std::string_view name) {
  for (std::size_t at = request.find("\r\n"); at != std::string_view::npos;
       at = request.find("\r\n", at + 2)) {
    std::string_view line = request.substr(at + 2);
    line = line.substr(0, line.find("\r\n"));
    if (line.size() <= name.size() || line[name.size()] != ':') continue;
    bool same = true;
    for (std::size_t i = 0; i < name.size(); ++i) same = same && (line[i] | 0x20) == name[i];
    if (!same) continue;
    line.remove_prefix(name.size() + 1);
    while (line.starts_with(' ')) line.remove_prefix(1);
    return line;
  }
  return {};
}

// A connection whose request has not come whole.
struct Visitor {
  int socket = -1;
  std::string head;
};

void send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

// Whether there is more to wait for.
bool hear(Visitor& visitor, const PageServer& server) {
  std::array<char, 4096> room{};
  const ssize_t count = ::recv(visitor.socket, room.data(), room.size(), 0);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (count <= 0) return false;
  visitor.head.append(room.data(), static_cast<std::size_t>(count));
  if (visitor.head.find("\r\n\r\n") != std::string::npos) {
    send_all(visitor.socket, server.answer_to(visitor.head));
    return false;
  }
  if (visitor.head.size() <= kLongestHead) return true;
  send_all(visitor.socket, refusal("431 Request Header Fields Too Large"));
  return false;
}

}  // namespace

PageServer::PageServer(fs::path folder) {
  std::error_code fault;
  folder_ = fs::canonical(folder, fault);
  if (fault) folder_ = std::move(folder);
}

PageServer::~PageServer() {
  if (socket_ >= 0) ::close(socket_);
}

std::optional<std::string> PageServer::listen(std::uint16_t port) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return std::strerror(errno);
  const int again = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &again, sizeof(again));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(socket_, SOMAXCONN) != 0)
    return std::strerror(errno);
  socklen_t size = sizeof(address);
  if (::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return std::strerror(errno);
  port_ = ntohs(address.sin_port);
  return std::nullopt;
}

std::string PageServer::answer_to(std::string_view request) const {
  const std::size_t space = request.find(' ');
  const std::size_t end = request.find(' ', space == std::string_view::npos ? 0 : space + 1);
  if (space == std::string_view::npos || end == std::string_view::npos ||
      request.find("\r\n") < end)
    return refusal("400 Bad Request");
  const std::string_view method = request.substr(0, space);
  if (method != "GET" && method != "HEAD") return refusal("405 Method Not Allowed");
  const std::string_view host = header_of(request, "host");
  if (host != fmt::format("127.0.0.1:{}", port_) && host != fmt::format("localhost:{}", port_))
    return refusal("403 Forbidden");
  const auto name = name_in(request.substr(space + 1, end - space - 1));
  if (!name) return refusal("400 Bad Request");
  std::error_code fault;
  const fs::path file = fs::canonical(folder_ / *name, fault);
  if (fault || !is_below(file, folder_) || !fs::is_regular_file(file, fault))
    return refusal("404 Not Found");
  std::ifstream stream(file, std::ios::binary);
  const std::string body{std::istreambuf_iterator<char>(stream), {}};
  if (!stream) return refusal("404 Not Found");
  return response("200 OK", type_of(file), body, method == "GET");
}

std::string PageServer::serve() {
  std::vector<Visitor> visitors;
  while (true) {
    std::vector<pollfd> watched = {{socket_, POLLIN, 0}};
    for (const Visitor& visitor : visitors) watched.push_back({visitor.socket, POLLIN, 0});
    if (::poll(watched.data(), watched.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return std::strerror(errno);
    }
    std::vector<Visitor> staying;
    for (std::size_t i = 0; i < visitors.size(); ++i) {
      if (watched[i + 1].revents == 0 || hear(visitors[i], *this))
        staying.push_back(std::move(visitors[i]));
      else
        ::close(visitors[i].socket);
    }
    visitors = std::move(staying);
    if (watched.front().revents == 0) continue;
    const int socket = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) {
      if (errno == EINTR || errno == ECONNABORTED || errno == EMFILE) continue;
      return std::strerror(errno);
    }
    // One that does not read what it asked for must not hold up the others for long.
    const timeval patience{10, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    // A browser opens connections ahead of need; the oldest silent one makes room.
    if (visitors.size() >= kMostConnections) {
      ::close(visitors.front().socket);
      visitors.erase(visitors.begin());
    }
    visitors.push_back({socket, {}});
  }
}

}  // namespace steelyard
