// What torch.distributed.pipelining keeps, stage by stage: 4 stages, 8 micro-batches of 512 tokens.
#include "engine/engine_check.h"

namespace steelyard {
namespace {

constexpr std::int64_t kHidden = 2LL * 512 * 256;      // a micro-batch of hidden states, bf16
constexpr std::int64_t kLogits = 2LL * 512 * 100'000;  // and of logits
constexpr int kMicroBatches = 8, kStages = 4;

Job job(const char* schedule, const char* more = "") {
  return job_of(
      "engine = \"fsdp2\"\n"
      "model = { model_type = \"llama\", hidden_size = 256, num_hidden_layers = 4, "
      "num_attention_heads = 4, num_key_value_heads = 4, intermediate_size = 512, "
      "vocab_size = 100000, max_position_embeddings = 512, tie_word_embeddings = false }\n"
      "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = 8\n"
      "[training]\nsequence_length = 512\nmicro_batch = 1\ngradient_accumulation = 8\n"
      "[parallel]\npipeline = 4\npipeline_layout = [1, 1, 1, 1]\nschedule = \"" +
      std::string(schedule) + "\"\n" + more);
}

std::int64_t bytes(const Job& job, std::int64_t stage, Phase phase, const std::string& owner,
                   const std::string& name) {
  StagePrograms<Checked> stages(job);
  const PeakMoment moment = find_peak(stages.program(), stages.build(stage).root, phase);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < moment.alive.size(); ++i) {
    const Slot& slot = stages.program().slot_at(static_cast<SlotId>(i));
    if (slot.owner == owner && slot.name == name)
      sum += slot.bytes.value().value() * moment.alive[i];
  }
  return sum;
}

// Both ends receive in one direction, the stages between in two; the optimizer still sees the buffers.
TEST(TorchPipeline, ReceivesIntoBuffersThatStay) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (std::int64_t stage = 0; stage < kStages; ++stage) {
      SCOPED_TRACE(stage);
      const Bytes held = resident(job(schedule), stage)[Pile::kCommunication];
      const int directions = stage == 0 || stage == kStages - 1 ? 1 : 2;
      EXPECT_EQ(held, Bytes(directions * kMicroBatches * kHidden));
    }
}

// The loss is the peak. GPipe has then run all forwards; 1F1B has one micro-batch on the last stage, whose logits are the
// only ones once the last have lost their name.
TEST(TorchPipeline, KeepsTheLogitsOfLiveMicroBatches) {
  const auto logits = [](const char* schedule) {
    return bytes(job(schedule), kStages - 1, Phase::kBackward, "lm_head", "output");
  };
  EXPECT_EQ(logits("gpipe"), kMicroBatches * kLogits);
  EXPECT_EQ(logits("1f1b"), kLogits);
}

TEST(TorchPipeline, IsSound) {
  for (const char* schedule : {"gpipe", "1f1b"})
    for (const char* more :
         {"", "[recompute]\nmode = \"full\"\n", "[recompute]\nmode = \"every\"\nevery = 2\n"})
      expect_sound(job(schedule, more));
}

// scaling's buffers fill with as many outputs as micro-batches are under way, and one: one less on each stage, though all
// are cut alike.
TEST(ScalingPipeline, KeepsOneOutputLessOnEachStage) {
  const Job job = job_of(
      "engine = \"scaling\"\n"
      "model = { model_type = \"llama\", hidden_size = 256, num_hidden_layers = 6, "
      "num_attention_heads = 4, num_key_value_heads = 4, intermediate_size = 512, "
      "vocab_size = 1024, max_position_embeddings = 512, tie_word_embeddings = false }\n"
      "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = 6\n"
      "[training]\nsequence_length = 512\nmicro_batch = 1\ngradient_accumulation = 16\n"
      "[parallel]\npipeline = 6\npipeline_layout = [1, 1, 1, 1, 1, 1]\n");
  StagePrograms<Checked> stages(job);
  const auto kept = [&](std::int64_t stage) {
    return stages.program().span(stages.build(stage).root).net[Pile::kActivations];
  };
  for (std::int64_t stage = 1; stage < 4; ++stage)
    EXPECT_EQ(kept(stage) - kept(stage + 1), stages.hidden_bytes()) << stage;
}

}  // namespace
}  // namespace steelyard
