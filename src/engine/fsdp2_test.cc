// FSDP2's buffers where a hand can count them, and its tables where PyTorch was recorded.
#include "engine/engine_check.h"
#include "engine/fsdp2_copies.h"

namespace steelyard {
namespace {

Job job(const std::string& more, int data, const char* head = "true") {
  return job_of(
      "engine = \"fsdp2\"\n" + more +
      "model = { model_type = \"llama\", vocab_size = 128256, hidden_size = 2048, "
      "intermediate_size = 8192, num_hidden_layers = 4, num_attention_heads = 32, "
      "num_key_value_heads = 8, tie_word_embeddings = " +
      head + " }\n[cluster]\ndevice = \"h200-sxm\"\ndevices = " + std::to_string(data) +
      "\n[training]\nsequence_length = 1024\nmicro_batch = 2\nprecision = \"bf16-mixed\"\n");
}

// How many of `name` are alive at the peak of a phase.
std::int64_t alive(const Job& job, Phase phase, const std::string& owner, const std::string& name) {
  StagePrograms<Checked> stages(job);
  const PeakMoment moment = find_peak(stages.program(), stages.build(0).root, phase);
  std::int64_t count = 0;
  for (std::size_t i = 0; i < moment.alive.size(); ++i) {
    const Slot& slot = stages.program().slot_at(static_cast<SlotId>(i));
    if (slot.owner == owner && slot.name == name) count += moment.alive[i];
  }
  return count;
}

// The peak is the loss: transformers' model returns it, and with it the root's hook has fired; torchtitan's returns
// logits.
TEST(Fsdp2, TheLastLayerIsGatheredBeforeTheLoss) {
  EXPECT_EQ(alive(job("", 8), Phase::kBackward, "layer", "all-gather output"), 1);
  EXPECT_EQ(alive(job("implementation = \"torchtitan\"\n", 8), Phase::kBackward, "layer",
                  "all-gather output"),
            0);
}

// Before 0.2 torchtitan's root has the ends, and the last layer stays from forward to backward; since then its last norm and
// head do. Behind the loss only what computes last is there, then, and one layer more.
TEST(Fsdp2, TorchtitanHasWrappedItsEndsInTwoWays) {
  const std::string titan = "implementation = \"torchtitan\"\n";
  const auto gathered = [](const Job& job, const char* owner) {
    return alive(job, Phase::kBackward, owner, "gathered parameters");
  };
  const Job now = job(titan, 8, "false");
  EXPECT_TRUE(now.wrapping.ends_apart);
  EXPECT_EQ(gathered(now, "embedding"), 0);
  EXPECT_EQ(gathered(now, "layer"), 0);
  EXPECT_EQ(gathered(now, "head"), 1);
  const Job before = job(titan + "environment.torchtitan = \"0.1\"\n", 8, "false");
  EXPECT_FALSE(before.wrapping.ends_apart);
  EXPECT_EQ(gathered(before, "embedding"), 1);
  EXPECT_EQ(gathered(before, "layer"), 1);
  EXPECT_EQ(gathered(before, "head"), 1);
  const Job always = job(titan + "parallel.reshard_after_forward = \"always\"\n", 8, "false");
  EXPECT_EQ(gathered(always, "head"), 0);
  for (const Job& at : {now, before, always}) expect_sound(at);
}

// With tied weights they are one group, wrapped apart or not.
TEST(Fsdp2, TiedEndsAreOneGroup) {
  const Job tied = job("wrap.ends = \"apart\"\n", 8);
  EXPECT_EQ(alive(tied, Phase::kBackward, "embedding", "gathered parameters"), 1);
  EXPECT_EQ(alive(tied, Phase::kBackward, "layer", "all-gather output"), 0);
  expect_sound(tied);
}

// PyTorch 2.11 on an H200: 15,160 and 59,856 bytes for a layer over 8 ranks, 30,008 and 238,032 over 2; 33,184 and
// 1,026,168 for a norm and a head over 2.
TEST(Fsdp2, TablesOfTheCopiesAsRecorded) {
  const Job one = job("", 8, "false");
  const ModelUnits<Checked> units = units_of<Checked>(one);
  const auto out = [](const Unit<Checked>& unit, std::int64_t ranks) {
    return 8 * numbers_to_copy_out(unit, ranks, ElementType::kBFloat16, 132);
  };
  const auto in = [](const Unit<Checked>& unit, std::int64_t ranks) {
    return 8 * numbers_to_copy_in(unit, ranks, ElementType::kBFloat16);
  };
  EXPECT_EQ(out(units.kinds[0], 8), 15'160);
  EXPECT_EQ(in(units.kinds[0], 8), 59'856);
  EXPECT_EQ(out(units.kinds[0], 2), 30'008);
  EXPECT_EQ(in(units.kinds[0], 2), 238'032);
  EXPECT_EQ(out(units.head, 2), 33'184);
  EXPECT_EQ(in(units.head, 2), 1'026'168);
}

// One data rank: parameters and nothing beside them, under autocast on one device and in fp32 beside tensor parallelism.
TEST(Fsdp2, WithOneDataRankNothingIsSharded) {
  const Job alone = job("", 1);
  EXPECT_TRUE(alone.training.precision.autocast);
  const Job divided = job("parallel.tensor = 2\n", 2);
  EXPECT_EQ(divided.training.precision.name, "fp32");
  ASSERT_EQ(divided.warnings.size(), 1U);
  EXPECT_EQ(divided.warnings[0].code, "E224");
  for (const Job& at : {alone, divided}) {
    EXPECT_EQ(alive(at, Phase::kBackward, "layer", "gathered parameters"), 0);
    EXPECT_EQ(alive(at, Phase::kBackward, "layer", "parameters"), 4);
    expect_sound(at);
  }
}

}  // namespace
}  // namespace steelyard
