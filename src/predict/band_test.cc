#include "predict/band.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"

namespace steelyard {
namespace {

Job job_of(const std::string& engine, const std::string& rest = "") {
  const auto document = read_document(
      "model = \"llama-3.2-1b\"\nengine = \"" + engine +
          "\"\n[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = 8\n[training]\nsequence_length = "
          "4096\n" +
          rest,
      "run.toml");
  return *read_job(*document);
}

TEST(Band, EveryTermHasAnErrorWithItsSource) {
  std::set<std::string> known;
  for (const ObservedError& error : observed_errors()) {
    EXPECT_LE(error.low, 0) << error.engine << " " << error.term;
    EXPECT_GE(error.high, 0) << error.engine << " " << error.term;
    // Of slack, in parts of what is allocated, there can be more.
    if (error.term != "slack") {
      EXPECT_GT(error.low, -1) << error.engine << " " << error.term;
    }
    EXPECT_FALSE(error.source.empty());
    EXPECT_TRUE(known
                    .insert(error.engine + " " + error.implementation + " " + error.layout + " " +
                            error.term)
                    .second);
  }
  for (const char* term : {"states", "working", "slack"})
    EXPECT_EQ(observed_error("an engine of tomorrow", "its own", term).engine, "any");
}

// By hand: states 40 with the error of states, working 30 with its own.
TEST(Band, TheEndsOfTheTermsAddUp) {
  const Job job = job_of("nanotron");
  BandTerms terms;
  terms.piles[Pile::kParameters] = 40_GiB;
  terms.piles[Pile::kActivations] = 30_GiB;
  const double states = 40 * observed_error("nanotron", "nanotron", "states").high;
  const double working = 30 * observed_error("nanotron", "nanotron", "working", "one rank").high;
  const ErrorBand band(job);
  const Bytes above = band.around(70_GiB, terms).high - 70_GiB;
  EXPECT_NEAR(static_cast<double>(above.value().value()) / (1 << 30), states + working, 1e-6);
  EXPECT_TRUE(band.around(70_GiB, terms).contains(70_GiB));
  // A runtime that is known adds nothing, one that is not does.
  RuntimeBytes runtime{1_GiB, 1_GiB, 1_GiB, "", ""};
  terms.runtime = &runtime;
  EXPECT_EQ(band.around(71_GiB, terms).high, 71_GiB + above);
  runtime.high = 9_GiB;
  EXPECT_EQ(band.around(71_GiB, terms).high, 79_GiB + above);
}

}  // namespace
}  // namespace steelyard
