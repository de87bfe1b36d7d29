#include "model/compare_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "document/read.h"
#include "model/read.h"
#include "model/sequence.h"

namespace steelyard {
namespace {

Architecture model_of(std::string_view text) {
  Diagnostics problems;
  auto model = read_architecture(*read_json(text, "config.json"), "test", problems);
  EXPECT_TRUE(model);
  return model.value_or(Architecture{});
}

Architecture tiny_llama(bool tied) {
  return model_of(std::string(R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 8,
    "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "tie_word_embeddings": )") +
                  (tied ? "true}" : "false}"));
}

Architecture tiny_mixture(std::string_view family, std::string_view more) {
  return model_of(R"({"model_type": ")" + std::string(family) + R"(", "vocab_size": 64,
    "hidden_size": 8, "intermediate_size": 12, "moe_intermediate_size": 6, "num_hidden_layers": 3,
    "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 4, "num_experts": 4,
    "num_experts_per_tok": 2)" +
                  std::string(more) + "}");
}

void store(StoredTensors& stored, std::string name, std::vector<std::int64_t> shape) {
  StoredTensor tensor{std::move(name), std::move(shape), "BF16", 1};
  for (const std::int64_t dimension : tensor.shape) tensor.elements *= dimension;
  stored.push_back(std::move(tensor));
}

void store_all(StoredTensors& stored, const std::vector<ParameterTensor>& tensors,
               const std::string& prefix) {
  for (const ParameterTensor& tensor : tensors) {
    const std::size_t star = tensor.name.find('*');
    for (std::int64_t copy = 0; copy < tensor.copies; ++copy) {
      std::string name = tensor.name;
      if (star != std::string::npos) name.replace(star, 1, std::to_string(copy));
      store(stored, prefix + name, tensor.shape);
    }
  }
}

// The checkpoint that the architecture describes.
StoredTensors stored_as_described(const Architecture& model) {
  StoredTensors stored;
  store_all(stored, model.embedding_parameters, "");
  int index = 0;
  for (const int kind : kind_of_each_layer(model))
    store_all(stored, model.kinds[static_cast<std::size_t>(kind)].parameters,
              prefix_of_layer(model, index++));
  store_all(stored, model.head_parameters, "");
  return stored;
}

std::string listed(const TensorComparison& comparison) {
  std::string text;
  for (const TensorMismatch& mismatch : comparison.mismatches) text += described(mismatch) + "\n";
  return text;
}

TEST(CompareTensors, FindsNothingWhereNothingDiffers) {
  const Architecture model = tiny_llama(false);
  const StoredTensors stored = stored_as_described(model);
  const TensorComparison comparison = compare_tensors(model, stored);
  EXPECT_EQ(listed(comparison), "");
  EXPECT_EQ(comparison.stored_parameters, count_parameters(model).total);
  EXPECT_EQ(comparison.matched, static_cast<std::int64_t>(stored.size()));
}

TEST(CompareTensors, NamesWhatIsMissingUnexpectedAndOfAnotherShape) {
  const Architecture model = tiny_llama(false);
  StoredTensors stored = stored_as_described(model);
  for (StoredTensor& tensor : stored) {
    if (tensor.name == "model.layers.1.mlp.up_proj.weight") tensor.name = "model.layers.1.mlp.odd";
    if (tensor.name == "lm_head.weight") tensor.shape = {104, 8};
  }
  EXPECT_EQ(listed(compare_tensors(model, stored)),
            "missing     model.layers.1.mlp.up_proj.weight  expected [16, 8]\n"
            "shape       lm_head.weight  expected [100, 8], stored [104, 8]\n"
            "unexpected  model.layers.1.mlp.odd  stored [16, 8]\n");
}

TEST(CompareTensors, PassesOverPrefixesTiedHeadsAndBuffers) {
  const Architecture model = tiny_llama(true);
  StoredTensors stored = stored_as_described(model);
  for (StoredTensor& tensor : stored) tensor.name.erase(0, std::string("model.").size());
  store(stored, "lm_head.weight", {100, 8});
  store(stored, "layers.0.self_attn.rotary_emb.inv_freq", {4});
  const TensorComparison comparison = compare_tensors(model, stored);
  EXPECT_EQ(listed(comparison), "");
  EXPECT_EQ(comparison.stored_parameters, count_parameters(model).total);
  for (StoredTensor& tensor : stored) tensor.name.insert(0, "language_model.model.");
  EXPECT_EQ(listed(compare_tensors(model, stored)), "");
}

TEST(CompareTensors, KnowsExpertsInOneTensor) {
  const Architecture model = tiny_mixture("qwen3_moe", "");
  StoredTensors stored = stored_as_described(model);
  EXPECT_EQ(listed(compare_tensors(model, stored)), "");
  std::erase_if(stored, [](const StoredTensor& tensor) {
    return tensor.name.find(".experts.") != std::string::npos;
  });
  EXPECT_EQ(compare_tensors(model, stored).mismatches.size(), 3U * 4U * 3U);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    store(stored, prefix + "gate_up_proj", {4, 12, 8});
    store(stored, prefix + "down_proj", {4, 8, 6});
  }
  const TensorComparison comparison = compare_tensors(model, stored);
  EXPECT_EQ(listed(comparison), "");
  EXPECT_EQ(comparison.stored_parameters, count_parameters(model).total);
}

