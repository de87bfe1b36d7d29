#include "model/catalogue.h"

#include <gtest/gtest.h>

#include <string>

namespace steelyard {
namespace {

struct Answer {
  std::string name;
  std::string understood;
  Diagnostics problems;
};

Answer ask(std::string_view written) {
  Answer answer;
  if (const auto found = find_model(written, Place{}, answer.problems)) {
    answer.name = found->architecture->name;
    answer.understood = found->understood;
  }
  return answer;
}

TEST(Catalogue, FindsEveryPresetByNameAndByHubName) {
  for (const std::string_view name : preset_names()) {
    EXPECT_EQ(ask(name).name, name);
    EXPECT_EQ(ask(name).understood, "");
    const std::string hub_id = find_preset(name)->hub_id;
    if (hub_id.empty()) continue;
    EXPECT_EQ(preset_of_hub_id(hub_id), name) << hub_id;
  }
}

TEST(Catalogue, UnderstandsHubNamesAndLinks) {
  for (const char* written :
       {"meta-llama/Llama-3.1-8B", "META-LLAMA/llama-3.1-8b", "LLAMA-3.1-8B",
        "https://huggingface.co/meta-llama/Llama-3.1-8B",
        "https://huggingface.co/meta-llama/Llama-3.1-8B/blob/main/config.json",
        "https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json?download=true",
        "https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main",
        "huggingface.co/meta-llama/Llama-3.1-8B/", "hf.co/meta-llama/Llama-3.1-8B",
        "hf://meta-llama/Llama-3.1-8B", "llama3.1-8b", "meta-llama/Llama-3.1-8B-Instruct"}) {
    const Answer answer = ask(written);
    EXPECT_EQ(answer.name, "llama-3.1-8b") << written;
    EXPECT_FALSE(answer.understood.empty()) << written;
  }
}

TEST(Catalogue, KnowsModelsOfAnothersShape) {
  for (const char* written : {"deepseek-r1", "deepseek-ai/DeepSeek-R1", "DeepSeek-V3.1",
                              "https://huggingface.co/deepseek-ai/DeepSeek-V3-0324"}) {
    const Answer answer = ask(written);
    EXPECT_EQ(answer.name, "deepseek-v3") << written;
    EXPECT_NE(answer.understood.find("the shape of"), std::string::npos) << written;
  }
}

// Tuned, quantised, republished: what is left of the name is that of the shape.
TEST(Catalogue, KnowsRepublishedAndTunedNames) {
  const std::vector<std::pair<const char*, const char*>> known = {
      {"unsloth/Llama-3.2-1B", "llama-3.2-1b"},
      {"NousResearch/Meta-Llama-3-8B", "llama-3-8b"},
      {"unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "llama-3.1-8b"},
      {"Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"},
      {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
      {"EleutherAI/pythia-1.4b-deduped", "pythia-1.4b"},
      {"deepseek-ai/DeepSeek-R1-Distill-Llama-8B", "llama-3.1-8b"},
      {"Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"},
      {"01-ai/Yi-34B-Chat", "yi-1.5-34b"},
      {"yoshitomo-matsubara/bert-base-uncased-mnli", "bert-base-uncased"},
      {"axolotl-quants/DeepSeek-V2.5-bnb-nf4-bf16", "deepseek-v2"},
      {"togethercomputer/RedPajama-INCITE-Chat-3B-v1", "redpajama-incite-3b"},
      // Not qwen2.5-1.5b: its head is a matrix of its own.
      {"deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "deepseek-r1-distill-qwen-1.5b"},
  };
  for (const auto& [written, name] : known) EXPECT_EQ(ask(written).name, name) << written;
  // A version of its own shape, and a folder that only ends like a name.
  EXPECT_EQ(ask("mistralai/Mistral-7B-v0.9").problems.size(), 1U);
  EXPECT_EQ(ask("a/b/llama-3.1-8b").problems.size(), 1U);
}

TEST(Catalogue, SuggestsTheNearestName) {
  const Answer answer = ask("lama-3.1-8b");
  EXPECT_TRUE(answer.name.empty());
  ASSERT_EQ(answer.problems.size(), 1U);
  EXPECT_EQ(answer.problems[0].code, "E308");
  EXPECT_NE(answer.problems[0].help.find("\"llama-3.1-8b\""), std::string::npos);
}

TEST(Catalogue, RefusesWhatIsNothing) {
  for (const char* written : {"", " ", "qwertzuiop", "https://example.com/a/b", "hf://", "a/b/c/d"})
    EXPECT_EQ(ask(written).problems.size(), 1U) << written;
}

TEST(Catalogue, GuessesFromASizeAndSaysSo) {
  const auto answer = ask("7B");
  EXPECT_EQ(answer.name, "7B");
  EXPECT_NE(answer.understood.find("llama-like"), std::string::npos);
}

TEST(Catalogue, KnowsTheHubNameOfWhatItFound) {
  Diagnostics problems;
  const auto found = find_model("llama-3.1-8b", Place{}, problems);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->architecture->hub_id, "meta-llama/Llama-3.1-8B");
}

}  // namespace
}  // namespace steelyard
