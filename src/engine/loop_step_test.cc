// What a step that goes tensor by tensor needs for a moment.
#include "engine/engine_check.h"

namespace steelyard {
namespace {

constexpr std::int64_t kHidden = 256, kFeedForward = 512;

Bytes temporaries(const char* precision, int vocabulary) {
  const Job job = job_of(
      "engine = \"ddp\"\n"
      "model = { model_type = \"llama\", hidden_size = 256, num_hidden_layers = 2, "
      "num_attention_heads = 4, num_key_value_heads = 4, intermediate_size = 512, vocab_size = " +
      std::to_string(vocabulary) +
      ", max_position_embeddings = 512, tie_word_embeddings = true }\n"
      "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = 1\n"
      "[training]\nsequence_length = 256\nmicro_batch = 1\noptimizer = \"adafactor\"\n"
      "optimizer_form = \"loop\"\nprecision = \"" +
      precision + "\"\n");
  StagePrograms<Checked> stages(job);
  const NodeId root = stages.build(0).root;
  const PeakMoment moment = find_peak(stages.program(), root, Phase::kOptimizer);
  Bytes sum{};
  for (std::size_t i = 0; i < moment.alive.size(); ++i) {
    const Slot& slot = stages.program().slot_at(static_cast<SlotId>(i));
    if (std::string(slot.rule) == "optimizer.loop-temporary")
      sum += slot.bytes * Checked(moment.alive[i]);
  }
  return sum;
}

// The embedding is the largest tensor and the first: its square and the update, in fp32, and the factors of its rows
// and columns. Tensors in 16 bits are widened first, parameter and gradient.
TEST(LoopStep, AdafactorWidensWhatIsNarrow) {
  constexpr int kWords = 8192;
  constexpr std::int64_t kTensor = 4LL * kWords * kHidden, kFactors = 4LL * (kWords + kHidden);
  EXPECT_EQ(temporaries("fp32", kWords), Bytes(2 * kTensor + kFactors));
  EXPECT_EQ(temporaries("bf16-pure", kWords), Bytes(4 * kTensor + kFactors));
}

// With few words a projection of the feed-forward part is the largest, and the one before it is as large: its update
// is there until the next square has been made.
TEST(LoopStep, AdafactorKeepsTheUpdateOfTheTensorBefore) {
  constexpr std::int64_t kTensor = 4 * kHidden * kFeedForward;
  EXPECT_EQ(temporaries("fp32", 128), Bytes(3 * kTensor));
  EXPECT_EQ(temporaries("bf16-pure", 128), Bytes(5 * kTensor));
}

}  // namespace
}  // namespace steelyard
