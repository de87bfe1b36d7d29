// What must hold of any predicted step: its terms sum to it, no rank is busy for longer, better hardware never slows it.
#include <gtest/gtest.h>

#include <string>

#include "cost/step_time.h"
#include "document/read.h"
#include "job/read.h"
#include "random_jobs.h"

namespace steelyard {
namespace {

constexpr std::uint64_t kFirstSeed = 5'000'000;
constexpr int kJobs = 10'000;

Device faster(Device device, double arithmetic, double memory, double links) {
  for (auto* rate : {&device.rates.fp32, &device.rates.tf32, &device.rates.fp16, &device.rates.bf16,
                     &device.rates.fp8, &device.rates.int8})
    if (*rate) *rate = FlopsPerSecond((*rate)->value() * arithmetic);
  device.memory_bandwidth = BytesPerSecond(device.memory_bandwidth.value() * memory);
  device.link = BytesPerSecond(device.link.value() * links);
  device.host_link = BytesPerSecond(device.host_link.value() * links);
  return device;
}

TEST(StepTimes, HoldTogetherOnRandomJobs) {
  int timed = 0;
  for (int i = 0; i < kJobs && !testing::Test::HasFailure(); ++i) {
    const std::uint64_t seed = kFirstSeed + static_cast<std::uint64_t>(i);
    const RunFile run_file = random_job(seed);
    const ReadJob job = read_job(*read_json(run_file.dump(), "job"));
    if (!job) continue;
    const Device& device = *job->cluster.device;
    const Machine* machine = usual_machine(device);
    if (machine == nullptr) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + run_file.dump());
    ++timed;
    const StepClock clock(*job);
    const StepTime time = clock.read(device, *machine);
    const double step = time.step.value();
    EXPECT_GT(step, 0);
    EXPECT_NEAR(time.terms.total() / step, 1, 1e-12);
    for (const double seconds : time.terms.seconds) EXPECT_GE(seconds, 0);
    for (const double seconds : time.hidden.seconds) EXPECT_GE(seconds, 0);
    EXPECT_LE(time.low.value(), step * (1 + 1e-12));
    EXPECT_GE(time.high.value(), step * (1 - 1e-12));
    EXPECT_LE(time.model_flops, time.executed_flops * (1 + 1e-12));
    // The busiest rank is a path through the step: without its bubble it is no longer.
    EXPECT_LE(step - time.terms[TimeTerm::kBubble], step * (1 + 1e-12));
    const auto never_slower = [&](const char* what, const Device& other, const Machine& around) {
      EXPECT_LE(clock.read(other, around, Outlook::kExpected).step.value(), step * (1 + 1e-9))
          << what;
    };
    never_slower("arithmetic", faster(device, 2, 1, 1), *machine);
    never_slower("memory", faster(device, 1, 2, 1), *machine);
    never_slower("links", faster(device, 1, 1, 2), *machine);
    Machine wider = *machine;
    wider.interface_bandwidth = BytesPerSecond(machine->interface_bandwidth.value() * 2);
    wider.host_memory_bandwidth = BytesPerSecond(machine->host_memory_bandwidth.value() * 2);
    never_slower("network", device, wider);
  }
  EXPECT_GE(timed, kJobs / 2);
}

TEST(StepTimes, EveryPassageOfAPlayedStepHasItsTerms) {
  for (int i = 0; i < kJobs / 20 && !testing::Test::HasFailure(); ++i) {
    const std::uint64_t seed = kFirstSeed + static_cast<std::uint64_t>(i);
    const RunFile run_file = random_job(seed);
    const ReadJob job = read_job(*read_json(run_file.dump(), "job"));
    if (!job || usual_machine(*job->cluster.device) == nullptr) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + run_file.dump());
    const StepPlay play =
        StepClock(*job).play(*job->cluster.device, *usual_machine(*job->cluster.device));
    EXPECT_FALSE(play.passages.empty());
    for (const StepPlay::Passage& passage : play.passages)
      EXPECT_NEAR(passage.terms.total(), passage.end - passage.start, 1e-9);
  }
}

}  // namespace
}  // namespace steelyard
