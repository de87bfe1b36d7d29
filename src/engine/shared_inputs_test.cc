// What a model of transformers hands to all its layers, and its buffers, by family: 2 sequences of 64 tokens.
#include "engine/shared_inputs.h"

#include <fmt/format.h>

#include "engine/engine_check.h"

namespace steelyard {
namespace {

Job job(const std::string& model, const std::string& training, const std::string& more = "") {
  return job_of(
      fmt::format("engine = \"ddp\"\nmodel = {}\n[cluster]\ndevice = \"h100-sxm-80gb\"\n"
                  "[training]\nsequence_length = 64\nmicro_batch = 2\n{}\n{}",
                  model, training, more));
}

const std::string kShape =
    "hidden_size = 64, num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 4, "
    "intermediate_size = 128, "
    "vocab_size = 512";
std::string model(const char* type, const char* more) {
  return fmt::format("{{ model_type = \"{}\", {}{} }}", type, kShape, more);
}

struct Listed {
  std::string name;
  std::int64_t bytes = 0, count = 0;
  bool kept = false;
  friend bool operator==(const Listed&, const Listed&) = default;
};
std::ostream& operator<<(std::ostream& out, const Listed& input) {
  return out << fmt::format("{} {} x {}{}", input.name, input.count, input.bytes,
                            input.kept ? ", kept" : "");
}

std::vector<Listed> inputs_of(const Job& job) {
  Workbook<Checked> book;
  std::vector<Listed> listed;
  for (const SharedInput& input :
       shared_inputs<Checked>(job, style_of(job), sizes_of<Checked>(job), book)) {
    const Slot& slot = book.program.slot_at(input.slot);
    listed.push_back({slot.name, slot.bytes.value().value(), input.count, input.kept});
  }
  return listed;
}

const std::string kEager = "attention = \"eager\"\nprecision = \"bf16-pure\"";
const std::string kFlash = "precision = \"bf16-pure\"";

TEST(SharedInputs, WrittenOutAttentionNeedsNumbersForEverySequence) {
  const std::vector<Listed> expected = {{"position ids", 512, 1, false},
                                        {"attention mask", 2 * 64 * 64 * 2, 1, false},
                                        {"cos or sin", 64 * 16 * 2, 2, true}};
  EXPECT_EQ(inputs_of(job(model("llama", ""), kEager)), expected);
}

// A kernel is told of a window that is shorter than the sequence by truths, the same for all sequences.
TEST(SharedInputs, KernelsTakeTruthsForAWindow) {
  const std::string efficient = "attention = \"efficient\"\nprecision = \"bf16-pure\"";
  const auto masks = [&](const char* window) {
    const std::string more = fmt::format(", sliding_window = {}, head_dim = 16", window);
    std::int64_t bytes = 0;
    for (const Listed& input : inputs_of(job(model("mistral", more.c_str()), efficient)))
      if (input.name == "attention mask") bytes += input.bytes * input.count;
    return bytes;
  };
  EXPECT_EQ(masks("32"), 64 * 64);
  EXPECT_EQ(masks("64"), 0);
}

TEST(SharedInputs, EachFamilyHasItsOwn) {
  // bloom counts no positions; its layers are given alibi
  const std::vector<Listed> bloom = {{"alibi", 2 * 64 * 4 * 2, 1, false}};
  EXPECT_EQ(inputs_of(job("{ model_type = \"bloom\", hidden_size = 64, n_layer = 4, n_head = 4, "
                          "vocab_size = 512 }",
                          kFlash)),
            bloom);
  // opt counts them for every sequence, and a table keeps others
  const std::vector<Listed> opt = {{"position ids", 2 * 64 * 8, 1, false}};
  EXPECT_EQ(inputs_of(job("{ model_type = \"opt\", hidden_size = 64, num_hidden_layers = 4, "
                          "num_attention_heads = 4, ffn_dim = 128, vocab_size = 512, "
                          "max_position_embeddings = 64 }",
                          kFlash)),
            opt);
  // gpt-oss: tables of half a head
  for (const Listed& input : inputs_of(
           job(model("gpt_oss", ", head_dim = 16, num_local_experts = 4, num_experts_per_tok = 2"),
               kEager)))
    if (input.name == "cos or sin") {
      EXPECT_EQ(input.bytes, 64 * 8 * 2);
    }
  // glm-4 repeats the tables in each layer, gpt-j has none but those of its layers
  for (const Listed& input : inputs_of(job(model("glm4", ", head_dim = 16"), kFlash))) {
    EXPECT_FALSE(input.kept) << input;
  }
  const Job gptj =
      job("{ model_type = \"gptj\", n_embd = 64, n_layer = 4, n_head = 4, rotary_dim = 8, "
          "n_positions = 256, vocab_size = 512 }",
          kEager);
  for (const Listed& input : inputs_of(gptj)) EXPECT_NE(input.name, "cos or sin");
  EXPECT_EQ(resident(gptj)[Pile::kParameters] -
                resident(job("{ model_type = \"gptj\", n_embd = 64, n_layer = 4, n_head = 4, "
                             "rotary_dim = 8, n_positions = 512, vocab_size = 512 }",
                             kEager))[Pile::kParameters],
            Bytes(-4 * 256 * 8 * 4));
}

// Layers that run again keep all that they were given, until the last one of their sort has run backward.
TEST(SharedInputs, GoWithTheLastLayerThatKeepsThem) {
  const std::string again = "[recompute]\nmode = \"full\"\n";
  const Job both = job(model("gpt_oss",
                             ", head_dim = 16, num_local_experts = 4, num_experts_per_tok = 2, "
                             "layer_types = [\"sliding_attention\", \"full_attention\", "
                             "\"sliding_attention\", \"full_attention\"]"),
                       kEager, again);
  for (const Listed& input : inputs_of(both)) EXPECT_TRUE(input.kept) << input;
  expect_sound(both);
  // At the peak of backward, in the lowest layer, the mask of the layers above it has gone.
  StagePrograms<Checked> stages(both);
  const PeakMoment moment = find_peak(stages.program(), stages.build(0).root, Phase::kBackward);
  std::int64_t masks = 0;
  for (std::size_t i = 0; i < moment.alive.size(); ++i)
    if (std::string(stages.program().slot_at(static_cast<SlotId>(i)).rule) ==
        "inputs.attention-mask")
      masks += moment.alive[i];
  EXPECT_GE(masks, 1);
}

}  // namespace
}  // namespace steelyard
