// What waits beside the device, is kept twice or is stepped at once: sound tapes, and bytes that a reader can add up.
#include "engine/engine_check.h"
#include "engine/host_memory.h"

namespace steelyard {
namespace {

constexpr const char* kModel =
    "model = { model_type = \"llama\", hidden_size = 256, num_hidden_layers = 6, "
    "num_attention_heads = 8, num_key_value_heads = 4, intermediate_size = 512, "
    "vocab_size = 1024, max_position_embeddings = 512, tie_word_embeddings = false }\n";

Job run_of(const std::string& engine, const std::string& rest, int devices = 4) {
  return job_of("engine = \"" + engine + "\"\n" + kModel +
                "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = " + std::to_string(devices) +
                "\n" + rest);
}
constexpr const char* kTraining = "[training]\nsequence_length = 256\ngradient_clip = false\n";

std::int64_t in(const Job& job, HostPlace place) {
  StagePrograms<Checked> stages(job);
  stages.build(0);
  return stages.host(0).in(place).value().value();
}
// Tensors are padded and rounded: never less than by hand, and little more.
void expect_about(std::int64_t bytes, std::int64_t by_hand) {
  EXPECT_GE(bytes, by_hand);
  EXPECT_LT(bytes, by_hand + by_hand / 100);
}
std::int64_t parameters_of(const Job& job) { return count_parameters(*job.model).total; }

TEST(Offload, PinnedBlocksArePowersOfTwo) {
  EXPECT_EQ(pinned_block(Bytes(1)), Bytes(1));
  EXPECT_EQ(pinned_block(Bytes(4096)), Bytes(4096));
  EXPECT_EQ(pinned_block(Bytes(4097)), Bytes(8192));
  EXPECT_EQ(pinned_block(Bytes{}), Bytes{});
}

TEST(Offload, IsSoundWithEveryEngine) {
  const std::string training = kTraining;
  for (const Job& job :
       {run_of("fsdp1", training + "[offload]\nparameters = \"cpu\"\n"),
        run_of("fsdp2", training + "[offload]\nparameters = \"cpu\"\n"),
        run_of("fsdp2", training + "gradient_accumulation = 3\n[offload]\noptimizer = \"cpu\"\n"),
        run_of("deepspeed",
               training + "[parallel]\nzero_stage = 1\n[offload]\noptimizer = \"cpu\"\n"),
        run_of("deepspeed", training + "gradient_accumulation = 3\n[parallel]\nzero_stage = 2\n"
                                       "[offload]\noptimizer = \"cpu\"\n"),
        run_of("deepspeed", training +
                                "[parallel]\nzero_stage = 3\n[offload]\noptimizer = \"nvme\"\n"
                                "parameters = \"nvme\"\n"),
        run_of("deepspeed", training + "[parallel]\nzero_stage = 3\nsecondary_shard = 2\n"),
        run_of("deepspeed", training + "[parallel]\nzero_stage = 3\nshard_group = 2\n"),
        run_of("megatron", training + "[parallel]\nzero_stage = 1\n[offload]\noptimizer = \"cpu\"\n"
                                      "optimizer_fraction = 0.5\n"),
        run_of("megatron",
               training + "[parallel]\nzero_stage = 1\n[types]\nfirst_moment = \"fp8\"\n"),
        run_of("ddp", training + "[offload]\nactivations = \"cpu\"\n"),
        run_of("ddp",
               training + "[offload]\nactivations = \"cpu\"\n[recompute]\nmode = \"full\"\n"),
        run_of("ddp", training + "precision = \"bf16-pure\"\noptimizer_in_backward = true\n", 1)})
    expect_sound(job);
}

// 4 + 4 bytes of each share are pinned, the moments' 8 are not, and nothing stays on the device.
TEST(Offload, Fsdp2KeepsNothingBetweenSteps) {
  const Job job = run_of("fsdp2", std::string(kTraining) + "[offload]\nparameters = \"cpu\"\n");
  const std::int64_t share = parameters_of(job) / 4;
  expect_about(in(job, HostPlace::kPageable), 8 * share);
  EXPECT_GE(in(job, HostPlace::kPinned), 8 * share);
  EXPECT_LT(in(job, HostPlace::kPinned), 16 * share);
  const Piles between = resident(job);
  EXPECT_EQ(between[Pile::kParameters].value().value(), kRotaryFrequencies);
  EXPECT_EQ(between[Pile::kOptimizerMoments], Bytes{});
}

// hpZ: two bytes of each parameter more on each of the ranks of a group, gone after the step.
TEST(Offload, TheSecondCopyIsDividedByItsGroup) {
  const std::string rest = std::string(kTraining) + "[parallel]\nzero_stage = 3\n";
  const std::string whole = "[buckets]\npersistence = 0\n";
  const Job plain = run_of("deepspeed", rest + whole);
  const Job twice = run_of("deepspeed", rest + "secondary_shard = 2\n" + whole);
  EXPECT_EQ(resident(plain).total(), resident(twice).total());
  StagePrograms<Checked> one(plain), two(twice);
  const auto highest = [](StagePrograms<Checked>& stages) {
    return stages.program().span(stages.build(0).root).peak[static_cast<int>(Phase::kOptimizer)];
  };
  EXPECT_GE(highest(two) - highest(one), parameters_of(plain));  // 2·P/2, each tensor rounded
}

// MiCS: as many ranks share a copy as the group has, whatever stands beside it.
TEST(Offload, AGroupOfShardsIsAsASmallerCluster) {
  const std::string rest = std::string(kTraining) + "[parallel]\nzero_stage = 3\n";
  EXPECT_EQ(resident(run_of("deepspeed", rest + "shard_group = 4\n", 16)),
            resident(run_of("deepspeed", rest, 4)));
}

// 2 + 8 bytes of the share instead of 12, and fewer with narrow moments.
TEST(Offload, APrecisionAwareOptimizerKeepsRemainders) {
  const std::string rest = std::string(kTraining) + "[parallel]\nzero_stage = 1\n";
  const auto states = [](const Job& job) {
    const Piles piles = resident(job);
    return (piles[Pile::kMasterWeights] + piles[Pile::kOptimizerMoments]).value().value();
  };
  const Job plain = run_of("megatron", rest);
  const std::int64_t share = parameters_of(plain) / 4;
  expect_about(states(plain), 12 * share);
  expect_about(states(run_of("megatron", rest + "[types]\nmaster = \"fp32\"\n")), 10 * share);
  const std::int64_t narrow = states(
      run_of("megatron", rest + "[types]\nfirst_moment = \"bf16\"\nsecond_moment = \"bf16\"\n"));
  EXPECT_GT(narrow, 6 * share);  // and a scale for each tensor
  EXPECT_LT(narrow, 7 * share);
}

TEST(Offload, MegatronTakesItsFraction) {
  const auto held = [](const char* fraction) {
    const Piles piles = resident(
        run_of("megatron", std::string(kTraining) + "[parallel]\nzero_stage = 1\n[offload]\n" +
                               "optimizer = \"cpu\"\noptimizer_fraction = " + fraction + "\n"));
    return (piles[Pile::kMasterWeights] + piles[Pile::kOptimizerMoments]).value().value();
  };
  const std::int64_t all = held("0.0");
  EXPECT_GT(all, 0);
  EXPECT_EQ(held("1.0"), 0);
  EXPECT_LT(held("0.5"), all / 2 + 1);
  EXPECT_GT(held("0.5"), all / 3);
}

// What is saved waits on the host: no layer keeps anything.
TEST(Offload, ActivationsLeaveTheDevice) {
  const Job job = run_of("ddp", std::string(kTraining) + "[offload]\nactivations = \"cpu\"\n", 1);
  StagePrograms<Checked> stages(job);
  EXPECT_TRUE(stages.kept_of_kind(0, false).empty());
  EXPECT_GT(in(job, HostPlace::kPinned), 0);
}

}  // namespace
}  // namespace steelyard
