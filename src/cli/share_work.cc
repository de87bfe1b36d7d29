#include "cli/share_work.h"

#include <atomic>
#include <charconv>
#include <exception>
#include <mutex>
#include <string>

#include "cost/achieved_rates.h"
#include "world/world.h"

namespace steelyard {

std::size_t threads_of(const Invocation& invocation) {
  constexpr std::size_t kMost = 1024;
  const std::string* said = invocation.value("threads");
  if (said == nullptr) return 0;
  std::size_t threads = 0;
  const auto [end, fault] = std::from_chars(said->data(), said->data() + said->size(), threads);
  return fault == std::errc() && end == said->data() + said->size() && threads <= kMost ? threads
                                                                                        : 0;
}

void share_work(std::size_t count, const std::function<void(std::size_t)>& work,
                std::size_t threads) {
  World& here = world();
  const AchievedRates* rates = rates_in_force();
  std::mutex first;
  std::exception_ptr fault;
  std::atomic<bool> failed{false};
  here.share(count, threads, [&](std::size_t i) {
    if (failed) return;
    const InWorld same(here);
    const SameRates same_rates(rates);
    try {
      work(i);
    } catch (...) {
      const std::lock_guard lock(first);
      if (!failed) fault = std::current_exception();
      failed = true;
    }
  });
  if (fault) std::rethrow_exception(fault);
}

}  // namespace steelyard
