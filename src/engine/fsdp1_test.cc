// FSDP1: balanced tapes, and the sizes of a flat parameter.
#include "engine/engine_check.h"

namespace steelyard {
namespace {

constexpr const char* kSmall =
    "model = { model_type = \"llama\", hidden_size = 240, num_hidden_layers = 7, "
    "num_attention_heads = 6, num_key_value_heads = 2, "
    "intermediate_size = 330, vocab_size = 1019, max_position_embeddings = 512, "
    "tie_word_embeddings = false }\n";

struct Asked {
  std::string model = kSmall;
  std::string training = "";
  std::string parallel = "";
  std::string rest = "";
  int data = 8, stage = 3, accumulation = 1;
};

Job fsdp1(const Asked& asked) {
  auto number = [](const char* key, int value) {
    return std::string(key) + " = " + std::to_string(value) + "\n";
  };
  return job_of(
      "engine = \"fsdp1\"\n" + asked.model + "[cluster]\ndevice = \"h100-sxm-80gb\"\n" +
      number("devices", asked.data) + "[training]\nsequence_length = 256\nmicro_batch = 1\n" +
      number("gradient_accumulation", asked.accumulation) + asked.training + "[parallel]\n" +
      number("data", asked.data) + number("zero_stage", asked.stage) + asked.parallel + asked.rest);
}

std::int64_t peak(const Job& job, Phase phase) {
  StagePrograms<Checked> stages(job);
  return stages.program().span(stages.build(0).root).peak[static_cast<std::size_t>(phase)];
}

TEST(Fsdp1, EveryStrategyIsSound) {
  for (const char* model : {kSmall, "model = \"gemma-3-1b\"\n", "model = \"gpt2\"\n",
                            "model = \"qwen1.5-moe-a2.7b\"\n"})
    for (int stage : {2, 3})
      for (int accumulation : {1, 3})
        for (const char* rest :
             {"", "[recompute]\nmode = \"full\"\n", "[recompute]\nmode = \"every\"\nevery = 3\n",
              "[checkpoint]\nsave = \"full-rank0\"\n"}) {
          SCOPED_TRACE(std::string(model) + " stage " + std::to_string(stage) + " x" +
                       std::to_string(accumulation) + " " + rest);
          expect_sound(
              fsdp1({.model = model, .rest = rest, .stage = stage, .accumulation = accumulation}));
          expect_sound(fsdp1({.model = model,
                              .parallel = "replicate = 2\n",
                              .rest = rest,
                              .stage = stage,
                              .accumulation = accumulation}));
        }
}

TEST(Fsdp1, EveryRecipeIsSound) {
  for (const char* precision : {"fp32", "fp16-mixed", "bf16-mixed", "bf16-mixed-fp32-gradients",
                                "bf16-pure", "bf16-autocast"})
    for (const char* optimizer :
         {"\"adamw\"\noptimizer_form = \"fused\"", "\"adamw\"\noptimizer_form = \"foreach\"",
          "\"adamw\"\noptimizer_form = \"loop\"", "\"adamw-8bit\"", "\"adafactor\"", "\"sgd\""})
      expect_sound(fsdp1({.training = "precision = \"" + std::string(precision) +
                                      "\"\noptimizer = " + optimizer + "\n",
                          .accumulation = 2}));
}

TEST(Fsdp1, PipelinesAreSound) {
  Job job = fsdp1({.data = 2, .accumulation = 5});
  for (int stage : {2, 3})
    for (std::int64_t pipeline : {2, 3})
      for (PipelineSchedule schedule :
           {PipelineSchedule::kGPipe, PipelineSchedule::kOneForwardOneBackward}) {
        job.parallel.zero_stage = stage;
        job.parallel.pipeline = Ranks(pipeline);
        job.parallel.schedule = schedule;
        job.parallel.stage_layers = pipeline == 2 ? std::vector{Layers(4), Layers(3)}
                                                  : std::vector{Layers(3), Layers(2), Layers(2)};
        expect_sound(job);
      }
}

// A layer's parameters start at multiples of 16 bytes of fp32, and the whole is a multiple of the ranks.
TEST(Fsdp1, AFlatParameterIsPaddedToTheRanks) {
  const Job job = fsdp1({.training = "precision = \"bf16-pure\"\n", .data = 7});
  const Piles held = resident(job);
  std::int64_t layer = 0, root = 0;
  for (const ParameterTensor& tensor : job.model->kinds.front().parameters)
    layer += elements_of(tensor);  // all multiples of 8
  for (const auto* ends : {&job.model->embedding_parameters, &job.model->head_parameters})
    for (const ParameterTensor& tensor : *ends) root += elements_of(tensor);
  const Bytes expected = allocated_size(Bytes((layer + 6) / 7 * 2)) * Checked(7) +
                         allocated_size(Bytes((root + 6) / 7 * 2)) + Bytes(kRotaryFrequencies);
  EXPECT_EQ(held[Pile::kParameters], expected);
}

// llama-2-7b: 4 bytes of parameters and 8 of moments, an eighth of each; gradients join them in the step.
TEST(Fsdp1, StatesOfSevenBillionParametersOnEightDevices) {
  const std::int64_t parameters = 6'738'415'616;
  const Piles held = resident(fsdp1({.model = "model = \"llama-2-7b\"\n"}));
  EXPECT_EQ(held[Pile::kParameters].value().value(), parameters * 4 / 8 + kRotaryFrequencies);
  EXPECT_NEAR(static_cast<double>(held[Pile::kOptimizerMoments].value().value()),
              static_cast<double>(parameters), 1e6);
}

TEST(Fsdp1, KeepingLayersWholeCostsAllOfThem) {
  const Job divided = fsdp1({.model = "model = \"llama-2-7b\"\n", .stage = 3}),
            kept = fsdp1({.model = "model = \"llama-2-7b\"\n", .stage = 2});
  std::int64_t layer = 0;
  for (const ParameterTensor& tensor : divided.model->kinds.front().parameters)
    layer += elements_of(tensor);
  // At the end of forward all 32 layers are whole, instead of the last one or none.
  EXPECT_GE(peak(kept, Phase::kForward) - peak(divided, Phase::kForward), 31 * layer * 2);
  EXPECT_LE(peak(kept, Phase::kForward) - peak(divided, Phase::kForward), 32 * layer * 2);
}

TEST(Fsdp1, SavingAWholeModelGathersTheRootAndOneLayer) {
  auto saving = [](const char* rest) {
    return peak(fsdp1({.model = "model = \"llama-2-7b\"\n", .rest = rest}), Phase::kCheckpoint);
  };
  std::int64_t gathered = 2 * 32000 * 4096 + 4096;  // embedding, head, final norm
  gathered += 4 * 4096 * 4096 + 3 * 4096 * 11008 + 2 * 4096;
  EXPECT_EQ(saving("[checkpoint]\nsave = \"full-rank0\"\n") - saving(""), gathered * 4);
}

TEST(Fsdp1, BothReadingsHaveTheSameSlots) {
  const Job job = fsdp1({});
  StagePrograms<Checked> fast(job);
  StagePrograms<Traced> traced(job);
  ASSERT_EQ(fast.program().slot_count(), traced.program().slot_count());
  ASSERT_EQ(traced.book().formulas.size(), traced.program().slot_count());
  for (std::size_t slot = 0; slot < fast.program().slot_count(); ++slot)
    EXPECT_EQ(fast.program().slot_at(static_cast<SlotId>(slot)).bytes,
              traced.program().slot_at(static_cast<SlotId>(slot)).bytes);
}

}  // namespace
}  // namespace steelyard
