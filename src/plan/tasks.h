// Pieces of work of any size, handed out largest first, so that all workers end together.
//
//   Tasks tasks(help);
//   tasks.add(90, [&] { ... });   the size in any unit
//   tasks.run();                  returns when all are done
#pragma once

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "plan/search.h"

namespace steelyard {

class Tasks {
 public:
  explicit Tasks(const SearchHelp& help) : help_(help) {}

  void add(std::size_t size, std::function<void()> work) {
    tasks_.emplace_back(size, std::move(work));
  }
  void run() {
    std::stable_sort(tasks_.begin(), tasks_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    help_.share(tasks_.size(), [&](std::size_t i) { tasks_[i].second(); });
  }

 private:
  const SearchHelp& help_;
  std::vector<std::pair<std::size_t, std::function<void()>>> tasks_;
};

}  // namespace steelyard
