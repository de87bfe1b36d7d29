// The one pool of threads of the faces: as many as the machine has, or as --threads says.
//
//   const Workers workers(threads_of(invocation));
//   workers.share(lines.size(), [&](std::size_t i) { answers[i] = ...; });      returns when all are done
//
// Who needs an order keeps its answers by number: which thread does what is left open.
#pragma once

#include <algorithm>
#include <atomic>
#include <charconv>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cli/read_invocation.h"

namespace steelyard {

class Workers {
 public:
  explicit Workers(std::size_t count) : count_(std::max<std::size_t>(1, count)) {}
  std::size_t count() const { return count_; }
  // Pieces are handed out one by one.
  void share(std::size_t count, const std::function<void(std::size_t)>& work) const {
    std::atomic<std::size_t> next{0};
    const auto run = [&] {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < std::min(count_, count); ++i) threads.emplace_back(run);
    run();
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::size_t count_;
};

// 0: not a number of threads.
inline std::size_t threads_in(const std::string& text) {
  constexpr std::size_t kMost = 1024;
  std::size_t threads = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), threads);
  return fault == std::errc() && end == text.data() + text.size() && threads <= kMost ? threads : 0;
}
// All of the machine's where nobody says.
inline std::size_t threads_of(const Invocation& invocation) {
  const std::string* said = invocation.value("threads");
  return said != nullptr ? threads_in(*said) : std::thread::hardware_concurrency();
}

}  // namespace steelyard
