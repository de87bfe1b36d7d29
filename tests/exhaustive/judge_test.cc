// Spans against the replay of every event, over random jobs. STEELYARD_JUDGED_JOBS sets how many, STEELYARD_FIRST_SEED
// where to begin: STEELYARD_JUDGED_JOBS=10000 steelyard_exhaustive_tests
#include "judge.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "random_jobs.h"

namespace steelyard {
namespace {

std::uint64_t setting(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

// The smallest job that shows a defect is worth more than its first: each refusal prints one job for each message.
class Findings {
 public:
  void add(const std::string& wrong, std::uint64_t seed, const RunFile& job) {
    Finding& finding = findings_[wrong];
    ++finding.times;
    const std::string text = job.dump();
    if (finding.job.empty() || text.size() < finding.job.size())
      finding = {finding.times, seed, text};
  }
  void report() const {
    for (const auto& [wrong, finding] : findings_)
      ADD_FAILURE() << wrong << "\n  in " << finding.times << " jobs, as seed " << finding.seed
                    << ": " << finding.job;
  }

 private:
  struct Finding {
    int times = 0;
    std::uint64_t seed = 0;
    std::string job;
  };
  std::map<std::string, Finding> findings_;
};

TEST(Judge, AgreesWithTheSpansOnRandomJobs) {
  const std::uint64_t first = setting("STEELYARD_FIRST_SEED", 1);
  const std::uint64_t jobs = setting("STEELYARD_JUDGED_JOBS", 4'000);
  Findings findings;
  for (std::uint64_t seed = first; seed < first + jobs; ++seed) {
    const RunFile run_file = random_job(seed);
    const ReadJob job = read_job(*read_json(run_file.dump(), "job"));
    ASSERT_TRUE(job);
    if (const std::string wrong = judge(*job); !wrong.empty()) findings.add(wrong, seed, run_file);
    if (seed % 16 != 0) continue;
    if (const std::string wrong = judge_formulas(*job); !wrong.empty())
      findings.add(wrong, seed, run_file);
  }
  findings.report();
}

TEST(Judge, EveryMutatedJobIsRefused) {
  const std::uint64_t first = setting("STEELYARD_FIRST_SEED", 1);
  const std::uint64_t jobs = setting("STEELYARD_JUDGED_JOBS", 4'000);
  int accepted = 0;
  for (std::uint64_t seed = first; seed < first + jobs && accepted < 10; ++seed) {
    const std::string line = mutated_line(seed);
    const auto document = read_json(line, "job");
    if (!document) continue;
    const ReadJob job = read_job(*document);
    if (!job) {
      EXPECT_FALSE(job.error().empty()) << line;
      continue;
    }
    try {
      estimate(*job);
    } catch (const OverflowError&) {
      continue;  // more bytes than 64 bits hold: what answers jobs turns it into an error
    }
    ++accepted;
    ADD_FAILURE() << "weighed, seed " << seed << ": " << line.substr(0, 2'000);
  }
}

TEST(RandomJobs, AreTheSameForTheSameSeed) {
  EXPECT_EQ(random_job(42).dump(), random_job(42).dump());
  EXPECT_NE(random_job(42).dump(), random_job(43).dump());
  EXPECT_EQ(mutated_line(7), mutated_line(7));
}

// What is thrown must reach every corner, or its silence says nothing.
TEST(RandomJobs, ReachEveryEngineRecipeAndLayout) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed <= 700; ++seed) {
    const ReadJob job = read_job(*read_json(random_job(seed).dump(), "job"));
    ASSERT_TRUE(job);
    const Parallel& parallel = job->parallel;
    ++seen["engine " + std::string(name_of(job->engine)) + " " +
           std::to_string(parallel.zero_stage)];
    ++seen["recompute " + std::string(name_of(job->recompute.mode))];
    ++seen["attention " + std::string(name_of(job->training.attention))];
    ++seen["loss " + std::string(name_of(job->training.loss))];
    ++seen["precision " + job->training.precision.name];
    ++seen["optimizer " + job->training.optimizer.name];
    ++seen["form " + std::string(name_of(job->training.optimizer_form))];
    ++seen["implementation " + std::string(name_of(job->implementation))];
    ++seen["family " + job->model->family];
    ++seen[job->model->tied_head ? "tied" : "untied"];
    if (parallel.pipeline > 1) ++seen["schedule " + std::string(name_of(parallel.schedule))];
    if (parallel.pipeline > 1 && parallel.tensor > 1 && parallel.data > 1) ++seen["all three"];
    if (parallel.context > 1) ++seen["context"];
    if (parallel.expert > 1) ++seen["experts"];
  }
  // 16 pairs of engine and stage, 6 + 3 + 3 + 8 + 19 + 3 + 5 names, 29 families, 2 heads, 2 schedules, all three
  EXPECT_GE(seen.size(), 96U);
  EXPECT_GE(seen["all three"], 10);
  EXPECT_GE(seen["schedule gpipe"], 10);
  EXPECT_GE(seen["context"], 20);
  EXPECT_GE(seen["experts"], 10);
}

}  // namespace
}  // namespace steelyard
