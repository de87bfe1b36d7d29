// Work on all threads of this world; each of them then has the same world, and the same rates in force.
//
//   share_work(runs.size(), [&](std::size_t i) { answers[i] = weigh(runs[i]); });
#pragma once

#include <cstddef>
#include <functional>

#include "cli/command.h"

namespace steelyard {

// Returns when all is done. What a piece of work throws is thrown again here, once. Pieces are handed out one by one: who needs
// an order keeps its answers by number. `threads`: 0 for all that the world has.
void share_work(std::size_t count, const std::function<void(std::size_t)>& work,
                std::size_t threads = 0);

// What --threads says; 0 where it says nothing, or no number.
std::size_t threads_of(const Invocation& invocation);

}  // namespace steelyard
