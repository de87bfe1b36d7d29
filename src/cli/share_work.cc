#include "cli/share_work.h"

#include <atomic>
#include <exception>
#include <mutex>

#include "cost/achieved_rates.h"
#include "world/world.h"

namespace steelyard {

void share_work(std::size_t count, const std::function<void(std::size_t)>& work) {
  World& here = world();
  const AchievedRates* rates = rates_in_force();
  std::mutex first;
  std::exception_ptr fault;
  std::atomic<bool> failed{false};
  here.share(count, [&](std::size_t i) {
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
