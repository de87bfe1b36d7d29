// Every preset, to the last parameter, and the tensor names that checkpoints really have.
#include "model/families/families.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "document/read.h"
#include "model/catalogue.h"
#include "model/families/unweighed.h"
#include "model/read.h"
#include "model/sequence.h"

namespace steelyard {
namespace {

Architecture preset(std::string_view name) {
  const auto found = find_preset(name);
  EXPECT_TRUE(found) << name;
  Diagnostics problems;
  auto model = read_architecture(found->config, found->name, problems);
  EXPECT_TRUE(model) << name;
  for (const Diagnostic& problem : problems)
    if (problem.code != "E641")  // a tower beside the language model, which is told
      ADD_FAILURE() << name << ": " << problem.code << " " << problem.message;
  return model.value_or(Architecture{});
}

// Names of one layer's tensors, the counts of experts left as stars.
std::set<std::string> names_of(const std::vector<ParameterTensor>& tensors) {
  std::set<std::string> names;
  for (const ParameterTensor& tensor : tensors) names.insert(tensor.name);
  return names;
}

const ParameterTensor& tensor_named(const std::vector<ParameterTensor>& tensors,
                                    std::string_view name) {
  for (const ParameterTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  ADD_FAILURE() << "no tensor " << name;
  static const ParameterTensor none;
  return none;
}

using Shape = std::vector<std::int64_t>;

TEST(Presets, CountToTheLastParameter) {
  int presets = 0;
  for (const std::string_view name : preset_names()) {
    const Architecture model = preset(name);
    EXPECT_EQ(count_parameters(model).total, find_preset(name)->parameters) << name;
    ++presets;
  }
  EXPECT_GE(presets, 110);
}

TEST(Presets, EqualTheTotalsThatOthersCountedUnlessDisputed) {
  for (const std::string_view name : preset_names()) {
    const auto found = find_preset(name);
    const bool differs = found->exact_check && *found->exact_check != found->parameters;
    EXPECT_TRUE(found->disputed || !differs) << name;
    EXPECT_EQ(found->disputed, !found->dispute.empty()) << name;
  }
}

TEST(Presets, NameTheirSource) {
  for (const std::string_view name : preset_names()) {
    const auto found = find_preset(name);
    EXPECT_EQ(found->name, name);
    EXPECT_GT(found->source.size(), 4U) << name;
    EXPECT_FALSE(found->published.empty()) << name;
  }
}

TEST(Presets, HaveConsistentLayersAndIndices) {
  for (const std::string_view name : preset_names()) {
    const Architecture model = preset(name);
    const auto kinds = kind_of_each_layer(model);
    EXPECT_EQ(static_cast<std::int64_t>(kinds.size()), model.layers) << name;
    EXPECT_EQ(std::set<int>(kinds.begin(), kinds.end()).size(), model.kinds.size()) << name;
    for (const Layer& layer : model.kinds) {
      EXPECT_EQ(names_of(layer.parameters).size(), layer.parameters.size()) << name;
      const std::size_t norms = layer.arrangement == Arrangement::kSandwich          ? 4
                                : layer.arrangement == Arrangement::kParallelOneNorm ? 1
                                                                                     : 2;
      EXPECT_EQ(layer.norms.size(), norms) << name;
      for (const Norm& norm : layer.norms)
        EXPECT_EQ(layer.parameters.at(static_cast<std::size_t>(norm.weight_index)).name,
                  norm.name + ".weight")
            << name;
    }
  }
}

// Active parameters, embedding and head included, as the makers print them (billions).
TEST(ActiveParameters, EqualThePublishedOnes) {
  struct Row {
    const char* name;
    double billions;
    double tolerance;
  };
  // gpt-oss prints 5.1B and 3.6B without the input embedding (0.58B), which counts here.
  constexpr Row kRows[] = {
      {"mixtral-8x7b", 12.9, 0.05},
      {"mixtral-8x22b", 39.1, 0.1},
      {"deepseek-v3", 37, 0.6},
      {"deepseek-v2", 21, 0.5},
      {"deepseek-v2-lite", 2.4, 0.3},
      {"qwen3-30b-a3b", 3.3, 0.06},
      {"qwen3-235b-a22b", 22, 0.3},
      {"qwen3-coder-480b-a35b", 35, 0.5},
      {"qwen1.5-moe-a2.7b", 2.7, 0.05},
      {"qwen2-57b-a14b", 14, 0.3},
      {"phi-3.5-moe", 6.6, 0.05},
      {"kimi-k2", 32, 0.9},
      {"gpt-oss-120b", 5.13 + 0.58, 0.01},
      {"gpt-oss-20b", 3.61 + 0.58, 0.01},
      {"llama-4-scout-17b-16e", 17, 0.2},
      {"llama-4-maverick-17b-128e", 17, 0.2},
  };
  for (const Row& row : kRows)
    EXPECT_NEAR(static_cast<double>(count_parameters(preset(row.name)).active) / 1e9, row.billions,
                row.tolerance)
        << row.name;
}

// By hand: 2 of 8 experts of 3 x 4096 x 14336 in 32 layers.
TEST(ActiveParameters, MixtralByHand) {
  const ParameterCounts counts = count_parameters(preset("mixtral-8x7b"));
  const std::int64_t expert = std::int64_t{3} * 4096 * 14336;
  EXPECT_EQ(counts.total - counts.active, 32 * 6 * expert);
}

TEST(ActiveParameters, AreAllOfADenseModel) {
  const ParameterCounts counts = count_parameters(preset("llama-3.1-8b"));
  EXPECT_EQ(counts.active, counts.total);
  EXPECT_EQ(counts.total, 8'030'261'248);
}

TEST(BesideTotal, HoldsPredictionModulesAndBuffers) {
  const auto of = [](std::string_view name) {
    std::map<std::string, std::int64_t> counts;
    for (const auto& beside : preset(name).beside_total) counts[beside.name] = beside.parameters;
    return counts;
  };
  EXPECT_EQ(of("deepseek-v3"),
            (std::map<std::string, std::int64_t>{{"mtp", 11'610'067'968}, {"buffer", 14'848}}));
  EXPECT_EQ(of("glm-4.5-air"),
            (std::map<std::string, std::int64_t>{{"mtp", 2'375'059'456}, {"buffer", 5'760}}));
  EXPECT_EQ(of("roberta-base"), (std::map<std::string, std::int64_t>{{"mlm_head", 642'393}}));
  EXPECT_TRUE(of("llama-3.1-8b").empty());
}

TEST(Llama, TensorsAreNamedAndCutAsInItsCheckpoint) {
  const Architecture model = preset("llama-3.1-8b");
  EXPECT_EQ(model.layer_prefix, "model.layers.");
  EXPECT_EQ(names_of(model.embedding_parameters),
            (std::set<std::string>{"model.embed_tokens.weight"}));
  EXPECT_EQ(names_of(model.head_parameters),
            (std::set<std::string>{"model.norm.weight", "lm_head.weight"}));
  const auto& tensors = model.kinds.at(0).parameters;
  EXPECT_EQ(
      names_of(tensors),
      (std::set<std::string>{"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                             "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                             "mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight",
                             "input_layernorm.weight", "post_attention_layernorm.weight"}));
  EXPECT_EQ(tensor_named(tensors, "self_attn.k_proj.weight").shape, (Shape{1024, 4096}));
  EXPECT_EQ(tensor_named(tensors, "self_attn.k_proj.weight").cut, TensorCut::kRows);
  EXPECT_EQ(tensor_named(tensors, "self_attn.k_proj.weight").head_width, 128);
  EXPECT_EQ(tensor_named(tensors, "mlp.down_proj.weight").shape, (Shape{4096, 14336}));
  EXPECT_EQ(tensor_named(tensors, "mlp.down_proj.weight").cut, TensorCut::kColumns);
  EXPECT_EQ(tensor_named(tensors, "input_layernorm.weight").cut, TensorCut::kReplicated);
}

TEST(Gpt2, StoresItsMatricesTheOtherWayRound) {
  const Architecture model = preset("gpt2");
  EXPECT_EQ(model.layer_prefix, "transformer.h.");
  EXPECT_EQ(names_of(model.embedding_parameters),
            (std::set<std::string>{"transformer.wte.weight", "transformer.wpe.weight"}));
  EXPECT_EQ(names_of(model.head_parameters),
            (std::set<std::string>{"transformer.ln_f.weight", "transformer.ln_f.bias"}));
  const auto& tensors = model.kinds.at(0).parameters;
  EXPECT_EQ(names_of(tensors),
            (std::set<std::string>{"ln_1.weight", "ln_1.bias", "attn.c_attn.weight",
                                   "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
                                   "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias",
                                   "mlp.c_proj.weight", "mlp.c_proj.bias"}));
  EXPECT_EQ(tensor_named(tensors, "attn.c_attn.weight").shape, (Shape{768, 2304}));
  EXPECT_EQ(tensor_named(tensors, "attn.c_attn.weight").cut, TensorCut::kColumns);
  EXPECT_EQ(tensor_named(tensors, "attn.c_attn.bias").cut, TensorCut::kRows);
  EXPECT_EQ(tensor_named(tensors, "mlp.c_proj.weight").shape, (Shape{3072, 768}));
  EXPECT_EQ(tensor_named(tensors, "mlp.c_proj.weight").cut, TensorCut::kRows);
  EXPECT_EQ(tensor_named(tensors, "mlp.c_proj.bias").cut, TensorCut::kReplicated);
  EXPECT_TRUE(model.tied_head);
  EXPECT_EQ(model.head.weight_index, -1);
}

TEST(DeepSeek, HasLatentsExpertsAndDenseLayersFirst) {
  const Architecture model = preset("deepseek-v3");
  ASSERT_EQ(model.kinds.size(), 2U);
  ASSERT_EQ(model.sequence.size(), 2U);
  EXPECT_EQ(model.sequence[0].runs[0].count, 3);
  EXPECT_EQ(model.sequence[1].runs[0].count, 58);
  EXPECT_TRUE(std::holds_alternative<DenseMlp>(model.kinds[0].mlp));
  const Layer& sparse = model.kinds[1];
  EXPECT_EQ(names_of(sparse.parameters),
            (std::set<std::string>{
                "self_attn.q_a_proj.weight", "self_attn.q_a_layernorm.weight",
                "self_attn.q_b_proj.weight", "self_attn.kv_a_proj_with_mqa.weight",
                "self_attn.kv_a_layernorm.weight", "self_attn.kv_b_proj.weight",
                "self_attn.o_proj.weight", "mlp.gate.weight", "mlp.gate.e_score_correction_bias",
                "mlp.experts.*.gate_proj.weight", "mlp.experts.*.up_proj.weight",
                "mlp.experts.*.down_proj.weight", "mlp.shared_experts.gate_proj.weight",
                "mlp.shared_experts.up_proj.weight", "mlp.shared_experts.down_proj.weight",
                "input_layernorm.weight", "post_attention_layernorm.weight"}));
  EXPECT_EQ(tensor_named(sparse.parameters, "self_attn.kv_a_proj_with_mqa.weight").shape,
            (Shape{576, 7168}));
  EXPECT_EQ(tensor_named(sparse.parameters, "self_attn.q_b_proj.weight").shape,
            (Shape{24576, 1536}));
  const ParameterTensor& expert = tensor_named(sparse.parameters, "mlp.experts.*.down_proj.weight");
  EXPECT_EQ(expert.shape, (Shape{7168, 2048}));
  EXPECT_EQ(expert.copies, 256);
  EXPECT_TRUE(expert.routed_expert);
  EXPECT_EQ(expert.cut, TensorCut::kColumns);
  EXPECT_EQ(names_of(model.prediction_parameters),
            (std::set<std::string>{"enorm.weight", "hnorm.weight", "eh_proj.weight",
                                   "shared_head.norm.weight"}));
}

TEST(DeepSeek, AnExplicitNullMeansOnePlainQuery) {
  const Architecture model = preset("deepseek-v2-lite");
  const auto& attention = std::get<LatentAttention>(model.kinds.at(0).attention);
  EXPECT_TRUE(attention.query);
  EXPECT_FALSE(attention.query_down);
}

TEST(GptOss, FusesItsExpertsAndAlternatesWindows) {
  const Architecture model = preset("gpt-oss-20b");
  ASSERT_EQ(model.sequence.size(), 1U);
  EXPECT_EQ(model.sequence[0].runs.size(), 2U);
  EXPECT_EQ(model.sequence[0].times, 12);
  const Layer& first = model.kinds.at(0);
  EXPECT_EQ(std::get<GroupedAttention>(first.attention).sliding_window, 128);
  EXPECT_FALSE(std::get<GroupedAttention>(model.kinds.at(1).attention).sliding_window);
  const ParameterTensor& gate_up = tensor_named(first.parameters, "mlp.experts.gate_up_proj");
  EXPECT_EQ(gate_up.shape, (Shape{32, 2880, 5760}));
  EXPECT_TRUE(gate_up.fused_experts);
  EXPECT_EQ(gate_up.cut, TensorCut::kColumns);
  EXPECT_EQ(tensor_named(first.parameters, "mlp.experts.down_proj").cut, TensorCut::kRows);
}

TEST(Gemma3, HasFiveLocalLayersToOneGlobal) {
  const Architecture model = preset("gemma-3-1b");
  ASSERT_EQ(model.sequence.size(), 2U);  // (5 local, 1 global) x 4, then 2 local
  EXPECT_EQ(model.sequence[0].times, 4);
  EXPECT_EQ(model.sequence[0].runs[0].count, 5);
  EXPECT_EQ(model.sequence[1].runs[0].count, 2);
  EXPECT_TRUE(model.scaled_embedding);
}

TEST(Opt, The350mIsTheOddOne) {
  const Architecture model = preset("opt-350m");
  EXPECT_EQ(model.embedding_width, 512);
  EXPECT_FALSE(model.final_norm);
  EXPECT_TRUE(model.project_in && model.project_out);
  EXPECT_EQ(model.kinds.at(0).arrangement, Arrangement::kPostNorm);
  EXPECT_EQ(model.head.in, 512);
}

TEST(Llama4, TurnsDenseAndExpertLayersRotatedAndNot) {
  const Architecture model = preset("llama-4-maverick-17b-128e");
  const auto kinds = kind_of_each_layer(model);
  const auto is_sparse = [&](std::size_t layer) {
    return std::holds_alternative<ExpertMlp>(
        model.kinds[static_cast<std::size_t>(kinds[layer])].mlp);
  };
  EXPECT_FALSE(is_sparse(0));
  EXPECT_TRUE(is_sparse(1));
  const auto rotary = [&](std::size_t layer) {
    const Layer& kind = model.kinds[static_cast<std::size_t>(kinds[layer])];
    return std::get<GroupedAttention>(kind.attention).rotary_width;
  };
  EXPECT_EQ(rotary(2), 128);
  EXPECT_EQ(rotary(3), 0);
}

TEST(Qwen35, AttendsInEveryFourthLayerAlone) {
  const Architecture model = preset("qwen3.5-4b");
  ASSERT_EQ(model.sequence.size(), 1U);
  EXPECT_EQ(model.sequence[0].runs[0].count, 3);
  EXPECT_EQ(model.sequence[0].times, 8);
  const auto& delta = std::get<GatedDelta>(model.kinds.at(0).attention);
  EXPECT_EQ(delta.packed.out, 2 * 16 * 128 + 32 * 128);
  EXPECT_EQ(tensor_named(model.kinds[0].parameters, "linear_attn.conv1d.weight").shape,
            (Shape{8192, 1, 4}));
  const auto& attention = std::get<GroupedAttention>(model.kinds.at(1).attention);
  EXPECT_TRUE(attention.output_gate);
  EXPECT_EQ(attention.query->out, 2 * attention.heads * attention.head_width);
  EXPECT_EQ(attention.rotary_width, 64);
}

TEST(Qwen3Next, HasOneProductBeforeTheRule) {
  const Architecture model = preset("qwen3-next-80b-a3b");
  const auto& delta = std::get<GatedDelta>(model.kinds.at(0).attention);
  EXPECT_FALSE(delta.gate);
  EXPECT_EQ(delta.packed.out, 2 * 16 * 128 + 2 * 32 * 128);
  EXPECT_TRUE(std::holds_alternative<ExpertMlp>(model.kinds[0].mlp));
}

TEST(MiniMaxM2, TurnsHalfOfEachHead) {
  const Architecture model = preset("minimax-m2");
  EXPECT_EQ(std::get<GroupedAttention>(model.kinds.at(0).attention).rotary_width, 64);
  EXPECT_TRUE(
      tensor_named(model.kinds[0].parameters, "block_sparse_moe.e_score_correction_bias").buffer);
}

TEST(Glm47Flash, IsDenseInItsFirstLayerAlone) {
  const Architecture model = preset("glm-4.7-flash");
  const std::vector<int> kinds = kind_of_each_layer(model);
  const auto is_dense = [&](std::size_t layer) {
    return std::holds_alternative<DenseMlp>(
        model.kinds[static_cast<std::size_t>(kinds[layer])].mlp);
  };
  EXPECT_TRUE(is_dense(0));
  EXPECT_FALSE(is_dense(1));
}

TEST(Granite, MultipliesEmbeddingSublayersAndLogits) {
  const Architecture model = preset("granite-3.1-2b");
  EXPECT_TRUE(model.scaled_embedding && model.embedding_scale_is_number && model.scaled_logits);
  EXPECT_TRUE(model.kinds.at(0).scaled_sublayers);
}

TEST(Families, NoneIsListedAsUnweighed) {
  for (const Family& family : families())
    EXPECT_EQ(find_unweighed(family.model_type), nullptr) << family.model_type;
}

}  // namespace
}  // namespace steelyard
