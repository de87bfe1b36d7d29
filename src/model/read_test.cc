// What is refused, what is warned of, and what is understood in a config.json.
#include "model/read.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "document/read.h"

namespace steelyard {
namespace {

struct Outcome {
  std::optional<Architecture> model;
  Diagnostics problems;
};

Outcome read(std::string_view text) {
  Outcome outcome;
  const auto document = read_json(text, "config.json");
  EXPECT_TRUE(document) << text;
  if (document) outcome.model = read_architecture(*document, "test", outcome.problems);
  return outcome;
}

// A small llama; `more` replaces or adds keys.
std::string llama(std::string_view more, std::string_view without = "") {
  std::string text = "{\n";
  for (const char* line :
       {"\"model_type\": \"llama\"", "\"vocab_size\": 1000", "\"hidden_size\": 64",
        "\"intermediate_size\": 128", "\"num_hidden_layers\": 2", "\"num_attention_heads\": 4"}) {
    const std::string key(line, std::string_view(line).find(':'));
    if (more.find(key) != std::string_view::npos || key == without) continue;
    text += std::string(line) + ",\n";
  }
  return text + std::string(more.empty() ? "\"use_cache\": true" : more) + "\n}";
}

bool mentions(const Outcome& outcome, std::string_view words) {
  for (const Diagnostic& problem : outcome.problems)
    if ((problem.message + problem.label + problem.help).find(words) != std::string::npos)
      return true;
  return false;
}

std::string codes(const Outcome& outcome) {
  std::string text;
  for (const Diagnostic& problem : outcome.problems) text += problem.code + " ";
  return text;
}

TEST(ReadArchitecture, ReadsASmallLlama) {
  const Outcome outcome = read(llama(""));
  ASSERT_TRUE(outcome.model);
  EXPECT_TRUE(outcome.problems.empty()) << codes(outcome);
  // 2 V h + L (4 h h + 3 h f + 2 h) + h
  EXPECT_EQ(count_parameters(*outcome.model).total,
            2 * 1000 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64);
  EXPECT_EQ(outcome.model->family, "llama");
}

TEST(ReadArchitecture, NamesTheNearestFamily) {
  const Outcome outcome = read(llama("\"model_type\": \"lama\""));
  EXPECT_FALSE(outcome.model);
  ASSERT_EQ(codes(outcome), "E301 ");
  EXPECT_TRUE(mentions(outcome, "\"llama\""));
  EXPECT_TRUE(mentions(outcome, "\"deepseek_v3\""));  // the list
  EXPECT_GT(outcome.problems[0].place.line, 0);
}

TEST(ReadArchitecture, NeedsAModelType) {
  EXPECT_EQ(codes(read(llama("", "\"model_type\""))), "E301 ");
  EXPECT_EQ(codes(read(llama("\"model_type\": 3"))), "E301 ");
  EXPECT_EQ(codes(read("[1]")), "E303 ");
}

TEST(ReadArchitecture, FindsSeveralFaultsAtOnce) {
  const Outcome outcome =
      read(llama("\"hidden_size\": -64, \"num_hidden_layers\": 0, \"vocab_size\": \"many\", "
                 "\"intermediate_size\": 12.5"));
  EXPECT_FALSE(outcome.model);
  EXPECT_EQ(outcome.problems.size(), 4U) << codes(outcome);
  EXPECT_TRUE(mentions(outcome, "from 1 to 2147483647"));
}

TEST(ReadArchitecture, NeverGuessesAMissingSize) {
  for (const char* key : {"\"hidden_size\"", "\"num_hidden_layers\"", "\"vocab_size\"",
                          "\"intermediate_size\"", "\"num_attention_heads\""}) {
    const Outcome outcome = read(llama("", key));
    EXPECT_FALSE(outcome.model) << key;
    EXPECT_EQ(codes(outcome), "E302 ") << key;
  }
  EXPECT_EQ(codes(read(llama("\"hidden_size\": null"))), "E302 ");
}

TEST(ReadArchitecture, RefusesHeadsThatDoNotDivide) {
  EXPECT_EQ(codes(read(llama("\"num_attention_heads\": 5"))), "E305 ");
  EXPECT_EQ(codes(read(llama("\"num_key_value_heads\": 3"))), "E305 ");
  // The class default of mistral is 8 key/value heads, whatever the number of heads.
  const Outcome outcome = read(llama("\"model_type\": \"mistral\", \"num_attention_heads\": 4"));
  EXPECT_EQ(codes(outcome), "E305 ");
  EXPECT_TRUE(mentions(outcome, "when it is not given"));
}

TEST(ReadArchitecture, AnExplicitNullOfKeyValueHeadsMeansAllHeads) {
  const Outcome outcome = read(llama("\"model_type\": \"mistral\", \"num_key_value_heads\": null"));
  ASSERT_TRUE(outcome.model) << codes(outcome);
  EXPECT_EQ(std::get<GroupedAttention>(outcome.model->kinds[0].attention).key_value_heads, 4);
}

TEST(ReadArchitecture, UnderstandsOtherSpellings) {
  const Outcome outcome = read(
      R"({"model_type": "gpt2", "vocab_size": 100, "n_embd": 8, "n_layer": 1, "n_head": 2,
          "n_positions": 16, "n_ctx": 16})");
  ASSERT_TRUE(outcome.model) << codes(outcome);
  EXPECT_EQ(count_parameters(*outcome.model).total, 108 * 8 + 8 * 16 - 64 + 12 * 64 + 13 * 8 + 16);
}

TEST(ReadArchitecture, RefusesTwoSpellingsThatDisagree) {
  const Outcome outcome = read(llama("\"d_model\": 32"));
  EXPECT_FALSE(outcome.model);
  EXPECT_EQ(codes(outcome), "E306 ");
  EXPECT_TRUE(read(llama("\"d_model\": 64")).model);
}

TEST(ReadArchitecture, WarnsOfKeysThatMayChangeTensors) {
  const Outcome outcome = read(llama("\"attention_bais\": true, \"my_adapter\": {\"rank\": 4}"));
  EXPECT_TRUE(outcome.model);
  EXPECT_EQ(codes(outcome), "E640 E640 ");
  EXPECT_TRUE(mentions(outcome, "\"attention_bias\""));
  EXPECT_EQ(outcome.problems[0].severity, Severity::kWarning);
}

TEST(ReadArchitecture, PassesOverWordsNullsAndKnownBookkeeping) {
  const Outcome outcome =
      read(llama("\"architectures\": [\"LlamaForCausalLM\"], \"torch_dtype\": \"bfloat16\", "
                 "\"rope_theta\": 1e4, "
                 "\"rope_scaling\": {\"factor\": 8.0}, \"some_word\": \"x\", \"nothing\": null, "
                 "\"pruned_heads\": {}"));
  EXPECT_TRUE(outcome.model);
  EXPECT_TRUE(outcome.problems.empty()) << codes(outcome);
}

TEST(ReadArchitecture, TakesTheLanguageModelOfAMultimodalFile) {
  const std::string text = R"({"model_type": "gemma3", "vision_config": {"hidden_size": 9},
    "text_config": {"vocab_size": 100, "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 6, "num_attention_heads": 4, "head_dim": 16, "num_key_value_heads": 2}})";
  const Outcome outcome = read(text);
  ASSERT_TRUE(outcome.model) << codes(outcome);
  EXPECT_EQ(outcome.model->family, "gemma3_text");
  EXPECT_EQ(codes(outcome), "E641 ");
  EXPECT_TRUE(outcome.model->tied_head);
}

TEST(ReadArchitecture, NameThatIsAlmostKnownIsASlipAroundALanguageModelToo) {
  const auto around = [](const char* outer) {
    return read(
        (std::string(R"({"model_type": ")") + outer + R"(", "text_config": {"model_type": "llama",
      "vocab_size": 100, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
      "num_attention_heads": 4}})")
            .c_str());
  };
  EXPECT_FALSE(around("lama").model);
  EXPECT_TRUE(around("somebodys_model_of_pictures").model);
}

TEST(ReadArchitecture, RefusesAPairOfTowersWithoutOneOfThem) {
  const Outcome outcome = read(R"({"model_type": "clip", "text_config": {"hidden_size": 512}})");
  EXPECT_EQ(codes(outcome), "E302 ");
  EXPECT_TRUE(mentions(outcome, "\"vision_config\""));
}

TEST(ReadArchitecture, RefusesLayerTypesThatDoNotFit) {
  const std::string gemma = R"({"model_type": "gemma2", "vocab_size": 100, "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "layer_types": )";
  EXPECT_EQ(codes(read(gemma + R"(["full_attention"]})")), "E305 ");
  EXPECT_EQ(codes(read(gemma + R"(["full_attention", "odd"]})")), "E303 ");
  const Outcome outcome = read(gemma + R"(["full_attention", "sliding_attention"]})");
  ASSERT_TRUE(outcome.model);
  EXPECT_FALSE(std::get<GroupedAttention>(outcome.model->kinds[0].attention).sliding_window);
}

TEST(ReadArchitecture, RefusesMoreExpertsPerTokenThanThereAre) {
  const std::string text = llama(
      "\"model_type\": \"mixtral\", \"num_key_value_heads\": 2, \"num_local_experts\": 4, "
      "\"num_experts_per_tok\": 5");
  EXPECT_EQ(codes(read(text)), "E305 ");
}

TEST(ReadArchitecture, AnswersOverflowWithAnError) {
  const Outcome wide =
      read(llama("\"hidden_size\": 2147483644, \"intermediate_size\": 2147483647, "
                 "\"num_hidden_layers\": 65536"));
  EXPECT_FALSE(wide.model);
  EXPECT_EQ(codes(wide), "E307 ");
  const Outcome large = read(llama("\"hidden_size\": 1000000000000000000"));
  EXPECT_EQ(codes(large), "E304 ");
}

}  // namespace
}  // namespace steelyard
