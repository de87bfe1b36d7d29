// Which kernels run: attention's, the loss's, a library's in place of the model code's own, compiled ones.
#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "job/recipe_choice.h"
#include "model/architecture.h"

namespace steelyard {
namespace {

bool runs_eager_attention_alone(const Job& job) {
  if (job.model == nullptr || job.implementation != Implementation::kTransformers) return false;
  return std::any_of(job.model->kinds.begin(), job.model->kinds.end(), [](const Layer& layer) {
    const auto* grouped = std::get_if<GroupedAttention>(&layer.attention);
    return grouped != nullptr && grouped->eager_only;
  });
}
bool takes_no_flash_attention(const Job& job) {
  return job.model != nullptr && follows_encoder(*job.model);
}

bool has_heads_of_one_width(const Job& job) {
  constexpr std::int64_t kWidest = 256;
  return job.model == nullptr ||
         std::all_of(job.model->kinds.begin(), job.model->kinds.end(), [](const Layer& layer) {
           const auto* grouped = std::get_if<GroupedAttention>(&layer.attention);
           return grouped != nullptr && grouped->head_width <= kWidest;
         });
}

// cuDNN's kernel, which torch's scaled_dot_product_attention takes; Megatron's code reaches it through Transformer Engine, whose
// own rule decides.
void check_cudnn_attention(Draft& draft) {
  const Job& job = draft.job();
  const auto refuse = [&](const char* code, const std::string& message, const char* label,
                          const char* help) {
    draft.refuse(KeyId::kAttention, code, message, label, help);
  };
  if (job.implementation != Implementation::kTransformers)
    refuse("E320",
           fmt::format("not weighed yet: cuDNN attention in {}'s model code",
                       name_of(job.implementation)),
           "recorded with transformers' models alone", "attention = \"flash\" is weighed");
  else if (takes_no_flash_attention(job))
    refuse("E320", "not weighed yet: cuDNN attention with relative positions",
           "they are added to the scores", "attention = \"efficient\"");
  else if (bits_of(job.training.precision.compute) != 16)
    refuse("E220",
           fmt::format("cuDNN attention does not compute in {}", job.training.precision.name),
           "needs bf16 or fp16", "attention = \"efficient\" computes in fp32");
  else if (job.cluster.device && job.cluster.device->architecture != "sm_90")
    refuse("E320", fmt::format("not weighed yet: cuDNN attention on {}", job.cluster.device->name),
           "recorded on Hopper", "attention = \"flash\"");
  else if (!has_heads_of_one_width(job))
    refuse("E320", "not weighed yet: cuDNN attention of heads wider than 256 or of two widths",
           "recorded with 32 to 256", "attention = \"flash\" is weighed");
  else if (job.parallel.context > 1)
    refuse("E320", "not weighed yet: cuDNN attention with context", "flash attention is weighed",
           "attention = \"flash\"");
}

// megatron-core's transformer_impl = local: DotProductAttention is written out.
void check_local_layers(Draft& draft) {
  const Job& job = draft.job();
  if (job.implementation != Implementation::kMegatron)
    draft.refuse(KeyId::kKernels, "E213",
                 fmt::format("Megatron's local layers, and this is {}'s model code",
                             name_of(job.implementation)),
                 "kernels = \"own\" here", "implementation = \"megatron\" takes them");
  else if (job.training.attention != AttentionKernel::kEager)
    draft.refuse(KeyId::kKernels, "E213", "Megatron's local layers write attention out",
                 "no kernel computes it in one", "attention = \"eager\"");
  else if (job.parallel.context > 1 || multiplies_in_8_bits(job.training.precision))
    draft.refuse(KeyId::kKernels, "E213",
                 "Megatron's local layers know neither context parallelism nor 8 bits",
                 "Transformer Engine brings both", "kernels = \"own\"");
}

// apple/ml-cross-entropy puts its kernel in the place of transformers' causal loss; its backward asserts 16 bits.
void check_cut_loss(Draft& draft) {
  const Job& job = draft.job();
  const auto refuse = [&](const char* message, const char* label, const char* help) {
    draft.refuse(KeyId::kLoss, "E213", message, label, help);
  };
  if (job.implementation != Implementation::kTransformers)
    refuse("Cut Cross Entropy stands in for the loss of transformers' models",
           "other code brings its own", "loss = \"plain\"");
  else if (bits_of(job.training.precision.compute) != 16)
    refuse("Cut Cross Entropy has no backward in fp32", "its inputs are bf16 or fp16",
           "precision = \"bf16-autocast\"");
  else if (job.parallel.tensor > 1 || job.parallel.context > 1 || job.parallel.pipeline > 1 ||
           (job.model != nullptr && (job.model->encoder || follows_encoder(*job.model))))
    draft.refuse(KeyId::kLoss, "E320", "not weighed yet: Cut Cross Entropy here",
                 "known for causal decoders on data ranks", "loss = \"fused-linear\" is weighed");
}

}  // namespace

LeanestAttention leanest_attention(const Job& job) {
  if (runs_eager_attention_alone(job))
    return {AttentionKernel::kEager, "transformers has no other kernel for this model"};
  if (takes_no_flash_attention(job))
    return {AttentionKernel::kEfficient, "flash attention takes no relative positions"};
  if (job.training.precision.compute == ElementType::kFloat32)
    return {AttentionKernel::kEfficient, "flash attention has no fp32 form"};
  if (is_before_ampere(job))
    return {AttentionKernel::kEfficient, "flash attention needs an Ampere device or a newer one"};
  return {AttentionKernel::kFlash, "the kernel with the smallest memory"};
}

void choose_attention(Draft& draft) {
  Job& job = draft.job();
  const auto [usual, reason] = leanest_attention(job);
  job.training.attention = draft.name_or(KeyId::kAttention, usual, reason);
  if (job.training.attention == AttentionKernel::kEager) return;
  if (runs_eager_attention_alone(job)) {
    draft.refuse(KeyId::kAttention, "E220",
                 fmt::format("{} has eager attention only", job.model->name),
                 "transformers has no other kernel for it", "attention = \"eager\"");
  } else if (job.training.attention == AttentionKernel::kEfficient) {
    return;
  } else if (job.training.attention == AttentionKernel::kCudnn) {
    check_cudnn_attention(draft);
  } else if (takes_no_flash_attention(job)) {
    draft.refuse(
        KeyId::kAttention, "E220",
        fmt::format("{} has relative positions, which flash attention does not take",
                    job.model->name),
        "they are added to the scores",
        "attention = \"efficient\" is what transformers runs (sdpa); \"eager\" is weighed too");
  } else if (job.training.precision.compute == ElementType::kFloat32) {
    draft.refuse(
        KeyId::kAttention, "E220",
        fmt::format("flash attention does not compute in {}", job.training.precision.name),
        "needs bf16 or fp16",
        "attention = \"efficient\" computes in fp32; precision = \"bf16-mixed\" keeps flash");
  } else if (is_before_ampere(job)) {
    draft.warn_of_death(
        KeyId::kAttention, "E261",
        fmt::format("{} runs no flash attention 2", job.cluster.device->name),
        "dies at start: \"FlashAttention only supports Ampere GPUs or newer\" (flash-attn 2, "
        "csrc/flash_attn/flash_api.cpp)",
        "attention = \"efficient\" is what it runs (sdpa)");
  }
}

void choose_loss(Draft& draft) {
  Job& job = draft.job();
  // Of a preference the loss is the trainer's (job/method_choice.cc).
  const Method method = job.training.method;
  if (draft.has(KeyId::kLoss) || method == Method::kPretrain || method == Method::kSft)
    job.training.loss =
        draft.name_or(KeyId::kLoss, LossKernel::kPlain, "what the engine computes by itself");
  job.training.loss_chunks = draft.count_or(KeyId::kLossChunks, job.training.loss_chunks);
  if (draft.has(KeyId::kLossChunks) && job.training.loss != LossKernel::kChunked &&
      job.training.loss_chunks > 1)
    draft.refuse(KeyId::kLossChunks, "E213",
                 fmt::format("loss_chunks with loss = \"{}\"", name_of(job.training.loss)),
                 "a number of pieces for the chunked loss", "loss = \"chunked\"");
  if (job.training.loss == LossKernel::kFused && (job.implementation == Implementation::kMegatron ||
                                                  job.implementation == Implementation::kNanotron ||
                                                  job.implementation == Implementation::kLitgpt ||
                                                  job.implementation == Implementation::kTorchtune))
    draft.refuse(KeyId::kLoss, "E213",
                 fmt::format("{} brings its own cross entropy", name_of(job.implementation)),
                 "loss = \"plain\" is that one", "");
  if (job.training.loss == LossKernel::kCut) check_cut_loss(draft);
  // Megatron's code can be told either; other engines know one way.
  const bool scaling = job.implementation == Implementation::kScaling;
  job.training.loss_parallel = draft.truth_or(KeyId::kLossParallel, !scaling);
  if (scaling && job.training.loss_parallel)
    draft.refuse(KeyId::kLossParallel, "E213", "scaling gathers the logits of the tensor ranks",
                 "its head's output is never divided", "loss_parallel = false");
  if (!job.training.loss_parallel && !scaling && job.implementation != Implementation::kMegatron)
    draft.refuse(KeyId::kLossParallel, "E320", "not weighed yet: training.loss_parallel = false",
                 "known for megatron's model code", "leave it out: true with tensor is weighed");
}

// Each library stands in for the kernels of one model code.
void choose_kernels(Draft& draft) {
  Job& job = draft.job();
  job.training.kernels = static_cast<KernelLibrary>(
      draft.settings().name(KeyId::kKernels).value_or(static_cast<int>(KernelLibrary::kOwn)));
  // Names behind the last one are refused as not weighed.
  if (job.training.kernels > KernelLibrary::kMegatron) job.training.kernels = KernelLibrary::kOwn;
  if (job.training.kernels == KernelLibrary::kOwn) return;
  if (job.training.kernels == KernelLibrary::kLocal) return check_local_layers(draft);
  const Implementation taker = job.training.kernels == KernelLibrary::kLiger
                                   ? Implementation::kTransformers
                                   : Implementation::kScaling;
  if (job.implementation != taker)
    draft.refuse(
        KeyId::kKernels, "E213",
        fmt::format("{}'s kernels stand in for those of {}, this is {}'s model code",
                    name_of(job.training.kernels), name_of(taker), name_of(job.implementation)),
        "kernels = \"own\" here",
        fmt::format("implementation = \"{}\" takes them", name_of(taker)));
}

void choose_compile(Draft& draft) {
  Job& job = draft.job();
  job.training.compile = draft.truth_or(KeyId::kCompile, false);
  if (!job.training.compile) return;
  if (job.implementation != Implementation::kTransformers &&
      job.implementation != Implementation::kTorchtitan &&
      job.implementation != Implementation::kTorchtune)
    draft.refuse(KeyId::kCompile, "E320",
                 fmt::format("not weighed yet: training.compile with {}'s code",
                             name_of(job.implementation)),
                 "known for transformers, torchtitan and torchtune", "compile = false is weighed");
  if (job.training.precision.autocast)
    draft.refuse(KeyId::kCompile, "E320", "not weighed yet: training.compile under autocast",
                 "casts become part of the fused kernels", "compile = false is weighed");
  draft.assume(KeyId::kCompile, "true",
               "what pointwise kernels made is computed again; a graph's own choice may keep more");
}

}  // namespace steelyard
