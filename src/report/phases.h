// Phases against piles, and the three questions that decide what to change.
//
//   rank 0, GiB    param   grad  moments  activ.   temp   comm   total
//     load           3.7      -        -       -    0.5      -     4.2
//     backward       3.7      -      7.5    33.5    9.8    2.0    56.5  <- peak
//
//   activations?       yes: 33.5 of 56.5 GiB allocated
//   optimizer state?   no: 7.5 GiB, 13 % of allocated
//   replication?       no: each parameter is stored once
#pragma once

#include <string>

#include "report/weighing.h"

namespace steelyard {

// `rank_index` of prediction.ranks.
std::string phases_table(const Weighing& weighing, std::size_t rank_index, const Style& style);
std::string three_questions(const Weighing& weighing, const Style& style);

// The whole answer of --phases: the verdict, the table of the fullest rank, the three questions,
// where to look next.
std::string phases_text(const Weighing& weighing, const Style& style);

}  // namespace steelyard