TEST(CompareTensors, KnowsMixtralUnderItsNewNames) {
  const Architecture model = tiny_mixture("mixtral", "");
  StoredTensors stored = stored_as_described(model);
  std::erase_if(stored, [](const StoredTensor& tensor) {
    return tensor.name.find(".experts.") != std::string::npos;
  });
  for (StoredTensor& tensor : stored)
    if (const auto at = tensor.name.find("block_sparse_moe"); at != std::string::npos)
      tensor.name.replace(at, 16, "mlp");
  for (int layer = 0; layer < 3; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    store(stored, prefix + "gate_up_proj", {4, 24, 8});
    store(stored, prefix + "down_proj", {4, 8, 12});
  }
  EXPECT_EQ(listed(compare_tensors(model, stored)), "");
}

TEST(CompareTensors, KnowsQuantisedBlocks) {
  const Architecture model = tiny_mixture("gpt_oss", "");
  StoredTensors stored = stored_as_described(model);
  StoredTensors blocks;
  for (StoredTensor& tensor : stored) {
    const bool weights =
        tensor.name.ends_with("gate_up_proj") || tensor.name.ends_with("down_proj");
    if (!weights) {
      blocks.push_back(tensor);
      continue;
    }
    store(blocks, tensor.name + "_blocks", {4, tensor.elements / 8});
    store(blocks, tensor.name + "_scales", {4, 1});
  }
  const TensorComparison comparison = compare_tensors(model, blocks);
  EXPECT_EQ(listed(comparison), "");
  EXPECT_EQ(comparison.stored_parameters, count_parameters(model).total);
}

TEST(CompareTensors, LetsPredictionModulesBeThereOrNot) {
  const Architecture model = tiny_mixture("glm4_moe", R"(, "num_nextn_predict_layers": 1)");
  StoredTensors stored = stored_as_described(model);
  EXPECT_EQ(listed(compare_tensors(model, stored)), "");
  const std::string prefix = "model.layers.3.";
  store_all(stored, model.prediction_parameters, prefix);
  store_all(stored, model.kinds[static_cast<std::size_t>(model.prediction_layer_kind)].parameters,
            prefix);
  store(stored, prefix + "embed_tokens.weight", {64, 8});
  store(stored, prefix + "shared_head.head.weight", {64, 8});
  const TensorComparison comparison = compare_tensors(model, stored);
  EXPECT_EQ(listed(comparison), "");
  EXPECT_EQ(comparison.stored_parameters, count_parameters(model).total);
}

TEST(CompareTensors, StopsAtItsLimit) {
  const Architecture model = model_of(R"({"model_type": "deepseek_v3", "vocab_size": 10,
    "hidden_size": 8, "intermediate_size": 8, "moe_intermediate_size": 8, "num_hidden_layers": 65536,
    "num_attention_heads": 2, "n_routed_experts": 65536, "num_experts_per_tok": 8,
    "num_nextn_predict_layers": 65536})");
  const TensorComparison comparison = compare_tensors(model, {}, 10);
  EXPECT_EQ(comparison.mismatches.size(), 10U);
  EXPECT_TRUE(comparison.cut);
  EXPECT_EQ(problems_of(comparison, "model.safetensors").size(), 11U);
}

}  // namespace
}  // namespace steelyard
