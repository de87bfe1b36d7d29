// What clipping adds to a step, to the byte, engine by engine.
#include <algorithm>

#include "engine/engine_check.h"

namespace steelyard {
namespace {

// 39 tensors; the largest are embedding and head, 1,019 x 240.
constexpr const char* kSmall =
    "model = { model_type = \"llama\", hidden_size = 240, num_hidden_layers = 4, "
    "num_attention_heads = 6, num_key_value_heads = 2, "
    "intermediate_size = 330, vocab_size = 1019, max_position_embeddings = 512, "
    "tie_word_embeddings = false }\n";

struct Asked {
  const char* engine;
  int stage = 0, data = 1;
  const char* training = "";
};

Job job(const Asked& asked, const char* clip) {
  const std::string data = std::to_string(asked.data);
  return job_of("engine = \"" + std::string(asked.engine) + "\"\n" + kSmall +
                "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = " + data +
                "\n[training]\nsequence_length = 256\nmicro_batch = 1\n" +
                "optimizer_form = \"fused\"\ngradient_clip = " + clip + "\n" + asked.training +
                "[parallel]\ndata = " + data + "\nzero_stage = " + std::to_string(asked.stage) +
                "\n");
}

std::int64_t step_peak(const Job& job) {
  StagePrograms<Checked> stages(job);
  return stages.program()
      .span(stages.build(0).root)
      .peak[static_cast<std::size_t>(Phase::kOptimizer)];
}

constexpr std::int64_t kBlock = 512;  // of a single number

struct Expected {
  Asked asked;
  std::int64_t bytes;
};

TEST(GradientNorm, AddsToTheStep) {
  const std::int64_t norms = 39 * kBlock, blocks = 3 * kBlock;  // 320 fp32 numbers are 1,280 bytes
  for (const Expected& at : {
           // 4 chunks of 65,536 elements: 39 x 4 sums in fp32, 624 bytes
           Expected{{.engine = "ddp"}, norms + 2 * kBlock},
           // the shards have 510 x 240 elements, 2 chunks: norms, stacked, their norm are more
           Expected{{.engine = "fsdp2", .stage = 3, .data = 2}, norms + 2 * kBlock},
           // norms, stacked, their norm; a zero for good
           Expected{{.engine = "fsdp1", .stage = 3}, norms + 3 * kBlock},
           // norms, stacked, their norm; the norm of the step before
           Expected{{.engine = "nanotron"}, norms + 3 * kBlock},
           // a zero, a flag, the result, sums of blocks; the host has the norm
           Expected{{.engine = "megatron"}, 3 * kBlock + blocks},
           // norms, that of all, and four numbers on the way to the factor
           Expected{{.engine = "deepspeed", .training = "precision = \"fp32\"\n"},
                    norms + 5 * kBlock},
       }) {
    SCOPED_TRACE(at.asked.engine);
    EXPECT_EQ(step_peak(job(at.asked, "1.0")) - step_peak(job(at.asked, "false")), at.bytes);
    expect_sound(job(at.asked, "true"));
  }
}

// Each rank of FSDP1 has a part of some tensors only.
TEST(GradientNorm, Fsdp1CountsTheTensorsOfARank) {
  const auto norms = [](int data) {
    const Asked asked{.engine = "fsdp1", .stage = 3, .data = data};
    return (step_peak(job(asked, "true")) - step_peak(job(asked, "false"))) / kBlock - 3;
  };
  EXPECT_EQ(norms(1), 39);
  EXPECT_LT(norms(8), norms(2));
  EXPECT_GE(norms(8), 39 / 8);
}

const Slot* slot_of(const Program& program, const std::string& rule) {
  for (std::size_t i = 0; i < program.slot_count(); ++i)
    if (const Slot& slot = program.slot_at(static_cast<SlotId>(i)); slot.rule == rule) return &slot;
  return nullptr;
}

// DeepSpeed takes the norm whether or not it clips, from fp64 copies of one tensor (ZeRO-3: partition) at a time.
TEST(GradientNorm, DeepSpeedCopiesTheLargestGradient) {
  const std::int64_t largest = 1019 * 240;
  for (const auto& [stage, elements] :
       {std::pair{1, largest}, std::pair{2, largest}, std::pair{3, (largest + 1) / 2}})
    for (const char* clip : {"true", "false"}) {
      const Job divided = job({.engine = "deepspeed", .stage = stage, .data = 2}, clip);
      StagePrograms<Checked> stages(divided);
      stages.build(0);
      const Slot* copy = slot_of(stages.program(), "deepspeed.norm-copy");
      ASSERT_NE(copy, nullptr);
      EXPECT_EQ(copy->bytes.value().value(), (8 * elements + 511) / 512 * 512);
    }
}

TEST(GradientNorm, IsTheEnginesOwnDefault) {
  for (const auto& [engine, clips] :
       {std::pair{"ddp", false}, std::pair{"fsdp1", false}, std::pair{"fsdp2", false},
        std::pair{"nanotron", false}, std::pair{"megatron", true}, std::pair{"deepspeed", true}}) {
    SCOPED_TRACE(engine);
    const std::string run = "engine = \"" + std::string(engine) + "\"\n" + kSmall +
                            "[cluster]\ndevice = \"h100-sxm-80gb\"\n[training]\n";
    const Job silent = job_of(run);
    EXPECT_EQ(silent.training.gradient_clip, clips);
    EXPECT_TRUE(std::any_of(silent.assumptions.begin(), silent.assumptions.end(),
                            [](const auto& made) { return made.key == "training.gradient_clip"; }));
    EXPECT_FALSE(job_of(run + "gradient_clip = 0\n").training.gradient_clip);
    EXPECT_TRUE(job_of(run + "gradient_clip = 0.5\n").training.gradient_clip);
  }
}

}  // namespace
}  // namespace steelyard
