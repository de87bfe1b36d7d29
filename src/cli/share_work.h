// Work on all threads of this world; each of them then has the same world, and the same rates in force.
//
//   share_work(runs.size(), [&](std::size_t i) { answers[i] = weigh(runs[i]); });
#pragma once

#include <cstddef>
#include <functional>

namespace steelyard {

// Returns when all is done. What a piece of work throws is thrown again here, once.
void share_work(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace steelyard
