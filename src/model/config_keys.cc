#include "model/config_keys.h"

#include <algorithm>
#include <array>

namespace steelyard {
namespace {

using namespace std::string_view_literals;

constexpr std::array kAliases = {
    KeyAlias{"hidden_size", "n_embd"},                       // gpt2, gptj
    KeyAlias{"hidden_size", "d_model"},                      // opt
    KeyAlias{"hidden_size", "n_embed"},                      // old bloom and falcon files
    KeyAlias{"num_hidden_layers", "n_layer"},                // gpt2, gptj, bloom
    KeyAlias{"num_hidden_layers", "num_layers"},             // t5
    KeyAlias{"num_attention_heads", "n_head"},               // gpt2, gptj, bloom
    KeyAlias{"num_attention_heads", "num_heads"},            //
    KeyAlias{"num_key_value_heads", "num_kv_heads"},         // falcon
    KeyAlias{"num_key_value_heads", "n_head_kv"},            // old falcon
    KeyAlias{"intermediate_size", "n_inner"},                // gpt2, gptj
    KeyAlias{"intermediate_size", "ffn_dim"},                // opt
    KeyAlias{"intermediate_size", "ffn_hidden_size"},        // falcon
    KeyAlias{"max_position_embeddings", "n_positions"},      // gpt2, gptj
    KeyAlias{"head_dim", "kv_channels"},                     // files in Megatron's manner
    KeyAlias{"num_experts", "num_local_experts"},            // mixtral, phimoe, gpt_oss, llama4
    KeyAlias{"num_experts", "n_routed_experts"},             // deepseek, glm4_moe
    KeyAlias{"num_experts", "num_routed_experts"},           // files of serving programs
    KeyAlias{"n_shared_experts", "num_shared_experts"},      //
    KeyAlias{"num_nextn_predict_layers", "num_mtp_layers"},  // newer glm files
    KeyAlias{"hidden_act", "activation_function"},           // gpt2, opt
    KeyAlias{"hidden_act", "activation"},                    // falcon
};

// Sorted, for the binary search.
constexpr std::array kHarmless = {
    "_attn_implementation"sv,
    "_name_or_path"sv,
    "add_bos_token"sv,
    "add_cross_attention"sv,
    "architectures"sv,
    "attention_softmax_in_fp32"sv,
    "attn_implementation"sv,
    "attn_temperature_tuning"sv,
    "auto_map"sv,
    "aux_loss_alpha"sv,
    "bad_words_ids"sv,
    "begin_suppress_tokens"sv,
    "bos_token_id"sv,
    "cache_implementation"sv,
    "chunk_size_feed_forward"sv,
    "classifier_dropout"sv,
    "cross_attention_hidden_size"sv,
    "decoder_start_token_id"sv,
    "diversity_penalty"sv,
    "do_sample"sv,
    "dtype"sv,
    "early_stopping"sv,
    "encoder_no_repeat_ngram_size"sv,
    "eos_token_id"sv,
    "ep_size"sv,
    "exponential_decay_length_penalty"sv,
    "finetuning_task"sv,
    "forced_bos_token_id"sv,
    "forced_eos_token_id"sv,
    "gradient_checkpointing"sv,
    "id2label"sv,
    "initial_context_length"sv,
    "initializer_factor"sv,
    "initializer_range"sv,
    "input_jitter_noise"sv,
    "is_decoder"sv,
    "is_encoder_decoder"sv,
    "keys_to_ignore_at_inference"sv,
    "label2id"sv,
    "layer_norm_eps"sv,
    "layer_norm_epsilon"sv,
    "length_penalty"sv,
    "logits_scaling"sv,
    "masked_softmax_fusion"sv,
    "max_length"sv,
    "min_length"sv,
    "model_type"sv,
    "n_ctx"sv,
    "n_group"sv,
    "no_repeat_ngram_size"sv,
    "norm_eps"sv,
    "norm_epsilon"sv,
    "norm_topk_prob"sv,
    "num_beam_groups"sv,
    "num_beams"sv,
    "num_return_sequences"sv,
    "offset_alibi"sv,
    "original_max_position_embeddings"sv,
    "output_attentions"sv,
    "output_hidden_states"sv,
    "output_router_logits"sv,
    "output_scores"sv,
    "pad_token_id"sv,
    "prefix"sv,
    "pretraining_tp"sv,
    "problem_type"sv,
    "quantization_config"sv,
    "query_pre_attn_scalar"sv,
    "remove_invalid_values"sv,
    "reorder_and_upcast_attn"sv,
    "repetition_penalty"sv,
    "return_dict"sv,
    "return_dict_in_generate"sv,
    "rms_norm_eps"sv,
    "rope_interleave"sv,
    "rope_interleaved"sv,
    "rope_local_base_freq"sv,
    "rope_parameters"sv,
    "rope_scaling"sv,
    "rope_theta"sv,
    "rotary_base"sv,
    "rotary_emb_base"sv,
    "routed_scaling_factor"sv,
    "router_aux_loss_coef"sv,
    "router_jitter_noise"sv,
    "router_z_loss_coef"sv,
    "scale_attention_softmax_in_fp32"sv,
    "scale_attn_by_inverse_layer_idx"sv,
    "scale_attn_weights"sv,
    "scoring_func"sv,
    "seed"sv,
    "sep_token_id"sv,
    "seq_aux"sv,
    "seq_length"sv,
    "skip_bias_add"sv,
    "slow_but_exact"sv,
    "summary_activation"sv,
    "summary_first_dropout"sv,
    "summary_proj_to_labels"sv,
    "summary_type"sv,
    "summary_use_proj"sv,
    "suppress_tokens"sv,
    "task_specific_params"sv,
    "temperature"sv,
    "tf_legacy_loss"sv,
    "tie_encoder_decoder"sv,
    "tokenizer_class"sv,
    "top_k"sv,
    "top_p"sv,
    "topk_group"sv,
    "topk_method"sv,
    "torch_dtype"sv,
    "torchscript"sv,
    "transformers_version"sv,
    "typical_p"sv,
    "unk_token_id"sv,
    "use_bfloat16"sv,
    "use_cache"sv,
};

static_assert(std::is_sorted(kHarmless.begin(), kHarmless.end()));

}  // namespace

std::span<const KeyAlias> key_aliases() { return kAliases; }

bool is_harmless_key(std::string_view key) {
  return std::binary_search(kHarmless.begin(), kHarmless.end(), key);
}

}  // namespace steelyard
