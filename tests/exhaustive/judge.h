// Holds a job's prediction to the replay of every single event.
//
//   judge(job)    "" where all is sound, else the first thing that is not, in words
//
// What is held, for every stage of the pipeline:
//   estimate() and estimate_by_replay() give the same bytes in every pile of every phase
//   the moment that find_peak() names has exactly the peak's height, and nothing is there a negative number of times
//   nothing is freed that is not alive
//   a step leaves behind exactly what load and the optimizer's states hold: a second step peaks where the first did
#pragma once

#include <string>

#include "job/job.h"

namespace steelyard {

std::string judge(const Job& job);

// The same slots, in the same order, with the same bytes, when the sizes are traced; and each formula's elements fill
// its slot's bytes but for the rounding. Each slot's rule is written down.
std::string judge_formulas(const Job& job);

}  // namespace steelyard
