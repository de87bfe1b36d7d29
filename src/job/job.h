// The whole question: a model, a recipe, a layout, an engine and a machine, checked and complete.
//
//   Job = read_job(document)          every key known, every product right, every default written into `assumptions`
//
// A Job is a value: nothing in it refers to files, and predict(job) needs nothing else.
// Names follow the run file (DESIGN: the contract), without abbreviations.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "document/diagnostic.h"
#include "machine/allocator_settings.h"
#include "machine/device.h"
#include "machine/machine.h"
#include "model/architecture.h"
#include "recipe/optimizer.h"
#include "recipe/precision.h"
#include "schedule/pipeline_schedule.h"

namespace steelyard {

#define ENGINE(id, ...) id,
enum class Engine : std::uint8_t {
#include "job/engines.def"
};
#undef ENGINE
constexpr std::string_view kEngineNames =
#define ENGINE(id, name, ...) name "|"
#include "job/engines.def"
#undef ENGINE
    "";
enum class Implementation : std::uint8_t {
  kTransformers,
  kTorchtitan,
  kMegatron,
  kNanotron,
  kScaling,   // Aleph-Alpha/scaling
  kLitgpt,    // Lightning-AI/litgpt
  kTorchtune  // pytorch/torchtune
};
constexpr std::size_t kImplementations = 7;
enum class AttentionKernel : std::uint8_t { kEager, kEfficient, kFlash, kCudnn };
// Fused linear: Liger's, which makes gradients in forward. Cut: Apple's Cut Cross Entropy, which has no logits in memory at all.
enum class LossKernel : std::uint8_t { kPlain, kChunked, kFusedLinear, kFused, kCut };
// What Liger's loss with the head does chunk by chunk, by its version. A weight's gradient is made apart, and widened, before it
// is added: of weights in 16 bits, in 32, and in 32 that autocast casts. Of the chunk before stay the logits, and the cast
// input; under autocast the product may want the logits' gradient as wide as the input.
struct LigerChunks {
  bool apart_narrow = false, apart_wide = false, apart_cast = false;
  bool keeps_logits = false, keeps_input = false, widens_logits = false;
};
// Own: those that the model's code runs with. Local: Megatron-core's layers without Transformer Engine, torch's operators alone.
enum class KernelLibrary : std::uint8_t { kOwn, kLiger, kLocal, kFlashAttn, kMegatron };
enum class OptimizerForm : std::uint8_t { kFused, kForeach, kLoop };
enum class ContextMethod : std::uint8_t {
  kRing,       // keys and values travel from rank to rank
  kUlysses,    // all-to-all: whole sequences of a part of the heads
  kAllGather,  // keys and values of all ranks at once
  kAllToAll,   // of torch the ring's other name, elsewhere that of Ulysses: never left in a Job
  kRingAndUlysses,  // Ulysses among `context_inner` ranks, a ring of such groups
};
enum class ExpertDispatcher : std::uint8_t { kAllToAll, kAllGather };
enum class RecomputeMode : std::uint8_t {
  kNone,
  kSelective,
  kFull,
  kEvery,
  kBlock,
  kModules,
  kOperators  // all of a layer but attention and every other matrix product: torchtitan's selective "op"
};
enum class RecomputeModule : std::uint8_t {
  kCoreAttention,
  kMlp,
  kExperts,
  kExpertActivation,
  kNorms,
  kLatentUpProjection,
  kSharedExperts
};
enum class OffloadTarget : std::uint8_t { kNone, kCpu, kNvme };
enum class CheckpointSave : std::uint8_t { kSharded, kFullRankZero };

// What is trained, and what scores beside it: a second model, the trained one without its adapters, or nobody while it trains.
enum class Method : std::uint8_t {
  kPretrain,
  kSft,
  kDpo,
  kKto,
  kRewardModel,
  kPpo,
  kGrpo,
  kOrpo,
  kCpo  // and SimPO, one of its losses
};
enum class Reference : std::uint8_t { kModel, kAdapter, kPrecomputed, kNone };
// How the logarithms of the labels' probabilities are made of hidden states (operators/log_probabilities.cc).
enum class LogProbabilities : std::uint8_t { kNone, kWhole, kTiles, kKernel };
// Who generates what a method learns from: the trained model's own code, an engine on the same device, or one on other devices.
enum class Generator : std::uint8_t { kTransformers, kVllm, kElsewhere, kNone };

std::string_view name_of(Engine engine);
std::string_view name_of(Implementation implementation);
std::string_view name_of(AttentionKernel kernel);
std::string_view name_of(LossKernel kernel);
std::string_view name_of(KernelLibrary library);
std::string_view name_of(OptimizerForm form);
std::string_view name_of(PipelineSchedule schedule);
std::string_view name_of(VocabularyLayers vocabulary);
std::string_view name_of(ContextMethod method);
std::string_view name_of(ExpertDispatcher dispatcher);
std::string_view name_of(RecomputeMode mode);
std::string_view name_of(RecomputeModule module);
std::string_view name_of(OffloadTarget target);
std::string_view name_of(CheckpointSave save);
std::string_view name_of(Method method);
std::string_view name_of(Reference reference);
std::string_view name_of(Generator generator);

struct Cluster {
  std::shared_ptr<const Device> device;
  // Absent where the device is only a size: no time is known.
  std::shared_ptr<const Machine> machine;
  bool machine_said = false;  // otherwise the device's usual one
  bool network_said = false;  // its way out was given
  Ranks devices{1};
  Ranks devices_per_node{8};
};

// Samples that are padded to the longest of their micro-batch: tokens of one before that, and what happens to those that
// are longer than the sequence length.
struct SampleLengths {
  double mean = 0, deviation = 0;
  bool drops_long = false;   // otherwise cut
  std::int64_t samples = 0;  // of the data set; 0: not said
};

struct Training {
  Tokens sequence_length;                // of the longest micro-batch
  Tokens target_sequence_length{0};      // of a decoder that follows an encoder; 0: there is none
  std::int64_t images_per_sequence = 0;  // of a decoder behind a tower of vision; 0: it sees none
  std::optional<SampleLengths> lengths;  // absent: all micro-batches are as long
  std::int64_t micro_batch = 1;
  std::int64_t gradient_accumulation = 1;
  std::int64_t global_batch = 1;  // = micro_batch x gradient_accumulation x data
  Precision precision;
  Optimizer optimizer;
  OptimizerForm optimizer_form = OptimizerForm::kForeach;
  AttentionKernel attention = AttentionKernel::kFlash;
  LossKernel loss = LossKernel::kPlain;
  std::int64_t loss_chunks = 8;  // pieces of the logits where loss is kChunked
  KernelLibrary kernels = KernelLibrary::kOwn;
  bool compile = false;
  std::optional<double> hidden_dropout;  // absent: as the model's config says
  std::optional<double> attention_dropout;
  std::int64_t vocabulary_multiple =
      1;  // the vocabulary is padded up to a multiple of this x tensor
  bool gradient_clip = false;
  bool optimizer_in_backward = false;    // each tensor is stepped when its gradient is there
  bool loss_parallel = true;             // logits stay divided over the tensor ranks
  std::optional<ElementType> gradients;  // [types] gradients; absent: as the precision says
  // megatron --use-precision-aware-optimizer: [types] master, first_moment, second_moment; the moments' types are the
  // optimizer's slots'.
  // [types] parameters = fp8: layers' matrices are kept in 8 bits alone, and gathered so (--fp8-param-gather).
  bool eight_bit_parameters = false;
  // 8-bit weights keep the form by columns between products; otherwise a product makes it when it needs it.
  bool transposed_weights = true;
  bool precision_aware = false;
  std::vector<std::string> frozen;  // patterns of tensor names without gradients
  Method method = Method::kPretrain;
  Reference reference = Reference::kNone;
  Tokens prompt_length{0};  // of a sequence, from which nothing is learnt
  LogProbabilities log_probabilities = LogProbabilities::kNone;
  bool likelihood_of_chosen = false;  // the loss has the cross entropy of what was chosen, too
};

// Completions that the trained model makes, and then learns from.
struct Generation {
  Generator by = Generator::kNone;
  double share = 0;            // of the device's memory, that an engine on it takes
  bool sleeps = false;         // that engine gives it back while the model is trained
  std::int64_t sequences = 0;  // that a rank generates at once
  bool on_this_device() const { return by == Generator::kVllm; }
};

// Sequences of one example: of a preference, what is chosen and what is rejected.
inline std::int64_t sequences_of_example(const Training& training) {
  switch (training.method) {
    case Method::kDpo:
    case Method::kRewardModel:
    case Method::kOrpo:
    case Method::kCpo:
      return 2;
    default:
      return 1;
  }
}
// Sequences that the model is given at once.
inline std::int64_t sequences_at_once(const Training& training) {
  return training.micro_batch * sequences_of_example(training);
}

// The form that runs: some optimizers have only one.
OptimizerForm form_of(const Training& training);
// Whether a fused step keeps its counter on the device: one number for each tensor.
bool counts_steps_on_device(const Training& training);

struct Parallel {
  Ranks data{1};  // all data-parallel ranks: replicas x shards; context apart
  int zero_stage = 0;
  Ranks replicate{1};
  Ranks secondary_shard{1};    // ZeRO++: ranks of the copy that backward gathers from
  bool megatron_fsdp = false;  // zero_stage says what it divides: states, gradients, parameters
  bool meta_device =
      false;  // Megatron-FSDP: modules are made bucket by bucket, never all of them whole
  bool quantized_gather = false;  // ZeRO++: parameters travel as 8-bit codes
  bool quantized_reduce =
      false;             // ZeRO++: gradients travel as 4-bit codes: there are several machines
  Ranks shard_group{0};  // MiCS: ranks that share one copy; 0: all of data
  // FSDP: gradients are reduced, and divided, after every micro-batch; else whole ones wait for the last (no_sync).
  bool sync_each_micro_batch = true;
  bool gathers_once =
      false;  // FSDP2's stages: parameters are gathered by the first micro-batch, for all of a step
  Ranks tensor{1};
  bool sequence_parallel = false;  // already false when tensor == 1
  Ranks context{1};
  ContextMethod context_method = ContextMethod::kRing;
  Ranks context_inner{1};  // of kRingAndUlysses: the ranks of one all-to-all
  Ranks pipeline{1};
  std::int64_t virtual_pipeline = 1;
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  Ranks expert{1};
  Ranks expert_tensor{1};
  VocabularyLayers vocabulary = VocabularyLayers::kAtTheEnds;
  // Interleaving: micro-batches that a chunk takes before the next one does; 0: as the engine does.
  std::int64_t pipeline_group = 0;
  bool scattered_transfers =
      false;  // hidden states go to the next stage in parts, one a tensor rank
  // Layers of each part of the model, from the embedding on: one for each stage, or for each chunk of each stage. Sums
  // to the model's layers; always filled.
  std::vector<Layers> stage_layers;
};

// What FSDP2 makes one unit beside the layers, each of which is one.
struct Wrapping {
  bool ends_apart =
      false;  // the embedding, and the last norm with the head; else all three are the root's
  // What computes last in forward, and first in backward, stays gathered between the two unless told.
  bool reshards_last = false;
  bool keeps_last_layer = false;  // the last layer, too
};

// How tokens come to experts that stand on other ranks.
struct Experts {
  ExpertDispatcher dispatcher = ExpertDispatcher::kAllToAll;
  std::optional<double> capacity_factor;  // room of an expert over its average; absent: dropless
  bool pad_to_capacity = false;
  double imbalance =
      1;  // pairs of token and expert that the fullest rank receives over the average
};

struct Recompute {
  RecomputeMode mode = RecomputeMode::kNone;
  Layers every{
      1};  // kEvery: layers whose index is a multiple of this keep only their input (see docs/rules)
  Layers layers;                         // kBlock: the first this many layers of each stage
  std::vector<RecomputeModule> modules;  // kSelective (core attention) and kModules
  bool reentrant = false;
};

// torch/distributed/pipelining/stage.py, backward_maybe_with_nosync, turns FSDP2's resharding and reduction off for all
// micro-batches of a stage but the last.
inline void sync_as_stages(Parallel& parallel) {
  parallel.gathers_once = true;
  parallel.sync_each_micro_batch = false;
}

// Whether a whole layer runs forward once more in backward. `number`: every how many layers, or how many of each stage.
inline bool runs_again(RecomputeMode mode, std::int64_t number, std::int64_t layer,
                       std::int64_t layer_in_stage) {
  switch (mode) {
    case RecomputeMode::kFull:
    case RecomputeMode::kOperators:
      return true;
    case RecomputeMode::kEvery:
      return layer % number == 0;
    case RecomputeMode::kBlock:
      return layer_in_stage < number;
    default:
      return false;
  }
}

// Layers run forward once more in backward.
inline bool recomputes_layers(RecomputeMode mode) {
  return mode == RecomputeMode::kFull || mode == RecomputeMode::kEvery ||
         mode == RecomputeMode::kBlock || mode == RecomputeMode::kOperators;
}
inline bool recomputes_layers(const Recompute& recompute) {
  return recomputes_layers(recompute.mode);
}

// What is launched once and replayed from then on. `kModule`: modules of each layer, each alone; `kIteration`: forward
// and backward of all micro-batches, without the optimizer.
enum class CudaGraphs : std::uint8_t { kNone, kModule, kIteration };
struct GraphCapture {
  CudaGraphs of = CudaGraphs::kNone;
  bool attention = true, mlp = true, router = true;  // of kModule
};

struct Offload {
  OffloadTarget optimizer = OffloadTarget::kNone;
  OffloadTarget parameters = OffloadTarget::kNone;
  OffloadTarget activations = OffloadTarget::kNone;
  double fraction = 1;  // of what the optimizer steps on (megatron optimizer_offload_fraction)
  bool pinned = true;   // the host's memory is page-locked
};

struct Adapter {
  std::string method = "lora";  // lora, dora
  std::int64_t rank = 8;
  std::vector<std::string> target_modules;  // last component of module names, or "all-linear"
  std::string base = "bf16";                // bf16, int8, nf4, fp16, fp32
  bool double_quantization = false;
  double dropout = 0;   // of what goes into the adapter
  bool by_peft = true;  // PEFT's code, with its casts; otherwise that of a training framework
  // Experts that are one tensor are quantised, too, and each use makes all of it in 16 bits (Axolotl's quantize_moe_experts).
  bool stacked_experts = false;
  // How tensors are kept: the adapter's own, the frozen linear modules of the layers, the rest (embedding, norms, head).
  ElementType type = ElementType::kFloat32;
  ElementType linear = ElementType::kBFloat16;
  ElementType rest = ElementType::kBFloat16;
};

// Buffer sizes of engines, with each engine's own defaults (launch-format names of the engines are given in brackets).
struct Buckets {
  std::int64_t reduce = 500'000'000;          // elements (DeepSpeed reduce_bucket_size)
  std::int64_t gather = 500'000'000;          // elements (allgather_bucket_size)
  std::int64_t prefetch = 50'000'000;         // elements (stage3_prefetch_bucket_size)
  std::int64_t persistence = 100'000;         // elements (stage3_param_persistence_threshold)
  std::int64_t live = 1'000'000'000;          // elements (stage3_max_live_parameters)
  std::int64_t reuse = 1'000'000'000;         // elements (stage3_max_reuse_distance)
  std::int64_t sub_group = 1'000'000'000;     // elements (sub_group_size)
  std::int64_t ddp_bytes = 25 * 1024 * 1024;  // DDP bucket_cap_mb
  bool contiguous_gradients = true;           // megatron: one buffer
  bool double_buffer =
      false;  // Megatron-FSDP: two buffers take turns for layers and their gradients

