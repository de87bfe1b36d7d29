#include "diagnose/cause.h"

#include <array>

namespace steelyard {
namespace {

constexpr std::array kCauses = {
    CauseFacts{Cause::kHealthy, "healthy", "no failure",
               "The evidence shows no failure: memory was free at every moment that was recorded.",
               "no failed allocation, no exception, no kill",
               "the evidence ends before the failure", "record until the failure",
               "nothing to change"},
    CauseFacts{Cause::kNotMemory, "not_memory", "not a memory failure",
               "The run ended for another reason: a time limit, an exception of another kind, a "
               "collective that did not match.",
               "the first failure in time is of another kind",
               "an out-of-memory error of another rank came before", "read the first failure",
               "see the first failure"},
    CauseFacts{Cause::kActivations, "activations", "activations",
               "What forward keeps for backward fills the device. It grows with micro-batch and "
               "sequence length.",
               "the largest pile is born in forward and dies in backward",
               "logits or attention scores are most of it; a graph of an earlier step is kept",
               "half the sequence length: activations halve",
               "recomputation (activation checkpointing), a smaller micro-batch, context or "
               "sequence parallelism"},
    CauseFacts{
        Cause::kLogits, "logits", "the logits",
        "Tokens x vocabulary: the output of the head, its 32-bit copy, log-softmax and their "
        "gradients.",
        "blocks with the vocabulary as a factor, allocated in the loss",
        "a fused or chunked loss is in use", "a chunked loss removes all but one chunk",
        "training.loss = chunked or fused_linear, a smaller micro-batch"},
    CauseFacts{Cause::kAttentionScores, "attention_scores", "the attention scores",
               "Naive attention stores heads x length x length for every layer, several copies of "
               "each.",
               "blocks of batch x heads x length x length", "a flash kernel is in use",
               "half the sequence length: these blocks shrink to a quarter",
               "a flash or memory-efficient attention kernel"},
    CauseFacts{
        Cause::kOptimizerStateFirstStep, "optimizer_state_first_step",
        "the optimizer's state, made in the first step",
        "Adam makes two moments for each parameter when it first steps, so a run that passed "
        "forward and backward dies in step 1 (or in the forward of step 2).",
        "the failure lies in or right after the first optimizer step, among blocks of the "
        "parameters' sizes that are never freed",
        "the moments were there before", "half the batch and length: the peak stays",
        "shard or offload the state (ZeRO, FSDP), an 8-bit optimizer, adapters"},
    CauseFacts{Cause::kOptimizerTemporaries, "optimizer_temporaries", "the optimizer's temporaries",
               "The foreach form of an optimizer computes on all parameters at once, so a "
               "temporary is as large as the whole group.",
               "the failed size is that of a whole group of parameters, in _foreach_ of a step",
               "the fused form is in use", "optimizer_form = fused: the temporaries go",
               "the fused form, foreach=False, or smaller parameter groups"},
    CauseFacts{Cause::kGradients, "gradients", "the gradients",
               "Gradients of the parameters' sizes are alive while forward or backward runs.",
               "blocks of the backward thread with the parameters' sizes",
               "accumulation keeps them on purpose",
               "zero_grad(set_to_none=True) before forward: the peak falls by their size",
               "free them before forward, shard them (ZeRO 2, FSDP), keep them in 16 bits"},
    CauseFacts{Cause::kMasterWeights, "master_weights", "the 32-bit master weights",
               "A 32-bit copy of every 16-bit weight stands beside it.",
               "blocks of twice the weights' bytes made by the engine or optimizer",
               "the weights are 32-bit themselves", "pure 16-bit training: the peak falls by them",
               "shard or offload them; an optimizer that needs none"},
    CauseFacts{Cause::kAutocastCopies, "autocast_copies", "autocast's copies of the weights",
               "Autocast casts 32-bit weights to 16 bits for each product and keeps the copies "
               "until the region ends.",
               "blocks of half a 32-bit weight's bytes, made in the product that uses it",
               "the weights are 16-bit already", "16-bit weights: the copies go",
               "16-bit weights with master weights, or a smaller autocast region"},
    CauseFacts{Cause::kParametersReplicated, "parameters_replicated",
               "parameters on every rank in full",
               "Each rank holds the whole model, although it was meant to be sharded, or replicas "
               "stand on one device.",
               "parameters are as large as the whole model on every rank",
               "the layout says one rank, or ZeRO 0 to 2", "sharding: the base falls to 1 / ranks",
               "FSDP or ZeRO 3"},
    CauseFacts{Cause::kLoadFullModel, "load_full_model", "loading the whole model",
               "The device fills while weights are loaded or moved, before any training.",
               "the failure lies in from_pretrained, load_state_dict, to() or materialisation",
               "another process holds the device", "load on the meta device, then shard",
               "load on the meta device or the CPU, in 16 bits, sharded"},
    CauseFacts{Cause::kAllGatherOrBucket, "all_gather_or_bucket", "gathered parameters or buckets",
               "Parameters of layers that are gathered, or communication buckets, stand beside the "
               "rest.",
               "blocks of a layer's or bucket's full size, several alive",
               "prefetch is off already", "a smaller bucket or wrapping unit: the peak falls by it",
               "smaller wrapping units or buckets, less prefetch"},
    CauseFacts{Cause::kFragmentation, "fragmentation", "fragmentation",
               "Enough reserved memory is free, but in pieces that are all smaller than the "
               "request.",
               "free + reserved but unallocated is at least the request, and the largest gap is "
               "smaller",
               "live memory is near the capacity itself",
               "expandable segments: the request is served",
               "PYTORCH_ALLOC_CONF=expandable_segments:True; fewer different sizes"},
    CauseFacts{
        Cause::kLeakOrKeptGraph, "leak_or_kept_graph", "memory kept from step to step",
        "Each step leaves something behind: a loss kept with its graph, a list of outputs, a "
        "hook.",
        "live memory after a step rises by the same places every step",
        "only the cache grows; batches grow longer",
        "one step without logging, or with detach(): no growth",
        "loss.item() or detach() before it is kept"},
    CauseFacts{Cause::kLongestBatch, "longest_batch", "the longest batch so far",
               "One batch is longer than those before it; activations follow its tokens.",
               "the failed step's blocks are longer than the same blocks of earlier steps",
               "the peak is steady", "cap the length at that of the steps that passed",
               "cap or bucket lengths; weigh the longest batch"},
    CauseFacts{Cause::kMoeImbalance, "moe_imbalance", "unequal experts",
               "One rank's experts received more tokens than the others'.",
               "expert buffers differ between ranks, layers or steps at the same place",
               "all ranks grow alike", "a capacity factor: the buffers are equal",
               "a capacity factor, a balancing loss, more expert parallelism"},
    CauseFacts{Cause::kPipelineFirstStage, "pipeline_first_stage", "the first pipeline stage",
               "The first stage holds the most micro-batches in flight, and the embedding.",
               "the peak falls by a constant from stage to stage", "stages are equal",
               "one micro-batch less in flight: the first stage falls by it",
               "fewer layers on the first stage, another schedule, recomputation there"},
    CauseFacts{
        Cause::kEvaluationOrGenerationCache, "evaluation_or_generation_cache",
        "evaluation or generation",
        "The peak lies in evaluation or generation: its batch, its logits, or keys and values.",
        "the failing frames are those of evaluate() or generate()", "training peaks higher",
        "half the evaluation batch: this peak halves",
        "a smaller evaluation batch, no gathered logits, a shorter cache"},
    CauseFacts{Cause::kFullCheckpointOnRank0, "full_checkpoint_on_rank0",
               "saving a full checkpoint", "One rank gathers the whole model to save it.",
               "the failure lies in saving, on rank 0", "saving is sharded",
               "sharded saving: no peak there", "save sharded, or offload while gathering"},
    CauseFacts{Cause::kQuantizationDequant, "quantization_dequant", "dequantised weights",
               "Quantised weights are expanded to 16 bits for each product.",
               "16-bit copies of quantised weights, made in the quantised product",
               "weights are not quantised", "fewer layers at once: the copies shrink",
               "recomputation; a kernel that multiplies quantised weights directly"},
    CauseFacts{Cause::kNcclOrContext, "nccl_or_context", "memory outside PyTorch's allocator",
               "Context, NCCL, cuBLAS or another allocator of the process took what is missing.",
               "in use by the process - allocated - unallocated is large; the text is NCCL's or a "
               "library's",
               "tensors fill the device", "fewer process groups: the outside part falls",
               "fewer groups or channels, smaller NCCL_BUFFSIZE"},
    CauseFacts{Cause::kOtherProcess, "other_process", "another process on the device",
               "Another process, or another rank of the same run, holds memory of this device.",
               "the text names a foreign process; nvidia-smi lists it",
               "a container shows the own process under a foreign number",
               "set the device for each rank: the other process goes",
               "torch.cuda.set_device(local_rank); stop the stale process"},
    CauseFacts{
        Cause::kHostMemory, "host_memory", "host memory, not the device's",
        "The machine's memory ran out: the kernel, Slurm, Kubernetes or Ray killed a process, "
        "or pinned memory could not be had.",
        "kernel, cgroup, Slurm or Ray lines; exit code -9 or 137 as the first failure",
        "the kill is the launcher's own clean-up", "fewer workers or ranks on the node",
        "fewer workers, load once for each node, less offload, more host memory"},
    CauseFacts{Cause::kSettingIgnored, "setting_ignored", "a setting that had no effect",
               "Blocks have the size that the run would have without a setting it asks for.",
               "a block of the size that the unset option gives, where the set one gives less",
               "the configuration read is another run's", "the prediction without the key matches",
               "check that the framework's own log says the setting"},
    CauseFacts{Cause::kHardware, "hardware", "a faulty device or node",
               "The device reported an error of its own, or fails before any model exists.",
               "ECC, Xid, or out of memory on an empty device", "a stale process fills the device",
               "the same job on another node", "exclude the node; have the device tested"},
    CauseFacts{Cause::kModelTooLarge, "model_too_large", "a model too large for the device",
               "Parameters, gradients and optimizer state exceed the device before any activation.",
               "states alone are more than the device has", "most of it is activations",
               "weights alone do not fit",
               "more devices with sharding, adapters, quantised weights"},
};

}  // namespace

std::span<const CauseFacts> causes() { return kCauses; }

const CauseFacts& facts_of(Cause cause) { return kCauses[static_cast<std::size_t>(cause)]; }

const CauseFacts* find_cause(std::string_view name) {
  for (const CauseFacts& facts : kCauses)
    if (facts.name == name) return &facts;
  return nullptr;
}

}  // namespace steelyard
