// Micro-batches as long as their samples: lengths by their share, and what the allocator makes of many.
#include "predict/varied_lengths.h"

#include <gtest/gtest.h>

#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"

namespace steelyard {
namespace {

constexpr SampleLengths kNews{3234.4, 2547.5};

// A log-normal distribution's median is mean / sqrt(1 + (deviation / mean)^2).
TEST(VariedLengths, HalfOfAllAreShorterThanTheMedian) {
  EXPECT_EQ(padded_length(kNews, 100'000, 1, 0.5), 2541);
  EXPECT_EQ(padded_length(kNews, 2048, 1, 0.5), 2048);
  EXPECT_EQ(padded_length({1000, 0}, 2048, 4, 0.1), 1000);
}

TEST(VariedLengths, DroppedSamplesLeaveTheShorterOnes) {
  SampleLengths dropped = kNews;
  dropped.drops_long = true;
  const std::int64_t half = padded_length(dropped, 2048, 1, 0.5);
  EXPECT_GT(half, 1024);
  EXPECT_LT(half, 2048);
  EXPECT_LE(padded_length(dropped, 2048, 1, 0.999), 2048);
}

TEST(VariedLengths, TheLongestOfManySamplesDecides) {
  EXPECT_GT(padded_length(kNews, 100'000, 8, 0.5), padded_length(kNews, 100'000, 1, 0.5));
}

Prediction weighed(const std::string& packing) {
  const std::string run =
      "engine = \"ddp\"\nmodel = \"smollm2-135m\"\n[cluster]\ndevice = \"a100-sxm-80gb\"\n"
      "devices = 1\n[training]\nsequence_length = 2048\ngradient_accumulation = 4\n" +
      packing;
  ReadJob job = read_job(*read_toml(run, "run"));
  if (!job) throw std::runtime_error(job.error().front().message);
  return predict(*job);
}

// What is allocated is that of the longest micro-batch; more is reserved, since blocks of other lengths do not fit.
TEST(VariedLengths, MoreIsReservedThanForEqualLengths) {
  const Prediction equal = weighed("");
  const Prediction varied = weighed(
      "packing = \"padded\"\nmean_length = 1500\nlength_deviation = 1000\nlong_samples = "
      "\"dropped\"\n");
  EXPECT_EQ(varied.peak.allocated, equal.peak.allocated);
  EXPECT_GT(varied.peak.reserved, equal.peak.reserved);
  EXPECT_GE(varied.peak.high, varied.peak.reserved);
  // The order of lengths is no chance: the same run is answered alike.
  EXPECT_EQ(weighed("packing = \"padded\"\nmean_length = 1500\nlength_deviation = 1000\n"
                    "long_samples = \"dropped\"\n")
                .peak.reserved,
            varied.peak.reserved);
}

}  // namespace
}  // namespace steelyard
