#include "model/stored_quantisation.h"

#include <gtest/gtest.h>

#include "document/read.h"

namespace steelyard {
namespace {

std::optional<StoredQuantisation> of(const std::string& config) {
  return stored_quantisation(*read_json(config, "config.json"));
}

TEST(StoredQuantisation, ReadsTheConfig) {
  const auto four = of(R"({"quantization_config": {"quant_method": "bitsandbytes",
      "load_in_4bit": true, "bnb_4bit_use_double_quant": true}})");
  ASSERT_TRUE(four);
  EXPECT_EQ(four->type, ElementType::kNormalFloat4);
  EXPECT_TRUE(four->twice);
  const auto eight = of(R"({"quantization_config": {"load_in_8bit": true}})");
  ASSERT_TRUE(eight);
  EXPECT_EQ(eight->type, ElementType::kInt8);
  EXPECT_FALSE(of("{}"));
  EXPECT_FALSE(of(R"({"quantization_config": {}})"));
}

TEST(StoredQuantisation, NamesAMethodWhoseBytesAreNotKnown) {
  const auto stored = of(R"({"quantization_config": {"quant_method": "GPTQ", "bits": 4}})");
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->method, "gptq");
  EXPECT_FALSE(stored->type);
  EXPECT_TRUE(of(R"({"quantization_config": {"quant_method": "mxfp4"}})")->comes_back);
}

TEST(StoredQuantisation, ReadsNamesOfRepublishedCheckpoints) {
  EXPECT_EQ(quantisation_in_name("unsloth/Meta-Llama-3.1-8B-bnb-4bit")->type,
            ElementType::kNormalFloat4);
  EXPECT_EQ(quantisation_in_name("TheBloke/Llama-2-7B-GPTQ")->method, "gptq");
  EXPECT_EQ(quantisation_in_name("Qwen/Qwen2.5-7B-Instruct-AWQ")->method, "awq");
  for (const char* whole :
       {"meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1", "hqq-labs/Llama-2-7b", "7B"})
    EXPECT_FALSE(quantisation_in_name(whole)) << whole;
}

}  // namespace
}  // namespace steelyard
