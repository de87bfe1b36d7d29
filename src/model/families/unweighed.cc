#include "model/families/unweighed.h"

#include <array>

namespace steelyard {
namespace {

constexpr std::string_view kMamba = "layers of Mamba between or beside those that attend";
constexpr std::string_view kTowerAndText = "a tower of vision before a decoder of its own kind";
constexpr std::string_view kSound = "a tower of sound";

constexpr std::array kRows = {
    UnweighedFamily{"albert", "one layer whose weights are used by all"},
    UnweighedFamily{"apertus", "the activation xIELU, whose two numbers are trained"},
    UnweighedFamily{"bamba", kMamba},
    UnweighedFamily{"bart", "an encoder and a decoder with learned positions"},
    UnweighedFamily{"codegen", "GPT-J's layers with queries, keys and values in four blocks"},
    UnweighedFamily{"cohere", "a LayerNorm without bias that is written out in fp32"},
    UnweighedFamily{"cohere2", "a LayerNorm without bias that is written out in fp32"},
    UnweighedFamily{"dbrx",
                    "experts in one tensor for each of their three matrices, clipped queries"},
    UnweighedFamily{"deberta-v2", "attention to relative positions, both ways"},
    UnweighedFamily{"deepseek_v32", "sparse attention, whose indexer chooses keys"},
    UnweighedFamily{"deepseek_v4", "compressed and sparse attention, hyper-connections"},
    UnweighedFamily{"dinov2", "a tower of vision with scaled layers"},
    UnweighedFamily{"distilbert", "BERT's layers under other names"},
    UnweighedFamily{"electra", "a generator beside BERT's layers"},
    UnweighedFamily{"ernie4_5_moe", "a router whose bias is a frozen parameter, kept in fp32"},
    UnweighedFamily{"falcon_h1", kMamba},
    UnweighedFamily{"gemma3n", "embeddings of each layer, and streams that are predicted"},
    UnweighedFamily{"gemma4", "embeddings of each layer, keys and values that layers share"},
    UnweighedFamily{"glm4v", kTowerAndText},
    UnweighedFamily{"glm46v", kTowerAndText},
    UnweighedFamily{"glm_moe_dsa", "sparse attention, whose indexer chooses keys"},
    UnweighedFamily{"gpt_bigcode", "one key/value head in one product with the queries"},
    UnweighedFamily{"gpt_neo", "attention in fp32, a window in every other layer"},
    UnweighedFamily{"granitemoe", "experts behind a router that sorts by hand"},
    UnweighedFamily{"granitemoehybrid", kMamba},
    UnweighedFamily{"hunyuan_v1_moe", "experts behind Hunyuan's router"},
    UnweighedFamily{"internlm2", "one product for query, key and value in groups"},
    UnweighedFamily{"jamba", kMamba},
    UnweighedFamily{"kimi_linear", "linear attention with a decay for each channel"},
    UnweighedFamily{"lfm2", "short convolutions between layers that attend"},
    UnweighedFamily{"lfm2_moe", "short convolutions between layers that attend"},
    UnweighedFamily{"llava_onevision", "images in tiles"},
    UnweighedFamily{"mamba", kMamba},
    UnweighedFamily{"mamba2", kMamba},
    UnweighedFamily{"mistral4", "latent attention whose queries grow with the position"},
    UnweighedFamily{"mllama", "cross-attention to a tower of vision"},
    UnweighedFamily{"modernbert", "sequences without padding, windows both ways"},
    UnweighedFamily{"mpt", "ALiBi in a decoder without biases"},
    UnweighedFamily{"nemotron_h", kMamba},
    UnweighedFamily{"olmo", "norms without weights"},
    UnweighedFamily{"persimmon", "squared ReLU, LayerNorms over each head"},
    UnweighedFamily{"qwen", "Qwen's first models, whose code is not transformers' own"},
    UnweighedFamily{"qwen2_audio", kSound},
    UnweighedFamily{"rwkv", "a recurrence in place of attention"},
    UnweighedFamily{"voxtral", kSound},
    UnweighedFamily{"whisper", kSound},
    UnweighedFamily{"zamba2", kMamba},
};

}  // namespace

const UnweighedFamily* find_unweighed(std::string_view model_type) {
  for (const UnweighedFamily& family : kRows)
    if (family.model_type == model_type) return &family;
  return nullptr;
}

}  // namespace steelyard
