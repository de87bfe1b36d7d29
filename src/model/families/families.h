// The model families: what `model_type` may be, and who reads it.
//
// A family is one file here that composes modules, and one row in the table of families.cc.
#pragma once

#include <span>
#include <string_view>

#include "model/architecture.h"
#include "model/config.h"

namespace steelyard {

// Reads one config.json of the family. Faults go to the config's diagnostics; what is returned then
// has unknown sizes in it and is thrown away.
using FamilyReader = Architecture (*)(Config& config);

struct Family {
  std::string_view model_type;
  FamilyReader read;
  std::string_view description;
};

std::span<const Family> families();
const Family* find_family(std::string_view model_type);

Architecture read_arcee(Config& config);
Architecture read_bert(Config& config);
Architecture read_bloom(Config& config);
Architecture read_clip(Config& config);
Architecture read_clip_vision(Config& config);
Architecture read_deepseek_v2(Config& config);
Architecture read_deepseek_v3(Config& config);
Architecture read_dots1(Config& config);
Architecture read_ernie4_5(Config& config);
Architecture read_exaone4(Config& config);
Architecture read_falcon(Config& config);
Architecture read_gemma(Config& config);
Architecture read_gemma2(Config& config);
Architecture read_gemma3(Config& config);
Architecture read_glm(Config& config);
Architecture read_glm4(Config& config);
Architecture read_glm4_moe(Config& config);
Architecture read_glm4_moe_lite(Config& config);
Architecture read_gpt2(Config& config);
Architecture read_gpt_neox(Config& config);
Architecture read_gpt_oss(Config& config);
Architecture read_gptj(Config& config);
Architecture read_granite(Config& config);
Architecture read_helium(Config& config);
Architecture read_hunyuan_dense(Config& config);
Architecture read_llama(Config& config);
Architecture read_llama4(Config& config);
Architecture read_llava(Config& config);
Architecture read_megatron_gpt(Config& config);
Architecture read_minimax_m2(Config& config);
Architecture read_ministral3(Config& config);
Architecture read_mistral(Config& config);
Architecture read_mixtral(Config& config);
Architecture read_mt5(Config& config);
Architecture read_nemotron(Config& config);
Architecture read_olmo2(Config& config);
Architecture read_olmo3(Config& config);
Architecture read_olmoe(Config& config);
Architecture read_opt(Config& config);
Architecture read_phi(Config& config);
Architecture read_phi3(Config& config);
Architecture read_phimoe(Config& config);
Architecture read_qwen2(Config& config);
Architecture read_qwen2_moe(Config& config);
Architecture read_qwen2_vl(Config& config);
Architecture read_qwen3(Config& config);
Architecture read_qwen3_5(Config& config);
Architecture read_qwen3_5_moe(Config& config);
Architecture read_qwen3_moe(Config& config);
Architecture read_qwen3_next(Config& config);
Architecture read_qwen3_vl(Config& config);
Architecture read_qwen3_vl_moe(Config& config);
Architecture read_roberta(Config& config);
Architecture read_seed_oss(Config& config);
Architecture read_siglip(Config& config);
Architecture read_siglip_vision(Config& config);
Architecture read_smollm3(Config& config);
Architecture read_stablelm(Config& config);
Architecture read_starcoder2(Config& config);
Architecture read_t5(Config& config);
Architecture read_vit(Config& config);

}  // namespace steelyard
