// DeepSpeed's stages: balanced tapes for every mixture of what a job may ask, and states that a reader can add up.
#include "engine/engine_check.h"

namespace steelyard {
namespace {

// Sizes that divide by nothing, and an embedding larger than the bucket below.
constexpr const char* kSmall =
    "model = { model_type = \"llama\", hidden_size = 240, num_hidden_layers = 7, "
    "num_attention_heads = 6, num_key_value_heads = 2, "
    "intermediate_size = 330, vocab_size = 1019, max_position_embeddings = 512, "
    "tie_word_embeddings = false }\n";
constexpr const char* kTied =
    "model = \"gemma-3-1b\"\n";  // tied head, two kinds of layers in a pattern
constexpr const char* kPositions = "model = \"gpt2\"\n";  // tied head, positions, dropout, biases
constexpr const char* kExperts = "model = \"qwen1.5-moe-a2.7b\"\n";

struct Asked {
  std::string model = kSmall;
  std::string training = "";
  std::string parallel = "";
  std::string rest = "";
  int data = 8, tensor = 1, pipeline = 1, stage = 2, accumulation = 1;
};

Job deepspeed(const Asked& asked) {
  auto number = [](const char* key, int value) {
    return std::string(key) + " = " + std::to_string(value) + "\n";
  };
  return job_of("engine = \"deepspeed\"\n" + asked.model +
                "[cluster]\ndevice = \"h100-sxm-80gb\"\n" +
                number("devices", asked.data * asked.tensor * asked.pipeline) +
                "[training]\nsequence_length = 256\nmicro_batch = 1\n" +
                number("gradient_accumulation", asked.accumulation) + asked.training +
                "[parallel]\n" + number("data", asked.data) + number("tensor", asked.tensor) +
                number("pipeline", asked.pipeline) + number("zero_stage", asked.stage) +
                asked.parallel + asked.rest);
}

TEST(DeepSpeed, EveryStageIsSound) {
  for (const char* model : {kSmall, kTied, kPositions, kExperts})
    for (int stage = 0; stage <= 3; ++stage)
      for (int accumulation : {1, 3})
        for (const char* rest :
             {"", "[recompute]\nmode = \"full\"\n", "[recompute]\nmode = \"every\"\nevery = 3\n",
              "[buckets]\nreduce = 100000\n"}) {
          SCOPED_TRACE(std::string(model) + " stage " + std::to_string(stage) + " x" +
                       std::to_string(accumulation) + " " + rest);
          expect_sound(deepspeed(
              {.model = model, .rest = rest, .stage = stage, .accumulation = accumulation}));
        }
}

TEST(DeepSpeed, EveryRecipeIsSound) {
  for (const char* precision : {"fp32", "fp16-mixed", "bf16-mixed", "bf16-mixed-fp32-gradients",
                                "bf16-pure", "bf16-autocast"})
    for (const char* optimizer : {"adamw", "adamw-8bit", "adafactor", "sgd", "adamw-paged"})
      for (int stage = 0; stage <= 3; ++stage) {
        SCOPED_TRACE(std::string(precision) + " " + optimizer + " stage " + std::to_string(stage));
        expect_sound(deepspeed({.training = "precision = \"" + std::string(precision) +
                                            "\"\noptimizer = \"" + optimizer + "\"\n",
                                .stage = stage,
                                .accumulation = 2}));
      }
}

TEST(DeepSpeed, EveryFormOfTheStepIsSound) {
  for (const char* form : {"fused", "foreach", "loop"})
    for (int stage = 0; stage <= 3; ++stage)
      expect_sound(deepspeed(
          {.training = "optimizer_form = \"" + std::string(form) + "\"\n", .stage = stage}));
}

TEST(DeepSpeed, PipelinesAndTensorParallelAreSound) {
  for (const char* model : {kSmall, kPositions})
    for (const char* precision : {"bf16-mixed", "fp16-mixed", "bf16-mixed-fp32-gradients"})
      for (int stage = 0; stage <= 1; ++stage)
        for (int pipeline : {2, 4})
          for (int accumulation : {1, 2, 9})
            for (const char* schedule : {"1f1b", "gpipe"})
              expect_sound(
                  deepspeed({.model = model,
                             .training = "precision = \"" + std::string(precision) + "\"\n",
                             .parallel = "schedule = \"" + std::string(schedule) + "\"\n",
                             .data = 2,
                             .tensor = 2,
                             .pipeline = pipeline,
                             .stage = stage,
                             .accumulation = accumulation}));
}

TEST(DeepSpeed, OverlapDoublesTheBucket) {
  const char* overlap = "[overlap]\nreduce = true\n";
  for (int stage : {1, 2})
    for (int accumulation : {1, 2})
      expect_sound(deepspeed({.rest = overlap, .stage = stage, .accumulation = accumulation}));
  auto bucket = [&](const char* rest) {
    const Job job = deepspeed({.rest = rest});
    StagePrograms<Checked> stages(job);
    return stages.program()
        .span(stages.build(0).root)
        .peak[static_cast<std::size_t>(Phase::kBackward)];
  };
  EXPECT_EQ(bucket(overlap) - bucket(""), 1'000'000'000);
}

// The table of ZeRO (arXiv 1910.02054, figure 1) at 7.5 billion parameters has these proportions; llama-2-7b has
// 6,738,415,616 parameters. 2P + 12P/8, the bucket and gradients apart; 16P/8 with gradients in stage 3.
TEST(DeepSpeed, StatesOfSevenBillionParametersOnEightDevices) {
  const std::int64_t parameters = 6'738'415'616;
  auto states = [](int stage) {
    const Piles held = resident(deepspeed({.model = "model = \"llama-2-7b\"\n", .stage = stage}));
    return (held[Pile::kParameters] + held[Pile::kGradients] + held[Pile::kMasterWeights] +
            held[Pile::kOptimizerMoments])
               .value()
               .value() -
           kRotaryFrequencies;
  };
  EXPECT_EQ(states(0), parameters * 14);
  EXPECT_EQ(states(1), parameters * 2 + parameters * 12 / 8);
  EXPECT_EQ(states(2), parameters * 2 + parameters * 12 / 8);
  // 65 norms of 4096 elements stay whole beside their eighths.
  EXPECT_EQ(states(3), parameters * 16 / 8 + 65 * 4096 * 2);
}

// Backward of one micro-batch ends with 2P (stage 1) or 2P/N (stage 2) of gradients beside these.
TEST(DeepSpeed, GradientsByStage) {
  const std::int64_t parameters = 6'738'415'616;
  auto gradients = [](int stage) {
    const Job job = deepspeed({.model = "model = \"llama-2-7b\"\n", .stage = stage});
    StagePrograms<Checked> stages(job);
    const NodeId root = stages.build(0).root;
    return find_peak(stages.program(), root, Phase::kOptimizer)
        .piles[Pile::kGradients]
        .value()
        .value();
  };
  // The last rank's share begins inside a tensor, and ends with the head: whole tensors are kept.
  EXPECT_GE(gradients(2), parameters * 2 / 8);
  EXPECT_LE(gradients(2), parameters * 2 / 8 + 2 * 11008 * 4096);
  EXPECT_EQ(gradients(3), parameters * 2 / 8);
}

TEST(DeepSpeed, ParametersOfStage3ArePaddedOneByOne) {
  const Job job = deepspeed({.rest = "[buckets]\npersistence = 0\n", .data = 7, .stage = 3});
  const Piles held = resident(job);
  std::int64_t shares = 0;
  for (const Layer& layer : job.model->kinds)
    for (const ParameterTensor& tensor : layer.parameters)
      shares += 7 * ((elements_of(tensor) + 6) / 7);
  for (const auto* ends : {&job.model->embedding_parameters, &job.model->head_parameters})
    for (const ParameterTensor& tensor : *ends) shares += (elements_of(tensor) + 6) / 7;
  EXPECT_EQ(held[Pile::kMasterWeights], allocated_size(Bytes(shares * 4)));
}

TEST(DeepSpeed, Bf16OptimizerKeepsAWholeGradientBuffer) {
  const Piles held =
      resident(deepspeed({.training = "precision = \"bf16-mixed-fp32-gradients\"\n", .stage = 1}));
  EXPECT_EQ(held[Pile::kGradients].value().value(),
            2 * (held[Pile::kParameters].value().value() - kRotaryFrequencies));
}

TEST(DeepSpeed, SavingAWholeModelGathersOneModule) {
  const char* whole = "[checkpoint]\nsave = \"full-rank0\"\n";
  auto saving = [&](const char* rest) {
    const Job job = deepspeed({.model = "model = \"llama-2-7b\"\n", .rest = rest, .stage = 3});
    StagePrograms<Checked> stages(job);
    return stages.program()
        .span(stages.build(0).root)
        .peak[static_cast<std::size_t>(Phase::kCheckpoint)];
  };
  EXPECT_EQ(saving(whole) - saving(""), std::int64_t{2} * 2 * 32000 * 4096);
}

TEST(DeepSpeed, BothReadingsHaveTheSameSlots) {
  for (int stage = 0; stage <= 3; ++stage) {
    const Job job = deepspeed({.stage = stage});
    StagePrograms<Checked> fast(job);
    StagePrograms<Traced> traced(job);
    fast.build(0);
    traced.build(0);
    ASSERT_EQ(fast.program().slot_count(), traced.program().slot_count());
    ASSERT_EQ(traced.book().formulas.size(), traced.program().slot_count());
    for (std::size_t slot = 0; slot < fast.program().slot_count(); ++slot)
      EXPECT_EQ(fast.program().slot_at(static_cast<SlotId>(slot)).bytes,
                traced.program().slot_at(static_cast<SlotId>(slot)).bytes);
  }
}

}  // namespace
}  // namespace steelyard