  bool persists(std::int64_t elements) const { return elements <= persistence; }  // it stays whole
};

struct Assumption {
  std::string key;     // "training.precision"
  std::string value;   // "bf16-mixed"
  std::string reason;  // why this value was taken
};

// Whose tensors torch's collectives record on their own stream, so that the allocator has them back only when the device
// has passed: torch before 2.2 those of all, before 2.8 those of collectives that run beside computation, later none
// (torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp; pytorch pull requests 111431 and 150398).
enum class RecordedCollectives : std::uint8_t { kNone, kAsynchronous, kAll };

// What transformers' causal models move by one place so that each token predicts the next: since 4.49 the labels, before
// that the logits, which are copied. Their fp32 form is made by the loss since 4.46, by the model from 4.31 on, and by
// nobody before (models/llama/modeling_llama.py and loss/loss_utils.py of each).
enum class Shifted : std::uint8_t { kLabels, kLogitsInLoss, kWideLogits, kNarrowLogits };

// torch.nn.RMSNorm: one kernel since 2.9, before that operators, which multiply by the weight in fp32 since 2.7 and in the type
// of the input before (aten/src/ATen/native/layer_norm.cpp, rms_norm_symint; seen in the graphs of 2.6.0, 2.7.0 and 2.8.0).
enum class TorchRmsNorm : std::uint8_t { kOneKernel, kWeighedInFloat32, kWeighedNarrow };

enum class ExpertAdapters : std::uint8_t { kNone, kApart, kInOneProduct };

struct Job {
  std::shared_ptr<const Architecture> model;
  Engine engine = Engine::kFsdp2;
  Implementation implementation = Implementation::kTransformers;
  Cluster cluster;
  Training training;
  Parallel parallel;
  Experts experts;
  Wrapping wrapping;
  Recompute recompute;
  GraphCapture graphs;
  Offload offload;
  std::optional<Adapter> adapter;
  bool trains_in_part() const {
    return adapter.has_value() || !training.frozen.empty() ||
           (model != nullptr && follows_vision(*model) && has_unread_tensor(*model));
  }
  Generation generation;
  // What scores beside the trained model, all of it frozen; null: nothing does.
  std::shared_ptr<const Architecture> scorer;
  CheckpointSave checkpoint = CheckpointSave::kSharded;
  Buckets buckets;
  AllocatorSettings allocator;  // PYTORCH_CUDA_ALLOC_CONF of [environment]
  RecordedCollectives recorded = RecordedCollectives::kNone;
  bool checks_collectives = false;  // TORCH_DISTRIBUTED_DEBUG=DETAIL of [environment]
  Shifted shifted = Shifted::kLabels;
  bool labels_come_shifted = false;  // whoever calls the model
  TorchRmsNorm rms_norm = TorchRmsNorm::kOneKernel;
  // What foreach Adam makes as large as its second moments: before torch 2.1 their roots, and these plus epsilon beside them.
  std::int32_t foreach_lists = 1;
  // Each expert has linear modules of its own: transformers before 5.
  bool separate_experts = false;
  // What PEFT trains beside stacked experts: nothing before 0.19, and with more memory before 0.21.
  ExpertAdapters expert_adapters = ExpertAdapters::kInOneProduct;
  // The distributed optimizer has no buffer of parameters: megatron-core before 0.6.
  bool megatron_before_0_6 = false;
  bool torchtune_before_0_5 = false;
  bool torchtitan_before_0_1 = false;  // compiles layers alone, and not the loss
  bool torchtitan_before_0_2 = false;  // wraps the ends with the root, and keeps the last layer
  bool older_libraries = false;        // a torch or transformers of which nothing was recorded
  bool first_flash_attention = false;  // flash-attn 1
  LigerChunks liger_chunks;
  // bitsandbytes' 4-bit products: before 0.43 each keeps its input, before 0.50 none multiplies without dequantising. Weights
  // that were fp16 when they were quantised, as all were before 0.43, come back as that, and are cast.
  bool quantised_keeps_input = false, always_dequantises = false, quantised_from_fp16 = false;
  bool rotary_of_layers = false;       // transformers before 4.48: each layer has its frequencies
  std::optional<bool> overlap_reduce;  // [overlap] reduce; absent: the engine's default
  bool overlap_gather = false;         // parameters behind the forward of the first micro-batch
  bool overlap_tensor = false;         // tensor ranks' exchanges in pieces beside their products
  bool overlap_expert = false;         // experts' exchanges beside another micro-batch's computing
  std::vector<Assumption> assumptions;
  Diagnostics warnings;
  bool dies_at_start = false;  // a warning says why
};

// A kernel that takes queries of 16 bits alone.
inline bool takes_16_bits_alone(AttentionKernel kernel) {
  return kernel == AttentionKernel::kFlash || kernel == AttentionKernel::kCudnn;
}
// A fused kernel that is handed a mask of truths where there is one, and keeps it as numbers.
inline bool is_handed_masks(AttentionKernel kernel) {
  return kernel == AttentionKernel::kEfficient || kernel == AttentionKernel::kCudnn;
}

// Ranks that hold the same experts and share their gradients and states: what data, context and tensor ranks there are
// beside those that divide the experts themselves.
inline std::int64_t expert_data_ranks(const Job& job) {
  const Parallel& parallel = job.parallel;
  return parallel.data * parallel.context * parallel.tensor /
         (parallel.expert * parallel.expert_tensor);
}

// FSDP2 with one data rank divides nothing: torchtitan does not apply fully_shard then, and there is no mixed precision
// without it (torchtitan distributed/parallel_dims.py, fsdp_enabled; distributed/utils.py, maybe_enable_amp).
inline bool is_unsharded_fsdp2(const Job& job) {
  return job.engine == Engine::kFsdp2 && job.parallel.data == 1 && job.parallel.context == 1;
}

// Whose CUDA graphs are weighed.
inline bool captures_graphs(const Job& job) {
  return job.engine == Engine::kMegatron && !job.parallel.megatron_fsdp;
}

inline bool is_before_ampere(const Job& job) {
  return job.cluster.device && job.cluster.device->is_before_ampere();
}

}  // namespace steelyard
