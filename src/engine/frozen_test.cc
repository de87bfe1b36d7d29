// Frozen parts, engine by engine: what is not trained has no state and no gradient, and every tape balances.
#include "engine/engine_check.h"

namespace steelyard {
namespace {

// 4 layers; sizes that divide by nothing. P = 2 V h + h + 4 layers.
constexpr const char* kSmall =
    "model = { model_type = \"llama\", hidden_size = 240, num_hidden_layers = 4, "
    "num_attention_heads = 6, num_key_value_heads = 2, "
    "intermediate_size = 330, vocab_size = 1019, max_position_embeddings = 512, "
    "tie_word_embeddings = false }\n";

struct Asked {
  std::string engine;
  int stage = 0, pipeline = 1, data = 2, accumulation = 1;
  std::string frozen = "";
  std::string rest = "";
  std::string model = kSmall;
};

std::string run_file(const Asked& asked) {
  auto number = [](const char* key, int value) {
    return std::string(key) + " = " + std::to_string(value) + "\n";
  };
  return "engine = \"" + asked.engine + "\"\n" + asked.model +
         "[cluster]\ndevice = \"h100-sxm-80gb\"\n" +
         number("devices", asked.data * asked.pipeline) +
         "[training]\nsequence_length = 256\nmicro_batch = 1\n" +
         number("gradient_accumulation", asked.accumulation) +
         (asked.frozen.empty() ? "" : "frozen = [" + asked.frozen + "]\n") + "[parallel]\n" +
         number("data", asked.data) + number("pipeline", asked.pipeline) +
         number("zero_stage", asked.stage) + asked.rest;
}

Job job(const Asked& asked) { return job_of(run_file(asked)); }

struct Stages {
  const char* engine;
  int zero_stage;
  bool pipeline;
};
constexpr Stages kStages[] = {
    {"ddp", 0, false},       {"ddp", 1, false},      {"fsdp1", 2, false},
    {"fsdp1", 3, false},     {"fsdp2", 2, true},     {"fsdp2", 3, true},
    {"deepspeed", 0, true},  {"deepspeed", 1, true}, {"deepspeed", 2, false},
    {"deepspeed", 3, false}, {"megatron", 0, true},  {"megatron", 1, true},
    {"nanotron", 0, true},   {"nanotron", 1, true},  {"scaling", 0, true},
    {"scaling", 1, true},
};

constexpr const char* kEmbedding = "\"model.embed_tokens.*\"";
constexpr const char* kLowest = "\"model.embed_tokens.*\", \"model.layers.0.*\"";
constexpr const char* kHalf =
    "\"model.embed_tokens.*\", \"model.layers.0.*\", \"model.layers.1.*\"";
constexpr const char* kAllLayers = "\"model.embed_tokens.*\", \"model.layers.*\"";
constexpr const char* kUpper =
    "\"model.layers.2.*\", \"model.layers.3.*\", \"lm_head.*\", \"model.norm.*\"";
constexpr const char* kMlp = "\"*mlp*\", \"model.embed_tokens.*\"";

TEST(Frozen, EveryEngineIsSound) {
  for (const Stages& at : kStages)
    for (const char* frozen : {kEmbedding, kLowest, kHalf, kAllLayers, kUpper, kMlp})
      for (int pipeline : {1, 2, 4})
        for (int accumulation : {1, 3})
          for (const char* rest : {"", "[recompute]\nmode = \"full\"\n"}) {
            if (pipeline > 1 && !at.pipeline) continue;
            const Asked asked = {.engine = at.engine,
                                 .stage = at.zero_stage,
                                 .pipeline = pipeline,
                                 .accumulation = accumulation,
                                 .frozen = frozen,
                                 .rest = rest};
            SCOPED_TRACE(run_file(asked));
            // A stage without anything trained stops DeepSpeed, and nothing else.
            const auto document = read_toml(run_file(asked), "run.toml");
            const auto read = read_job(*document);
            if (!read) {
              EXPECT_EQ(read.error().front().code, "E223");
              EXPECT_EQ(asked.engine, "deepspeed");
              EXPECT_GT(pipeline, 1);
              continue;
            }
            expect_sound(*read);
          }
}

// Only the head's matrix trains: its cast, which autocast holds, has no other reader in backward.
TEST(Frozen, TheHeadAloneUnderAutocastIsSound) {
  for (const Stages& at : kStages) {
    if (std::string(at.engine) == "nanotron" || std::string(at.engine) == "scaling") continue;
    SCOPED_TRACE(at.engine);
    std::string run = run_file({.engine = at.engine,
                                .stage = at.zero_stage,
                                .frozen = std::string(kAllLayers) + ", \"model.norm.*\""});
    run.insert(run.find("frozen"), "precision = \"bf16-autocast\"\n");
    expect_sound(job_of(run));
  }
}

std::int64_t pile(const Job& job, Pile pile, std::int64_t stage = 0) {
  return resident(job, stage)[pile].value().value();
}
std::int64_t elements(const Job& job, Of of) {
  const ModelUnits<Checked> units = units_of<Checked>(job, of);
  Checked sum = units.embedding.elements + units.head.elements;
  StagePrograms<Checked> stages(job);
  const Stage<Checked> stage = stages.stage_of(0);
  for (std::size_t kind = 0; kind < units.kinds.size(); ++kind)
    sum = sum + units.kinds[kind].elements * Checked(stage.layers_of_kind[kind]);
  return sum.value();
}
std::int64_t rounded(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

// Flat tensors, fp32 copies, moments and gradients are those of what is trained; the frozen rest is only there.
TEST(Frozen, DeepSpeedJoinsOnlyWhatIsTrained) {
  for (int zero_stage = 0; zero_stage <= 3; ++zero_stage) {
    SCOPED_TRACE(zero_stage);
    const Job all = job({.engine = "deepspeed", .stage = zero_stage});
    const Job half = job({.engine = "deepspeed", .stage = zero_stage, .frozen = kHalf});
    const std::int64_t trained = elements(half, Of::kTrained), ranks = zero_stage == 0 ? 1 : 2;
    EXPECT_EQ(elements(half, Of::kAll), elements(all, Of::kAll));
    EXPECT_EQ(trained + elements(half, Of::kFrozen), elements(all, Of::kAll));
    // Every tensor of this model divides by two ranks, and only its norms fill no whole blocks.
    EXPECT_EQ(pile(half, Pile::kMasterWeights), rounded(4 * trained / ranks));
    EXPECT_EQ(pile(half, Pile::kOptimizerMoments), 2 * rounded(4 * trained / ranks));
    const std::int64_t blocks = 4 * 9 * 512;
    EXPECT_NEAR(static_cast<double>(pile(half, Pile::kParameters)),
                static_cast<double>(pile(all, Pile::kParameters)), static_cast<double>(blocks));
  }
}

// One flat parameter for all that stands outside of layers: the head trains, so the frozen embedding has a gradient,
// and every layer passes it on.
TEST(Frozen, Fsdp1GivesAGradientToWhatSharesAFlatParameter) {
  const Job mixed = job({.engine = "fsdp1", .stage = 3, .frozen = kHalf});
  EXPECT_TRUE(mixed.model->embedding_parameters.front().frozen);
  EXPECT_TRUE(mixed.model->embedding_parameters.front().gradient);
  for (const Layer& layer : mixed.model->kinds) EXPECT_TRUE(layer.input_needs_gradient);
  EXPECT_FALSE(mixed.model->kinds.front().parameters.front().gradient);

  const Job ends = job({.engine = "fsdp1",
                        .stage = 3,
                        .frozen = std::string(kLowest) + ", \"lm_head.*\", \"model.norm.*\""});
  EXPECT_FALSE(ends.model->embedding_parameters.front().gradient);
  EXPECT_TRUE(is_untouched(ends.model->kinds.front()));

  // Half of a layer: its gradient is that of the whole layer, its states are not.
  const Job part = job({.engine = "fsdp1", .stage = 3, .frozen = "\"*mlp*\""});
  const Job all = job({.engine = "fsdp1", .stage = 3});
  StagePrograms<Checked> of_part(part), of_all(all);
  const auto peak = [](StagePrograms<Checked>& stages) {
    return stages.program().span(stages.build(0).root).peak;
  };
  const std::int64_t states =
      pile(all, Pile::kOptimizerMoments) - pile(part, Pile::kOptimizerMoments);
  EXPECT_GT(states, 0);
  EXPECT_EQ(peak(of_part)[static_cast<std::size_t>(Phase::kBackward)] + states,
            peak(of_all)[static_cast<std::size_t>(Phase::kBackward)]);
}

struct Boundary {
  const char* engine;
  bool asks;  // a gradient for what it receives, though nothing before it is trained
};

TEST(Frozen, PipelinesAskForAGradientOrNot) {
  // Two stages of two layers; the third layer, first of the second stage, is frozen as all before it.
  const std::string below = std::string(kHalf) + ", \"model.layers.2.*\"";
  for (const Boundary& at :
       {Boundary{"megatron", true}, Boundary{"nanotron", false}, Boundary{"fsdp2", false}}) {
    SCOPED_TRACE(at.engine);
    const Job divided = job({.engine = at.engine,
                             .stage = std::string(at.engine) == "fsdp2" ? 2 : 0,
                             .pipeline = 2,
                             .frozen = below});
    StagePrograms<Checked> stages(divided);
    const Stage<Checked> first = stages.stage_of(0), second = stages.stage_of(1);
    EXPECT_EQ(second.input_gradient, at.asks);
    EXPECT_EQ(first.output_gradient, at.asks);
    bool keeps = false;  // the frozen layer of the second stage
    for (std::size_t kind = 0; kind < second.layers_of_kind.size(); ++kind)
      if (second.layers_of_kind[kind] > 0 && divided.model->kinds[kind].parameters.front().frozen)
        keeps = keeps || !stages.kept_of_kind(kind, false).empty();
    EXPECT_EQ(keeps, at.asks);
  }
}

TEST(Frozen, DeepSpeedNeedsSomethingToTrainOnEveryStage) {
  for (const auto& [frozen, stage] :
       {std::pair{kHalf, "stage 0"},
        std::pair{"\"model.layers.2.*\", \"model.layers.3.*\", \"lm_head.*\", \"model.norm.*\"",
                  "stage 1"}}) {
    const auto read = read_job(
        *read_toml(run_file({.engine = "deepspeed", .stage = 1, .pipeline = 2, .frozen = frozen}),
                   "run.toml"));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().front().code, "E223");
    EXPECT_NE(read.error().front().message.find(stage), std::string::npos);
  }
}

}  // namespace
}  // namespace steelyard
