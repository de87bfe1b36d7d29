// What `explain` lists of a pile sums to that pile of the prediction, on random jobs of every engine.
#include "predict/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "random_jobs.h"

namespace steelyard {
namespace {

constexpr std::uint64_t kFirstSeed = 4'000'000;

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

Job job_of(std::uint64_t seed) { return *read_job(*read_json(random_job(seed).dump(), "job")); }

// Every pile of the fullest rank's peak, entry by entry, by the formulas.
TEST(Explanations, SumToTheirPile) {
  const std::uint64_t jobs = setting("STEELYARD_EXPLAINED_JOBS", 150);
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + jobs && !testing::Test::HasFailure();
       ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + random_job(seed).dump());
    const Job job = job_of(seed);
    const Prediction prediction = predict(job);
    const RankPrediction* fullest = &prediction.ranks.front();
    for (const RankPrediction& rank : prediction.ranks)
      if (rank.rank == prediction.peak.rank) fullest = &rank;
    const auto highest = std::find_if(
        fullest->phases.begin(), fullest->phases.end(),
        [&](const PhasePrediction& phase) { return phase.phase == prediction.peak.phase; });
    ASSERT_NE(highest, fullest->phases.end());
    const Piles& piles = highest->piles;
    for (std::size_t i = 0; i < kPileCount; ++i) {
      const auto pile = static_cast<Pile>(i);
      if (piles[pile] == Bytes{}) continue;  // it is shown where it is largest
      const Explained explained = explain(job, name_of(pile));
      ASSERT_TRUE(explained.derivation.has_value()) << name_of(pile);
      EXPECT_EQ(explained.derivation->total, piles[pile]) << name_of(pile);
    }
  }
}

}  // namespace
}  // namespace steelyard
