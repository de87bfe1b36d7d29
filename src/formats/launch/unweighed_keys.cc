#include "formats/launch/unweighed_keys.h"

#include <fmt/format.h>

namespace steelyard {
namespace {

// Of utils/schemas and integrations/*/args.py (0.19): each changes what is held, by a rule that is not known here.
constexpr UnweighedKey kOfAxolotl[] = {
    {"unfrozen_parameters", "everything else is frozen, by patterns of regular expressions"},
    {"spectrum_top_fraction", "a part of the layers is trained, as a file of signal ratios says"},
    {"lora_target_parameters", "adapters beside the tensors of experts"},
    {"peft_layers_to_transform", "some layers alone have adapters"},
    {"peft_layer_replication", "layers are there several times"},
    {"lora_rank_pattern", "ranks of their own for some modules"},
    {"peft_trainable_token_indices", "rows of the embedding are trained beside the adapter"},
    {"gptq", "weights of GPTQ"},
    {"nonexpert_quantization", "weights of another quantisation"},
    {"relora", "adapters are merged and made again during the run"},
    {"use_mora", "MoRA's square matrices in the place of adapters"},
    {"qat", "fake quantisation of weights and activations"},
    {"kd_trainer", "a teacher's logits beside the student's"},
    {"diffusion", "masked diffusion in the place of the next token"},
    {"dense_mixer", "all experts run for every token"},
    {"use_scattermoe", "other kernels for experts, which copy no tokens"},
    {"use_sonicmoe", "other kernels for experts, which copy no tokens"},
    {"expert_backend", "other kernels for experts"},
    {"tiled_mlp", "the mlp runs over tiles of the sequence, and again in backward"},
    {"layer_offloading", "weights of frozen layers wait on the host"},
    {"ple_cpu_offload", "a table of embeddings stays on the host"},
    {"chunked_cross_entropy", "logits are whole, and their fp32 copies in chunks"},
    {"unsloth_cross_entropy_loss", "Unsloth's loss"},
    {"unsloth_lora_mlp", "Unsloth's adapters"},
    {"unsloth_lora_qkv", "Unsloth's adapters"},
    {"unsloth_lora_o", "Unsloth's adapters"},
    {"unsloth_rms_norm", "Unsloth's norms"},
    {"selective_checkpointing", "some operators alone run again in backward"},
    {"use_onebitllms", "weights of one bit"},
    {"optim_target_modules", "the optimizer's projection is of some modules alone"},
    {"overrides_of_model_config", "sizes of the model are changed"},
    {"ebft", "samples are generated during training"},
    {"llama4_linearized_experts", "each expert has linear modules of its own"},
    {"lisa_n_layers", "layers take turns in being trained"},
    {"model_config", "values of the model's config are changed", true},
    {"use_kernels", "kernels of the hub stand in for the model's own", true},
    {"fused_attn_kernel", "rotary and norms of attention in one kernel", true},
    {"flash_attn_fuse_mlp", "one kernel for the mlp", true},
    {"flash_attn_rms_norm", "flash-attn's norms", true},
    {"freeze_mm_modules", "the tower of vision is frozen: training.frozen says it by patterns",
     true},
    {"use_eaft", "a loss that takes the entropy of each token's logits", true},
    {"peft.loftq_config", "the base is quantised by LoftQ, and adapters begin with its error",
     true},
    {"fp8", "products in 8 bits by torchao: weighed as bf16, which keeps as much", true},
    {"lora_mlp_kernel", "fused adapters of the mlp keep less than PEFT's: weighed as PEFT's", true},
    {"lora_qkv_kernel", "fused adapters keep less than PEFT's: weighed as PEFT's", true},
    {"lora_o_kernel", "fused adapters keep less than PEFT's: weighed as PEFT's", true},
    {"flash_attn_cross_entropy", "a fused loss keeps less: weighed as the plain one", true},
    {"neftune_noise_alpha", "noise of the size of the embedding's output", true},
    {"flex_attention", "weighed as flash attention", true},
    {"sage_attention", "weighed as flash attention", true},
    {"scaling_softmax", "queries are scaled, and one more copy is kept", true},
};

// Of hparams/*.py (0.9.5): each changes what is held, by a rule that is not known here.
constexpr UnweighedKey kOfLlamaFactory[] = {
    {"mixture_of_depths", "tokens pass some layers by"},
    {"use_llama_pro", "new layers alone are trained"},
    {"use_badam", "blocks of parameters take turns"},
    {"use_mca", "Megatron-core's models in the place of transformers'"},
    {"tensor_model_parallel_size", "Megatron-core's models, divided by it"},
    {"pipeline_model_parallel_size", "Megatron-core's models, divided by it"},
    {"expert_model_parallel_size", "Megatron-core's models, divided by it"},
    {"freeze_language_model", "the language model is frozen beside its tower of vision"},
    {"use_hyper_parallel", "another framework shards the model"},
    {"use_kt", "experts run on the host"},
    {"use_unsloth_gc", "inputs of layers wait on the host, without pages that are locked"},
    {"galore_layerwise", "a GaLore of each tensor steps in backward"},
    {"apollo_layerwise", "an APOLLO of each tensor steps in backward"},
    {"use_asft_loss", "a second model's logits beside the first one's"},
    {"ref_model", "a second model beside the first"},
    {"reward_model", "a second model beside the first"},
    {"upcast_layernorm", "norms are fp32, and so is what they give"},
    {"oft_rank", "orthogonal matrices in the place of adapters"},
    {"freeze_vision_tower", "a tower of vision is frozen: training.frozen says it by patterns",
     true},
    {"fp8", "products in 8 bits: weighed as bf16, which keeps as much", true},
    {"use_dft_loss", "a loss that weighs each token by its own probability", true},
    {"use_eaft_loss", "a loss that takes the entropy of each token's logits", true},
    {"use_v1_kernels", "kernels of LLaMA-Factory's own stand in for the model's", true},
    {"upcast_lmhead_output", "logits are widened by the model: weighed as the loss does it", true},
    {"neftune_noise_alpha", "noise of the size of the embedding's output", true},
    {"shift_attn", "shifted sparse attention: weighed as whole", true},
};

// transformers/training_args.py 5.17 and trl/trainer/model_config.py, sft_config.py 1.16.
constexpr UnweighedKey kOfTrainer[] = {
    {"optim_target_modules", "the optimizer's projection is of some modules alone"},
    {"lora_target_parameters", "adapters beside the tensors of experts"},
    {"use_unsloth", "Unsloth's own model code"},
    {"freeze_layers", "some layers are frozen"},
    {"auto_find_batch_size", "the micro-batch is halved where memory runs out: weighed as said",
     true},
    {"torch_empty_cache_steps", "the cache is emptied: reserved memory is less", true},
    {"neftune_noise_alpha", "noise of the size of the embedding's output", true},
};

// Sections of DeepSpeed's JSON (runtime/config.py, 0.19) whose memory is not known here.
constexpr UnweighedKey kOfDeepspeed[] = {
    {"amp.enabled", "Apex makes its own copies of weights"},
    {"compression_training", "weights and activations are quantised or pruned"},
    {"hybrid_engine.enabled", "an engine of inference beside training"},
    {"zero_optimization.zenflow", "some gradients step on the device, the others on the host"},
    {"bf16.bf16_master_weights_and_grads", "master weights are 16 bits: weighed as 32", true},
    {"bf16.bf16_optimizer_states", "moments are 16 bits: weighed as 32", true},
    {"compile.deepcompile", "the compiler gathers and frees parameters", true},
    {"progressive_layer_drop.enabled", "layers are left out at random", true},
    {"sparse_attention", "blocks of attention are left out: weighed as whole", true},
    {"data_efficiency.enabled", "sequences are shorter at first, or tokens are dropped", true},
    {"curriculum_learning.enabled", "sequences are shorter at first", true},
};

}  // namespace

std::span<const UnweighedKey> unweighed_of_axolotl() { return kOfAxolotl; }
std::span<const UnweighedKey> unweighed_of_llama_factory() { return kOfLlamaFactory; }
std::span<const UnweighedKey> unweighed_of_trainer() { return kOfTrainer; }
std::span<const UnweighedKey> unweighed_of_deepspeed() { return kOfDeepspeed; }

void refuse_preferences_of(ConfigReader& reading, std::string_view trainer, const Value& at) {
  const Value* method = reading.into().run.at("training.method");
  if (method == nullptr) return;
  const std::string name = word_of(*method);
  if (name == "pretrain" || name == "sft" || name == "ppo") return;
  reading.unweighed(at, fmt::format("{} of {}", name, trainer),
                    "this trainer makes its models and losses in its own way; TRL's is weighed");
}

}  // namespace steelyard
