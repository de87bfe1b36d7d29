// The stages of a pipeline that the allocator is played for, where only the fullest one is shown.
//
//   stage      1     2     3     4    ...   16
//   allocated  79.9  83.1  78.0  73.2       23.0    GiB
//   played     yes   yes   yes   no         no      the others cannot come to the fullest stage's numbers
//
// Stages without embedding and head play the same tapes, so the allocator reserves about the same share beyond what each
// allocates. Of those the fullest is played first, and another one only if its own peak, with the largest share that a played
// one needed, a sixth and half a GiB, may raise the peak or an end of its band. Beyond the share the bytes themselves change
// little from stage to stage (405B with 32 stages: 5.4 GiB of 34.6 in the second, 4.6 of 21.4 in the last but eight): once two
// have been played, four thirds of the most that one of them needed, and half a GiB, are enough. Stages with an end share
// nothing with others:
// they are played, unless four times what they allocate and a GiB raises nothing (most_reserved(), predict/reserve.h).
// No proof stands behind these margins: tests/exhaustive/decided_test.cc holds the answers to those of all stages played.
#pragma once

#include <functional>
#include <vector>

#include "ledger/pile.h"
#include "predict/band.h"
#include "predict/reserve.h"
#include "predict/runtime.h"

namespace steelyard {

struct StageNeed {
  Bytes allocated{};     // highest of the first step and of later ones
  Piles piles;           // at the peak of a later step
  Bytes most{};          // more than the allocator comes to reserve, whatever the stage is
  bool has_end = false;  // embedding or head
  StageReserve reserve;  // estimated, or as the allocator was played
};

// Replaces the estimated reserve of every stage that may be the fullest by what `play` answers. False: one was over what it
// was played for (StageReserve::is_over), and those after it were not played.
bool play_fullest(std::vector<StageNeed>& stages, const ErrorBand& observed,
                  const RuntimeBytes& runtime, const AllocatorRoom& room,
                  const std::function<StageReserve(std::size_t stage)>& play);

}  // namespace steelyard
