// Every order on the engines that run it: balanced tapes, and as many micro-batches kept as the order has in flight.
#include "engine/engine_check.h"

namespace steelyard {
namespace {

struct Asked {
  const char* engine = "megatron";
  const char* schedule = "interleaved";
  int pipeline = 4, chunks = 2, layers = 8, micro_batches = 8;
  std::string more = {};
  std::string training = {};
};

Job job(const Asked& asked) {
  return job_of(
      "engine = \"" + std::string(asked.engine) +
      "\"\nmodel = { model_type = \"llama\", hidden_size = 256, num_hidden_layers = " +
      std::to_string(asked.layers) +
      ", num_attention_heads = 4, num_key_value_heads = 4, intermediate_size = 512, vocab_size = "
      "1000, max_position_embeddings = 512, tie_word_embeddings = false }\n"
      "[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = " +
      std::to_string(asked.pipeline) +
      "\n[training]\nsequence_length = 512\nmicro_batch = 1\ngradient_accumulation = " +
      std::to_string(asked.micro_batches) + "\n" + asked.training + "[parallel]\npipeline = " +
      std::to_string(asked.pipeline) + "\nvirtual_pipeline = " + std::to_string(asked.chunks) +
      "\nschedule = \"" + std::string(asked.schedule) + "\"\n" + asked.more);
}

// Instances of a slot at the peak of backward on a stage.
std::int64_t alive(const Job& job, std::int64_t stage, const std::string& owner,
                   const std::string& name) {
  StagePrograms<Checked> stages(job);
  const PeakMoment moment = find_peak(stages.program(), stages.build(stage).root, Phase::kBackward);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < moment.alive.size(); ++i) {
    const Slot& slot = stages.program().slot_at(static_cast<SlotId>(i));
    if (slot.owner == owner && slot.name == name && slot.pile == Pile::kActivations)
      sum += moment.alive[i];
  }
  return sum;
}

TEST(PipelineOrdersOnEngines, AreSound) {
  struct Row {
    const char* engine;
    const char* schedule;
    int chunks;
  };
  for (const Row& row :
       {Row{"megatron", "gpipe", 1}, Row{"megatron", "1f1b", 1}, Row{"megatron", "interleaved", 2},
        Row{"megatron", "zb-h1", 1}, Row{"megatron", "zb-h1", 2}, Row{"megatron", "zb-h2", 1},
        Row{"megatron", "zb-v", 2}, Row{"megatron", "dualpipe", 2},
        Row{"megatron", "dualpipe-v", 2}, Row{"megatron", "v-half", 2},
        Row{"fsdp2", "interleaved", 2}, Row{"fsdp2", "looped-bfs", 2}, Row{"fsdp2", "zb-h1", 1},
        Row{"fsdp2", "zb-h1", 2}, Row{"fsdp2", "zb-v", 2}, Row{"fsdp2", "dualpipe-v", 2}})
    for (const char* more :
         {"", "[recompute]\nmode = \"full\"\n", "[recompute]\nmode = \"selective\"\n"}) {
      SCOPED_TRACE(std::string(row.engine) + " " + row.schedule + " " + more);
      expect_sound(job({.engine = row.engine,
                        .schedule = row.schedule,
                        .chunks = row.chunks,
                        .layers = std::string(row.engine) == "fsdp2" ? 7 * row.chunks : 8,
                        .more = more}));
    }
}

// Liger's kernels write gradients over what was kept; each turn of the weights makes that again, and nobody overwrites it.
TEST(PipelineOrdersOnEngines, AreSoundWhereGradientsOverwrite) {
  for (const char* recompute : {"", "[recompute]\nmode = \"full\"\n"})
    for (const char* schedule : {"1f1b", "zb-h1"})
      expect_sound(job({.engine = "fsdp2\"\nimplementation = \"transformers",
                        .schedule = schedule,
                        .chunks = 1,
                        .layers = 7,
                        .more = recompute,
                        .training = "kernels = \"liger\"\n"}));
}

TEST(PipelineOrdersOnEngines, AreSoundWithADividedVocabulary) {
  struct Row {
    const char* schedule;
    int chunks;
    const char* vocabulary;
  };
  for (const Row& row : {Row{"1f1b", 1, "vocabulary-1"}, Row{"1f1b", 1, "vocabulary-2"},
                         Row{"1f1b", 1, "interlaced"}, Row{"v-half", 2, "vocabulary-1"},
                         Row{"v-half", 2, "vocabulary-2"}})
    for (const int micro_batches : {6, 8, 9})
      for (const char* more : {"", "[recompute]\nmode = \"full\"\n"}) {
        SCOPED_TRACE(std::string(row.schedule) + " " + row.vocabulary + " " + more);
        expect_sound(
            job({.schedule = row.schedule,
                 .chunks = row.chunks,
                 .micro_batches = micro_batches,
                 .more = "vocabulary = \"" + std::string(row.vocabulary) + "\"\n" + more}));
      }
}

// Its rows stand on all stages in equal parts, padded to twice the stages; none are left at the ends.
TEST(PipelineOrdersOnEngines, DivideTheVocabulary) {
  const auto parameters = [](const Job& job, std::int64_t stage) {
    return resident(job, stage)[Pile::kParameters].value().value();
  };
  const Job ends = job({.schedule = "1f1b", .chunks = 1});
  const Job divided =
      job({.schedule = "1f1b", .chunks = 1, .more = "vocabulary = \"vocabulary-1\"\n"});
  EXPECT_EQ(divided.training.vocabulary_multiple, 8);
  // 1,000 rows of 256 numbers in 16 bits, of two tables.
  const std::int64_t rows = 1'000 / 4 * 256 * 2 * 2;
  EXPECT_EQ(parameters(divided, 1), parameters(ends, 1) + rows);
  EXPECT_EQ(parameters(divided, 0), parameters(divided, 1));            // no table of positions
  EXPECT_EQ(parameters(divided, 3), parameters(divided, 1) + 256 * 2);  // the final norm
}

// One layer in each chunk: its attention output is kept once for each chunk in flight.
TEST(PipelineOrdersOnEngines, KeepChunksInFlight) {
  for (std::int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(alive(job({}), rank, "attention", "output"), 11 - 2 * rank) << rank;
}

// Between the two parts of backward products keep what they read; attention keeps nothing.
TEST(PipelineOrdersOnEngines, SplitBackwardKeepsInputsOfProducts) {
  const Job h1 = job({.schedule = "zb-h1", .chunks = 1, .layers = 4});
  const Job plain = job({.schedule = "1f1b", .chunks = 1, .layers = 4});
  // The first rank's weights never wait.
  EXPECT_EQ(alive(h1, 0, "attention", "output"), alive(plain, 0, "attention", "output"));
  // The last rank has one micro-batch in flight until the input's gradient, four until the weights': what attention gives
  // is what the product behind it reads.
  EXPECT_EQ(alive(h1, 3, "attention", "output"), 4);
  EXPECT_EQ(alive(plain, 3, "attention", "output"), 1);
}

}  // namespace
}  // namespace steelyard
