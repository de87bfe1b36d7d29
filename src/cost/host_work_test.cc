// What hooks take of the host.
#include "cost/host_work.h"

#include <gtest/gtest.h>

#include <string>

#include "cost/step_time.h"
#include "cost/stretch_time.h"
#include "document/read.h"
#include "job/read.h"

namespace steelyard {
namespace {

// Twelve tensors of six modules.
const HeldParameters kLayer{{}, {}, 12, 6, 1};

// A model so small that the host decides.
Job job_of(const std::string& engine, int devices, const std::string& more = "") {
  const std::string text =
      "model = \"gpt2\"\nengine = \"" + engine +
      "\"\n[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = " + std::to_string(devices) +
      "\n[training]\nsequence_length = 128\nmicro_batch = 1\n" + more;
  const auto document = read_toml(text.c_str(), "run.toml");
  EXPECT_TRUE(document) << text;
  auto job = read_job(*document);
  EXPECT_TRUE(job) << text << (job ? "" : job.error().front().message);
  return *job;
}

double host_seconds(const Job& job) {
  return step_time(job, *usual_machine(*job.cluster.device)).terms[TimeTerm::kHost];
}

TEST(HostWork, OneRankHasHooksUnderZeroAlone) {
  EXPECT_EQ(host_work_of(job_of("ddp", 1)).backward.of(kLayer), 0);
  EXPECT_EQ(host_work_of(job_of("fsdp2", 1)).forward.of(kLayer), 0);
  EXPECT_GT(host_work_of(job_of("fsdp2", 8)).forward.of(kLayer), 0);
  EXPECT_GT(host_work_of(job_of("deepspeed", 1, "[parallel]\nzero_stage = 3\n")).forward.of(kLayer),
            0);
}

// Its layers' code is its own, on one rank as on many; the embedding is nearly plain code.
TEST(HostWork, MegatronsIsOfItsLayers) {
  const HostWork work = host_work_of(job_of("megatron", 1));
  EXPECT_GT(work.forward.of(kLayer), 0);
  EXPECT_EQ(work.forward.of({{}, {}, 1, 1, 0}), 0);
  const double plain = host_seconds(job_of("ddp", 1)), own = host_seconds(job_of("megatron", 1));
  EXPECT_LT(0.5 * plain, own);  // of fewer operators
}

// Its layers' code is its own, too, and other code where tensor ranks divide them, however many; gradients are added up one by one.
TEST(HostWork, NanotronsIsOfItsLayersAndTensors) {
  const auto of = [](int tensor) {
    return host_work_of(
        job_of("nanotron", 8, "[parallel]\ntensor = " + std::to_string(tensor) + "\n"));
  };
  const HostWork one = of(1), two = of(2);
  EXPECT_GT(one.forward.of(kLayer), 0);
  EXPECT_GT(two.forward.of(kLayer), one.forward.of(kLayer));
  EXPECT_GT(two.backward.of(kLayer), one.backward.of(kLayer));
  EXPECT_EQ(two.forward.of(kLayer), of(4).forward.of(kLayer));
  EXPECT_EQ(one.forward.of({{}, {}, 1, 1, 0}), 0);
  EXPECT_GT(one.backward.of({{}, {}, 1, 1, 0}), 0);
  EXPECT_GT(host_work_of(job_of("nanotron", 1)).forward.of(kLayer), 0);
}

TEST(HostWork, AUnitWithoutTensorsHasNoHooks) {
  EXPECT_EQ(host_work_of(job_of("fsdp2", 8)).forward.of({}), 0);
}

// Each hook of ZeRO-3 is Python; FSDP has one set for a layer, DDP one for a gradient.
TEST(HostWork, MoreHooksTakeMoreOfTheHost) {
  const double ddp = host_seconds(job_of("ddp", 8)), fsdp = host_seconds(job_of("fsdp2", 8));
  const double zero = host_seconds(job_of("deepspeed", 8, "[parallel]\nzero_stage = 3\n"));
  EXPECT_LT(ddp, fsdp);
  EXPECT_LT(fsdp, zero);
}

// A graph of a whole iteration has no host, one of modules a launch for each layer.
TEST(HostWork, GraphsReplayWhatTheHostLaunched) {
  const auto of = [](const char* graphs) {
    return host_seconds(job_of("megatron\"\ncuda_graphs = \"" + std::string(graphs), 1));
  };
  EXPECT_LT(of("module"), 0.2 * of("none"));
  EXPECT_GT(of("module"), 0);
  EXPECT_EQ(of("iteration"), 0);
}

// Grace takes longer than x86 for what Python does.
TEST(HostWork, IsOfTheMachinesHost) {
  const Job job = job_of("megatron", 1);
  Machine machine = *usual_machine(*job.cluster.device);
  const double usual = step_time(job, machine).terms[TimeTerm::kHost];
  machine.host_operator = 2;
  EXPECT_GT(step_time(job, machine).terms[TimeTerm::kHost], 1.5 * usual);
  EXPECT_EQ(find_machine("hgx-b200")->host_operator, 1);
  EXPECT_GT(find_machine("gb200-nvl72")->host_operator, 2);
}

// Hosts that check each collective first take so long for each rank of it, whatever it moves.
TEST(HostWork, CheckedCollectivesTakeTheLongerTheMoreRanksTheyHave) {
  constexpr const char* kChecked = "[environment]\nTORCH_DISTRIBUTED_DEBUG = \"DETAIL\"\n";
  const auto of = [&](int tensor, const std::string& more) {
    return host_seconds(job_of("megatron", 8,
                               "[parallel]\ndata = " + std::to_string(8 / tensor) +
                                   "\ntensor = " + std::to_string(tensor) + "\n" + more));
  };
  const double two = of(2, kChecked) - of(2, ""), four = of(4, kChecked) - of(4, "");
  EXPECT_GT(two, 3 * of(2, ""));
  EXPECT_NEAR(four / two, 2, 0.3);
  EXPECT_EQ(of(1, kChecked), of(1, ""));  // nobody to check with, but for the gradients
  EXPECT_FALSE(job_of("megatron", 1, kChecked).checks_collectives);
  EXPECT_FALSE(job_of("megatron", 8, "[environment]\nTORCH_DISTRIBUTED_DEBUG = \"info\"\n")
                   .checks_collectives);
}

// Dropless experts have no fixed shapes: attention and router alone are replayed.
TEST(HostWork, ExpertsAreLaunchedOneByOne) {
  const GraphCapture modules{CudaGraphs::kModule};
  EXPECT_TRUE(captures(modules, LayerPart::kAttention));
  EXPECT_TRUE(captures(modules, LayerPart::kRouter));
  EXPECT_FALSE(captures(modules, LayerPart::kExperts));
  EXPECT_FALSE(captures(modules, LayerPart::kNone));
  EXPECT_TRUE(captures({CudaGraphs::kIteration}, LayerPart::kExperts));
  EXPECT_FALSE(captures({}, LayerPart::kAttention));
}

}  // namespace
}  // namespace steelyard
