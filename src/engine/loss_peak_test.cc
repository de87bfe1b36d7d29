// Bytes for each word of the vocabulary and token while the loss is computed: the peak of many runs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"

namespace steelyard {
namespace {

struct Peaks {
  std::int64_t forward = 0, backward = 0;
};

// Two layers and many words: the loss is the peak in both directions.
Peaks peaks_of(const std::string& engine, const std::string& more, const std::string& divided = "",
               int devices = 1) {
  constexpr std::int64_t kVocabulary = 262'144, kTokens = 8'192;
  const ReadJob job = read_job(*read_json(
      fmt::format(
          R"({{"model": {{"model_type": "llama", "vocab_size": {}, "hidden_size": 512, "intermediate_size": 1024,
               "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 8, "tie_word_embeddings": false}},
               "engine": "{}", "cluster": {{"device": "h100-sxm-80gb", "devices": {}}},
               "training": {{"sequence_length": {}, {}}}{}}})",
          kVocabulary, engine, devices, kTokens, more, divided),
      "job"));
  if (!job) {
    ADD_FAILURE() << job.error().front().message;
    return {};
  }
  StagePrograms<Checked> stages(*job);
  const StageProgram built = stages.build(0);
  const auto bytes_in = [&](Phase phase) {
    const PeakMoment moment = find_peak(stages.program(), built.root, phase);
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < moment.alive.size(); ++i) {
      const Slot& slot = stages.program().slot_at(static_cast<SlotId>(i));
      const bool of_loss = std::set<std::string>{"loss", "lm_head"}.count(slot.owner) > 0 &&
                           slot.pile != Pile::kGradients;
      const std::int64_t all = slot.bytes.value().value() * moment.alive[i];
      if (of_loss && all >= kVocabulary * kTokens) bytes += all;
    }
    EXPECT_EQ(bytes % (kVocabulary * kTokens), 0);
    return bytes / (kVocabulary * kTokens);
  };
  return {bytes_in(Phase::kForward), bytes_in(Phase::kBackward)};
}

// Logits 2, their fp32 copy 4, log-softmax 4; then log-softmax 4 and two gradients of 4.
TEST(LossPeak, Transformers) {
  for (const char* precision : {"bf16-pure", "bf16-mixed", "bf16-autocast"}) {
    const Peaks peaks = peaks_of("ddp", fmt::format(R"("precision": "{}")", precision));
    EXPECT_EQ(peaks.forward, 10) << precision;
    EXPECT_EQ(peaks.backward, 12) << precision;
  }
}

// In fp32 the logits need no copy: logits 4, log-softmax 4; then log-softmax 4 and two gradients of 4.
TEST(LossPeak, TransformersInFp32) {
  const Peaks peaks = peaks_of("ddp", R"("precision": "fp32")");
  EXPECT_EQ(peaks.forward, 8);
  EXPECT_EQ(peaks.backward, 12);
}

// With loss_parallel, all halved: logits 2, their fp32 copy 4, the same less its maximum 4, the result 4; then the
// result 4, zeros 4, their sum with the exponentials 4 and the gradient 4.
TEST(LossPeak, DistributedTensors) {
  const Peaks peaks = peaks_of("fsdp2", R"("precision": "bf16-pure")",
                               R"(, "parallel": {"tensor": 2, "sequence_parallel": true})", 2);
  EXPECT_EQ(2 * peaks.forward, 14);
  EXPECT_EQ(2 * peaks.backward, 16);
}

// Logits 2 and fp32 exponentials 4, which become the gradient in place; its cast is 2.
TEST(LossPeak, Megatron) {
  const Peaks peaks = peaks_of("megatron", R"("precision": "bf16-mixed")");
  EXPECT_EQ(peaks.forward, 6);
  EXPECT_EQ(peaks.backward, 6);
}

// fp32 logits 4 and their shifted copy 4, which becomes probabilities and then the gradient in place; its cast is 2.
TEST(LossPeak, Nanotron) {
  const Peaks peaks = peaks_of("nanotron", R"("precision": "bf16-mixed-fp32-gradients")");
  EXPECT_EQ(peaks.forward, 8);
  EXPECT_EQ(peaks.backward, 6);
}

// An eighth of the tokens at a time: 2 + 4 + 4 + 4 for each word is less than two for all.
TEST(LossPeak, ChunksAreAnEighth) {
  const Peaks peaks = peaks_of("ddp", R"("precision": "bf16-pure", "loss": "chunked")");
  EXPECT_LE(peaks.forward, 2);
  EXPECT_EQ(peaks.backward, 0);
}

}  // namespace
}  // namespace steelyard
