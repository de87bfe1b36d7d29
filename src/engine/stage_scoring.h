// What a model that scores leaves on its rank for the forwards that follow.
#pragma once

#include <vector>

#include "job/job.h"
#include "ledger/program.h"

namespace steelyard {

// Of `engine`, in a program in which that model is drawn; nothing where all that was gathered is let go.
std::vector<Event> root_left_whole(Engine engine, const Program& program);

}  // namespace steelyard
