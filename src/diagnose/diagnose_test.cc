// Verdicts that rest on no snapshot: dumps of several ranks, and a framework's own lines.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diagnose/diagnosis.h"
#include "evidence/log_reader.h"

namespace steelyard {
namespace {

Diagnosis of_log(const std::string& text) {
  DiagnosisQuestion question;
  question.evidence.push_back(read_log(text, "train.log"));
  return diagnose(question);
}

MemoryFailure held_up_by(std::int64_t rank, const std::string& file) {
  MemoryFailure failure;
  failure.kind = MemoryFailure::Kind::kCollectiveTimeout;
  failure.backend = "flight recorder";
  failure.rank = rank;
  failure.message = "rank " + std::to_string(rank) + " has not begun all_to_all 7 of EXPERT";
  failure.place = {file, "entries[0]"};
  return failure;
}

// Each rank that holds the others up is as much the cause as the first.
TEST(Diagnose, AllRanksThatHoldTheOthersUpAreNamed) {
  DiagnosisQuestion question;
  for (const std::int64_t rank : {10, 15}) {
    Evidence dump;
    dump.kind = "flight recorder";
    dump.file = "_dump_" + std::to_string(rank + 1);
    dump.failures.push_back(held_up_by(rank, dump.file));
    question.evidence.push_back(dump);
  }
  const Diagnosis diagnosis = diagnose(question);
  EXPECT_EQ(diagnosis.verdict, Cause::kNotMemory);
  ASSERT_EQ(diagnosis.findings.size(), 1U);
  ASSERT_EQ(diagnosis.findings[0].proof.size(), 2U);
  EXPECT_EQ(diagnosis.findings[0].proof[0].text, "rank 10 has not begun all_to_all 7 of EXPERT");
  EXPECT_EQ(diagnosis.findings[0].proof[1].text, "rank 15 has not begun all_to_all 7 of EXPERT");
  EXPECT_EQ(diagnosis.findings[0].proof[1].source.file, "_dump_16");
}

std::string line_of(std::int64_t rank, const std::string& most) {
  return "[Rank " + std::to_string(rank) +
         "] (after 1 iterations) memory (MB) | allocated: 1000.0 | max allocated: " + most +
         " | reserved: 21000.0 | max reserved: 22000.0\n";
}

// Five stages of two tensor ranks, each with a micro-batch less in flight; the last has the head.
std::string log_of_stages() {
  std::string log;
  const std::vector<std::string> peaks = {"19961.0", "17461.0", "17189.0", "16917.0", "18175.0"};
  for (std::size_t stage = 0; stage < peaks.size(); ++stage)
    for (std::size_t tensor = 0; tensor < 2; ++tensor)
      log += line_of(static_cast<std::int64_t>(2 * stage + tensor), peaks[stage]);
  return log;
}

TEST(Diagnose, TheFirstStageOfARunThatLivesIsNoFault) {
  const Diagnosis diagnosis = of_log(log_of_stages());
  EXPECT_EQ(diagnosis.verdict, Cause::kHealthy);
  ASSERT_EQ(diagnosis.findings.size(), 1U);
  EXPECT_EQ(diagnosis.findings[0].cause, Cause::kPipelineFirstStage);
  ASSERT_TRUE(diagnosis.highest);
  EXPECT_EQ(diagnosis.highest->allocated, Bytes(std::int64_t{19961} << 20));
  EXPECT_EQ(diagnosis.highest->reserved, Bytes(std::int64_t{22000} << 20));
  EXPECT_EQ(diagnosis.highest->rank, 0);
  EXPECT_EQ(diagnosis.highest->ranks, 10U);
  EXPECT_EQ(diagnosis.highest->least_rank, 6);
  EXPECT_EQ(diagnosis.highest->least, Bytes(std::int64_t{16917} << 20));
}

TEST(Diagnose, TheFirstStageEndsNoRunThatWasCancelled) {
  const Diagnosis diagnosis =
      of_log(log_of_stages() +
             "slurmstepd: error: *** JOB 1809579 ON r8i3n1 CANCELLED AT 2021-05-23T08:45:57 ***\n");
  EXPECT_EQ(diagnosis.verdict, Cause::kNotMemory);
  EXPECT_EQ(diagnosis.findings.size(), 1U);
}

TEST(Diagnose, ALogWithoutNumbersHasNoHighest) {
  EXPECT_FALSE(of_log("step 1 loss 2.5\n").highest);
  EXPECT_EQ(of_log("step 1 loss 2.5\n").verdict, Cause::kHealthy);
}

// What no reader knows as a death of memory is quoted: its line is what one looks for.
TEST(Diagnose, AFailureThatIsNoAllocationIsQuoted) {
  const Diagnosis diagnosis =
      of_log("slurmstepd: error: *** JOB 1809579 ON r8i3n1 CANCELLED AT 2021-05-23T08:45:57 ***\n");
  EXPECT_EQ(diagnosis.verdict, Cause::kNotMemory);
  ASSERT_FALSE(diagnosis.findings.empty());
  EXPECT_NE(diagnosis.findings[0].proof[0].text.find("CANCELLED AT"), std::string::npos)
      << diagnosis.findings[0].proof[0].text;
}

}  // namespace
}  // namespace steelyard
