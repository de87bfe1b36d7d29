#include "operators/style.h"

#include <algorithm>
#include <string>

#include "job/pipeline_shape.h"

namespace steelyard {
namespace {

// "x.bias" beside a matrix "x.weight".
bool has_biased_product(const std::vector<ParameterTensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const ParameterTensor& bias) {
    constexpr std::string_view kBias = ".bias";
    if (!std::string_view(bias.name).ends_with(kBias)) return false;
    const std::string weight = bias.name.substr(0, bias.name.size() - kBias.size()) + ".weight";
    return std::any_of(tensors.begin(), tensors.end(), [&](const ParameterTensor& tensor) {
      return tensor.name == weight && tensor.shape.size() == 2;
    });
  });
}

// CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
std::int64_t threads_of_multiprocessor(std::string_view architecture) {
  if (architecture == "sm_75") return 1024;
  if (architecture == "sm_86" || architecture == "sm_87" || architecture == "sm_89" ||
      architecture == "sm_120")
    return 1536;
  return 2048;
}

// What step() makes beside a single tensor and its states: square roots in foreach's list, or the loop's.
std::int64_t copies_of_step(const Training& training) {
  const Optimizer& optimizer = training.optimizer;
  switch (form_of(training)) {
    case OptimizerForm::kLoop:
      return static_cast<std::int64_t>(optimizer.loop_largest_tensor);
    case OptimizerForm::kForeach:
      return static_cast<std::int64_t>(optimizer.foreach_list_of_second_moment);
    case OptimizerForm::kFused:
      break;
  }
  return 0;
}

}  // namespace

