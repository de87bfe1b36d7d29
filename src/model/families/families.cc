#include "model/families/families.h"

#include <array>

namespace steelyard {
namespace {

constexpr std::array kFamilies = {
    Family{"arcee", read_arcee, "Arcee AFM: a plain mlp, squared ReLU"},
    Family{"bert", read_bert, "BERT: encoder, post-norm, learned positions"},
    Family{"bloom", read_bloom, "BLOOM: ALiBi, a norm on the embedding"},
    Family{"clip", read_clip, "CLIP: towers of vision and of text that learn from one another"},
    Family{"clip_vision_model", read_clip_vision,
           "CLIP's tower of vision, which says which class an image is"},
    Family{"deepseek_v2", read_deepseek_v2, "DeepSeek-V2: latent attention, shared experts"},
    Family{"deepseek_v3", read_deepseek_v3,
           "DeepSeek-V3, R1, Moonlight: and sigmoid routing, multi-token prediction"},
    Family{"dots1", read_dots1, "dots.llm1: Qwen3's attention, DeepSeek's experts"},
    Family{"ernie4_5", read_ernie4_5, "ERNIE 4.5, dense: neighbouring elements rotated in fp32"},
    Family{"exaone4", read_exaone4,
           "EXAONE 4: norms after the sublayers, windows in three layers of four"},
    Family{"falcon", read_falcon, "Falcon: parallel blocks, one or few key/value heads"},
    Family{"gemma", read_gemma, "Gemma: wide heads, scaled embedding"},
    Family{"gemma2", read_gemma2, "Gemma 2: four norms, softcaps, every other layer windowed"},
    Family{"gemma3", read_gemma3, "Gemma 3: five windowed layers to one full"},
    Family{"gemma3_text", read_gemma3, "Gemma 3, its language model"},
    Family{"glm", read_glm, "GLM-4 before 0414: half of each head rotated"},
    Family{"glm4", read_glm4, "GLM-4-0414: four norms"},
    Family{"glm4_moe", read_glm4_moe, "GLM-4.5, 4.6, 4.7: mixture of experts"},
    Family{"glm4_moe_lite", read_glm4_moe_lite, "GLM-4.7-Flash: latent attention"},
    Family{"gpt2", read_gpt2, "GPT-2, and GPT-3 shapes: learned positions"},
    Family{"gpt_neox", read_gpt_neox, "GPT-NeoX, Pythia: parallel blocks"},
    Family{"gpt_oss", read_gpt_oss, "gpt-oss: sinks, fused experts with biases"},
    Family{"gptj", read_gptj, "GPT-J: parallel blocks, one norm"},
    Family{"granite", read_granite, "Granite 3: embedding, sublayers and logits multiplied"},
    Family{"helium", read_helium, "Helium: neighbouring elements rotated"},
    Family{"hunyuan_v1_dense", read_hunyuan_dense,
           "Hunyuan, dense: norms on queries and keys that are turned"},
    Family{"kimi_k2", read_deepseek_v3, "Kimi K2: DeepSeek-V3's code"},
    Family{"llama", read_llama, "Llama 1 to 3.3, CodeLlama, TinyLlama, SmolLM2, Falcon 3"},
    Family{"llama4_text", read_llama4, "Llama 4, its language model"},
    Family{"llava", read_llava, "LLaVA: a tower of vision, a projector and a decoder of text"},
    Family{"megatron_gpt", read_megatron_gpt,
           "GPT as Megatron-LM composes it: any of its norms, positions, activations and experts"},
    Family{"minimax_m2", read_minimax_m2,
           "MiniMax M2: sigmoid routing, norms over whole projections"},
    Family{"ministral3", read_ministral3, "Ministral 3: queries grow with the position"},
    Family{"mistral", read_mistral, "Mistral"},
    Family{"mixtral", read_mixtral, "Mixtral: mixture of experts"},
    Family{"mt5", read_mt5, "mT5: T5 1.1 of many languages"},
    Family{"nemotron", read_nemotron, "Nemotron, Minitron: squared ReLU, LayerNorm of 1 + weight"},
    Family{"olmo2", read_olmo2, "OLMo 2: norms after the sublayers"},
    Family{"olmo3", read_olmo3, "OLMo 3: windows in three layers of four"},
    Family{"olmoe", read_olmoe, "OLMoE: mixture of experts, norms over whole projections"},
    Family{"opt", read_opt, "OPT: learned positions, ReLU"},
    Family{"phi", read_phi, "Phi-1, 1.5, 2: parallel blocks"},
    Family{"phi3", read_phi3, "Phi-3, Phi-4: fused projections"},
    Family{"phimoe", read_phimoe, "Phi-3.5-MoE"},
    Family{"qwen2", read_qwen2, "Qwen2, Qwen2.5"},
    Family{"qwen2_5_vl", read_qwen2_vl, "Qwen2.5-VL, its language model"},
    Family{"qwen2_5_vl_text", read_qwen2_vl, "Qwen2.5-VL, its language model"},
    Family{"qwen2_moe", read_qwen2_moe, "Qwen1.5-MoE, Qwen2-57B: gated shared expert"},
    Family{"qwen2_vl", read_qwen2_vl, "Qwen2-VL, its language model"},
    Family{"qwen2_vl_text", read_qwen2_vl, "Qwen2-VL, its language model"},
    Family{"qwen3", read_qwen3, "Qwen3: norms on queries and keys"},
    Family{"qwen3_5_moe_text", read_qwen3_5_moe, "Qwen3.5, 3.6 with experts"},
    Family{"qwen3_5_text", read_qwen3_5, "Qwen3.5: the gated delta rule in three layers of four"},
    Family{"qwen3_moe", read_qwen3_moe, "Qwen3 mixture of experts"},
    Family{"qwen3_next", read_qwen3_next,
           "Qwen3-Next: the gated delta rule in three layers of four"},
    Family{"qwen3_vl_moe_text", read_qwen3_vl_moe, "Qwen3-VL with experts, its language model"},
    Family{"qwen3_vl_text", read_qwen3_vl, "Qwen3-VL, its language model"},
    Family{"roberta", read_roberta, "RoBERTa: encoder"},
    Family{"seed_oss", read_seed_oss,
           "Seed-OSS: biased query, key and value, dropout after each sublayer"},
    Family{"siglip", read_siglip, "SigLIP: the same, and each pair is a question of its own"},
    Family{"siglip_vision_model", read_siglip_vision,
           "SigLIP's tower of vision, which says which class an image is"},
    Family{"smollm3", read_smollm3, "SmolLM3: every fourth layer without rotary embedding"},
    Family{"stablelm", read_stablelm,
           "StableLM 3B and 2: LayerNorm, a quarter of each head rotated"},
    Family{"starcoder2", read_starcoder2, "StarCoder2"},
    Family{"t5", read_t5, "T5, T5 1.1, Flan-T5: encoder and decoder, relative positions"},
    Family{"vit", read_vit, "ViT: a tower of vision that says which class an image is"},
    Family{"xlm-roberta", read_roberta, "XLM-RoBERTa: RoBERTa of many languages"},
};

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view model_type) {
  for (const Family& family : kFamilies)
    if (family.model_type == model_type) return &family;
  return nullptr;
}

}  // namespace steelyard
