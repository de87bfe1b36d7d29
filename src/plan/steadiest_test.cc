#include "plan/steadiest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "document/read.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "predict/draw.h"

namespace steelyard {
namespace {

// Megatron's layouts draw here; among all stacks the fastest is the steadiest, too.
Value run(const std::string& cluster) {
  return *read_toml("model = \"llama-3.2-3b\"\nengine = \"megatron\"\n[cluster]\n" + cluster,
                    "run.toml");
}

PlanAnswer answer_of(const std::string& cluster, bool steady = true) {
  const SearchHelp help = serial_help();
  PlanWish wish;
  wish.explain = false;
  wish.steady = steady;
  return plan(*question_of(run(cluster), help), wish, help);
}

TEST(Steadiest, IsPlannedWhereNobodySaysWhatTheMachinesAre) {
  const std::string devices = "device = \"h100-sxm-80gb\"\ndevices = 32\n";
  const PlanAnswer steady = answer_of(devices), fastest = answer_of(devices, false),
                   said = answer_of(devices + "machine = \"hgx-h100\"\n");
  ASSERT_TRUE(steady.steadiness);
  const PlanRow &best = steady.rows.front(), &other = fastest.rows.front();
  EXPECT_FALSE(best.layout == other.layout);
  EXPECT_TRUE(steady.rows[1].layout == other.layout);
  EXPECT_LE(best.time.step.value(), other.time.step.value() * (1 + kDraw));
  EXPECT_LT(steady.steadiness->there.step.value(), steady.steadiness->fastest_there.value());
  EXPECT_FALSE(fastest.steadiness || said.steadiness);
  EXPECT_TRUE(said.rows.front().layout == other.layout);

  // What is said of the machine is what a run on it takes.
  const std::vector<OnMachine> ours = step_on_machines(best.job);
  const std::string there = steady.steadiness->there.machine->name;
  const auto on = std::find_if(ours.begin(), ours.end(),
                               [&](const OnMachine& one) { return one.machine->name == there; });
  ASSERT_NE(on, ours.end());
  Value named = best.run;
  set_path(named, "cluster.machine", Value::string(there), Place{});
  const ReadJob job = serial_help().read(named);
  ASSERT_TRUE(job);
  EXPECT_DOUBLE_EQ(predict_time(*job)->step.value(), on->step.value());
}

TEST(Steadiest, OneMachineIsWhatItIs) {
  EXPECT_FALSE(answer_of("device = \"h100-sxm-80gb\"\ndevices = 8\n").steadiness);
}

}  // namespace
}  // namespace steelyard