OperatorStyle style_of(const Job& job) {
  OperatorStyle style;
  const Precision& precision = job.training.precision;
  style.implementation = job.implementation;
  style.compute = precision.compute;
  style.autocast = precision.autocast;
  // Under autocast the embedding gives fp32 and sums promote: the residual stream stays fp32.
  style.residual = precision.autocast ? ElementType::kFloat32 : precision.compute;
  const bool sharded_by_fsdp =
      job.engine == Engine::kFsdp1 || (job.engine == Engine::kFsdp2 && !is_unsharded_fsdp2(job));
  // FSDP computes on a copy in the compute type; the gradient has that copy's type.
  style.gradient = sharded_by_fsdp && !precision.autocast ? precision.compute : precision.gradients;
  style.weight_gradient = precision.autocast ? precision.compute : style.gradient;
  if (job.adapter) {
    style.adapter = &*job.adapter;
    style.quantised_compute = precision.compute;
    const bool policy = sharded_by_fsdp && !precision.autocast;  // FSDP's mixed precision casts all
    style.adapter_compute = policy ? precision.compute : precision.parameters;
    if (!policy) style.residual = job.adapter->rest;
    // Norms in fp32 hand on fp32, and what is not quantised then multiplies in fp32.
    if (!policy && !precision.autocast) style.compute = job.adapter->rest;
  }
  style.attention = job.training.attention;
  if (style.attention == AttentionKernel::kEfficient || job.first_flash_attention)
    style.attention_code = AttentionCode::kFirstFlash;
  else if (job.implementation == Implementation::kMegatron ||
           style.attention == AttentionKernel::kCudnn)
    style.attention_code = AttentionCode::kCudnn;  // Transformer Engine's choice
  style.loss = job.training.loss;
  style.loss_chunks = job.training.loss_chunks;
  style.log_probabilities = job.training.log_probabilities;
  style.likelihood_of_chosen = job.training.likelihood_of_chosen;
  style.rewards = job.training.method == Method::kRewardModel;
  style.is_scored_beside = job.scorer != nullptr;
  style.prompt_tokens = job.training.prompt_length;
  style.shifted = job.shifted;
  style.rms_norm = job.rms_norm;
  style.older_norms = job.torchtune_before_0_5;
  style.quantised_keeps_input = job.quantised_keeps_input;
  style.always_dequantises = job.always_dequantises;
  style.quantised_from_fp16 = job.quantised_from_fp16;
  style.compiled = job.training.compile;
  style.compiles_loss = style.compiled && !job.torchtitan_before_0_1;
  const bool scaling = job.implementation == Implementation::kScaling;
  style.liger = job.training.kernels == KernelLibrary::kLiger;
  style.liger_chunks = job.liger_chunks;
  const bool of_torch = job.implementation == Implementation::kTorchtitan;
  style.norms_written_out = scaling ? job.training.kernels != KernelLibrary::kFlashAttn
                                    : (job.implementation == Implementation::kTransformers ||
                                       job.implementation == Implementation::kLitgpt ||
                                       job.implementation == Implementation::kTorchtune ||
                                       (of_torch && style.rms_norm != TorchRmsNorm::kOneKernel)) &&
                                          !style.liger && !style.compiled;
  style.fused_softmax = scaling ? job.training.kernels == KernelLibrary::kMegatron
                                : job.implementation == Implementation::kMegatron ||
                                      job.implementation == Implementation::kNanotron;
  style.local_layers = job.training.kernels == KernelLibrary::kLocal;
  // Without a kernel that adds into the buffer the gradient of a weight is a tensor of its own (gradient_accumulation_fusion).
  if (style.local_layers) style.gradient = style.weight_gradient = precision.compute;
  style.tensor = job.parallel.tensor;
  style.context = job.parallel.context;
  style.context_code = job.engine == Engine::kMegatron    ? ContextCode::kTransformerEngine
                       : job.engine == Engine::kDeepSpeed ? ContextCode::kDeepSpeed
                                                          : ContextCode::kTorch;
  style.context_method = job.parallel.context_method;
  style.context_inner = job.parallel.context_inner;
  style.expert = job.parallel.expert;
  style.expert_tensor = job.parallel.expert_tensor;
  style.experts = job.experts;
  style.loss_parallel = job.training.loss_parallel || job.parallel.tensor == 1;
  style.multiprocessors = job.cluster.device->multiprocessors;
  style.threads_of_each = threads_of_multiprocessor(job.cluster.device->architecture);
  style.distributed_tensors =
      job.parallel.tensor > 1 && (job.implementation == Implementation::kTransformers ||
                                  job.implementation == Implementation::kTorchtitan);
  style.cuts_gradients_at_once = sharded_by_fsdp;
  style.parameters_are_views = job.engine == Engine::kFsdp1;
  style.sequence_parallel = job.parallel.sequence_parallel && job.parallel.tensor > 1;
  style.exchanges_beside_products =
      job.parallel.tensor > 1 &&
      (job.implementation == Implementation::kMegatron ||
       (job.implementation == Implementation::kNanotron && style.sequence_parallel));
  style.exchanges_in_pieces = job.overlap_tensor;
  // nanotron's linears are torch's with its mode ALL_REDUCE (parallel/tensor_parallel/functional.py).
  style.multiplies_as_torch =
      style.distributed_tensors || scaling ||
      (job.implementation == Implementation::kNanotron && !style.sequence_parallel);
  style.gathers_once = scaling && style.sequence_parallel;
  style.gathers_into_buffers =
      style.sequence_parallel &&
      (job.implementation == Implementation::kNanotron || style.local_layers);
  style.adds_biases =
      (job.implementation == Implementation::kTransformers ||
       job.implementation == Implementation::kLitgpt ||
       job.implementation == Implementation::kTorchtune ||
       job.implementation == Implementation::kTorchtitan) &&
      (has_biased_product(job.model->head_parameters) ||
       std::any_of(job.model->kinds.begin(), job.model->kinds.end(),
                   [](const Layer& layer) { return has_biased_product(layer.parameters); }));
  if (multiplies_in_8_bits(precision))
    style.eight_bits = job.engine == Engine::kMegatron ? EightBitCode::kTransformerEngine
                                                       : EightBitCode::kFloat8Linear;
  style.row_scales = precision.float8_recipe == "rowwise";
  style.eight_bit_blocks =
      precision.float8_recipe == "blockwise" || precision.float8_recipe == "mxfp8";
  style.offloads_saved = job.offload.activations != OffloadTarget::kNone;
  if (job.training.optimizer_in_backward) {
    style.stepped_in_backward = &job.training;
    style.stepped_copies = copies_of_step(job.training);
  }
  style.schedule_asks_for_loss = runs_on_torch_pipelining(job);
  style.labels_come_shifted = style.schedule_asks_for_loss || job.labels_come_shifted;
  style.ends_meet = job.parallel.pipeline == 1;
  // Megatron's own checkpoint runs all of its region again (megatron/core/tensor_parallel/random.py, CheckpointFunction).
  style.recompute_reentrant =
      job.recompute.reentrant || job.implementation == Implementation::kMegatron;
  style.recomputes_ends =
      scaling && (job.recompute.mode == RecomputeMode::kFull ||
                  (job.recompute.mode == RecomputeMode::kEvery && job.recompute.every == 1));
  const Architecture& model = *job.model;
  const Layer* first = model.kinds.empty() ? nullptr : &usual_layer(model);
  style.residual_by_channel = model.image && model.image->class_index < 0;
  style.residual_dropout =
      job.training.hidden_dropout.value_or(first ? first->residual_dropout : 0);
  double attention_dropout = 0;
  if (first)
    std::visit([&](const auto& attention) { attention_dropout = attention.dropout; },
               first->attention);
  style.attention_dropout = job.training.attention_dropout.value_or(attention_dropout);
  style.embedding_dropout = job.training.hidden_dropout.value_or(model.embedding_dropout);
  return style;
}

std::int64_t padded_vocabulary(const Job& job) {
  const Checked multiple = Checked(job.training.vocabulary_multiple) * Checked(job.parallel.tensor);
  return round_up(job.model->vocabulary, multiple).value();
}

template <class N>
Sizes<N> sizes_of(const Job& job) {
  using Book = Workbook<N>;
  Sizes<N> sizes;
  sizes.batch = Book::symbol("b", sequences_at_once(job.training));
  sizes.sequence = Book::symbol("s", job.training.sequence_length);
  sizes.context = job.parallel.context > 1 ? Book::symbol("c", job.parallel.context) : N(1);
  sizes.sequence = sizes.sequence / sizes.context;
  sizes.tokens = sizes.batch * sizes.sequence;
  sizes.tensor = job.parallel.tensor > 1 ? Book::symbol("t", job.parallel.tensor) : N(1);
  sizes.shard_tokens = job.parallel.sequence_parallel && job.parallel.tensor > 1
                           ? sizes.tokens / sizes.tensor
                           : sizes.tokens;
  sizes.hidden = Book::symbol("h", job.model->hidden);
  sizes.vocabulary = Book::symbol("V", padded_vocabulary(job));
  return sizes;
}

template Sizes<Checked> sizes_of(const Job&);
template Sizes<Traced> sizes_of(const Job&);

}  // namespace steelyard
