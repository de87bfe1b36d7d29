#include "job/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "job/group_choice.h"
#include "job/pipeline_shape.h"
#include "model/architecture.h"

namespace steelyard {
namespace {

std::optional<std::string> not_divided(std::int64_t tensor, std::int64_t count,
                                       std::string_view what) {
  if (count <= 0 || count % tensor == 0) return std::nullopt;
  return fmt::format("tensor {} does not divide {} {}", tensor, count, what);
}

// Megatron gives each rank a copy of a key/value head when there are fewer heads than ranks.
bool replicates_key_value_heads(Engine engine, std::int64_t tensor, std::int64_t heads) {
  return engine == Engine::kMegatron && heads > 0 && tensor > heads && tensor % heads == 0;
}

std::int64_t key_value_heads(const Architecture& model) {
  std::int64_t least = 0;
  for (const Layer& layer : model.kinds)
    if (const auto* grouped = std::get_if<GroupedAttention>(&layer.attention))
      least = least == 0 ? grouped->key_value_heads : std::min(least, grouped->key_value_heads);
  return least;
}

std::int64_t largest_head_count(const Architecture& model) {
  std::int64_t most = 1;
  for (const Layer& layer : model.kinds)
    std::visit([&](const auto& attention) { most = std::max(most, attention.heads); },
               layer.attention);
  return most;
}

std::string fitting_tensor(const Architecture& model, Engine engine, std::int64_t wanted) {
  // The last three below, and the first above.
  std::vector<std::int64_t> fits;
  std::ptrdiff_t most = 3;
  for (std::int64_t t = 1; t <= std::min<std::int64_t>(largest_head_count(model), 1024); ++t) {
    if (!tensor_fault(model, engine, t).empty()) continue;
    fits.push_back(t);
    if (t < wanted) continue;
    ++most;
    break;
  }
  if (std::ssize(fits) > most) fits.erase(fits.begin(), fits.end() - most);
  std::string text;
  for (std::size_t i = 0; i < fits.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == fits.size() ? " or " : ", ", fits[i]);
  return text.empty() ? text : fmt::format("tensor = {} fits this model", text);
}

void check_tensor(Draft& draft) {
  const Job& job = draft.job();
  const std::int64_t tensor = job.parallel.tensor;
  if (tensor == 1) return;
  const std::string fault = tensor_fault(*job.model, job.engine, tensor);
  if (!fault.empty()) {
    draft.refuse(KeyId::kTensor, "E212", fault, "every rank needs an equal part",
                 fitting_tensor(*job.model, job.engine, tensor));
    return;
  }
  const std::int64_t heads = key_value_heads(*job.model);
  if (replicates_key_value_heads(job.engine, tensor, heads))
    draft.assume(
        KeyId::kTensor, fmt::format("{}", tensor),
        fmt::format("each of {} key/value heads stands on {} ranks", heads, tensor / heads));
}

void check_sequence(Draft& draft) {
  const Job& job = draft.job();
  const std::int64_t sequence = job.training.sequence_length;
  const Architecture& model = *job.model;
  const auto refuse = [&](std::int64_t part, std::string_view why) {
    const std::int64_t below = sequence / part * part;
    draft.refuse(KeyId::kSequenceLength, "E218",
                 fmt::format("sequence_length {} is not a multiple of {}", sequence, part),
                 std::string(why),
                 below > 0 ? fmt::format("sequence_length = {} or {} fits", below, below + part)
                           : fmt::format("sequence_length = {} is the least", part));
  };
  std::int64_t part = 1;
  std::string why;
  if (job.parallel.sequence_parallel) {
    part = job.parallel.tensor;
    why = fmt::format("sequence_parallel divides it over tensor {}", part);
  }
  if (job.parallel.context > 1) {
    // A rank has one chunk from each end, so that causal work is even.
    // Transformer Engine divides so for every method; DeepSpeed's Ulysses takes neighbouring tokens.
    const std::int64_t chunks =
        job.engine == Engine::kDeepSpeed ? job.parallel.context : 2 * job.parallel.context;
    part *= chunks;
    why = fmt::format("context {}{} divides it", job.parallel.context,
                      why.empty() ? "" : " with sequence_parallel");
  }
  if (sequence % part != 0) refuse(part, why);
  if (model.image && sequence != model.maximum_positions)
    draft.refuse(KeyId::kSequenceLength, "E218",
                 fmt::format("sequence_length {} is not the {} places of an image of {} pixels",
                             sequence, model.maximum_positions, model.image->size),
                 model.image->class_index >= 0 ? "its patches and the class token" : "its patches",
                 fmt::format("sequence_length = {} is its length", model.maximum_positions));
  if (reads_patches(model)) {
    const std::int64_t seen =
        job.training.images_per_sequence * model.encoder_part->vision->features;
    if (sequence < seen)
      draft.refuse(KeyId::kSequenceLength, "E218",
                   fmt::format("sequence_length {} has no room for the {} patches of its images",
                               sequence, seen),
                   "patches are tokens of the sequence",
                   fmt::format("sequence_length = {} is the least", seen));
  }
  if (model.learned_positions && model.maximum_positions > 0 && sequence > model.maximum_positions)
    draft.refuse(KeyId::kSequenceLength, "E218",
                 fmt::format("sequence_length {} is more than the {} positions of the model",
                             sequence, model.maximum_positions),
                 "its positions are a table",
                 fmt::format("sequence_length = {} is the most", model.maximum_positions));
}

// Whether this many micro-batches can take turns on these stages.
void check_order(Draft& draft) {
  const Job& job = draft.job();
  if (job.parallel.pipeline == 1) return;
  const PipelineOrder& order = pipeline_order(job);
  // What torch's pipelines do with these has not been recorded.
  const bool torch = runs_on_torch_pipelining(job);
  if (torch && order.placement == Placement::kV && job.model != nullptr && job.model->tied_head)
    draft.refuse(
        KeyId::kSchedule, "E320", fmt::format("not weighed yet: {} with a tied head", order.name),
        "both ends of a V stand on one stage", "schedule = \"interleaved\" is weighed with it");
  if (torch && order.splits_backward && job.recompute.mode == RecomputeMode::kModules)
    draft.refuse(KeyId::kRecomputeModules, "E320",
                 fmt::format("not weighed yet: recomputation by module with {}", order.name),
                 "backward is split", "mode = \"full\" is weighed with it");
  if (torch && order.splits_backward && job.recompute.mode != RecomputeMode::kNone &&
      job.recompute.reentrant)
    draft.refuse(KeyId::kReentrant, "E217",
                 fmt::format("reentrant checkpoints with {}, which would not start", order.name),
                 "torch's pipelining asks for the gradient of the input alone (autograd.grad), and "
                 "such a checkpoint refuses to give it",
                 "recompute.reentrant = false");
  if (torch && order.splits_backward && job.training.compile)
    draft.refuse(KeyId::kCompile, "E320",
                 fmt::format("not weighed yet: training.compile with {}", order.name),
                 "backward is split, and compiled kernels compute their inputs again",
                 "compile = false is weighed with it");
  const std::string fault = order.fault(pipeline_shape(job));
  if (!fault.empty())
    draft.refuse(KeyId::kGradientAccumulation, "E213", fault,
                 fmt::format("micro-batches of {} take turns", order.name));
}

// nanotron's own check; its measured runs went below it, so it is no error here.
void check_micro_batches(Draft& draft) {
  const Job& job = draft.job();
  if (job.engine == Engine::kNanotron &&
      job.parallel.schedule == PipelineSchedule::kOneForwardOneBackward &&
      job.training.gradient_accumulation < job.parallel.pipeline - 1)
    draft.warn(KeyId::kGradientAccumulation, "E211",
               fmt::format("{} micro-batches for {} stages", job.training.gradient_accumulation,
                           job.parallel.pipeline),
               "some stages have nothing to do",
               fmt::format("gradient_accumulation = {} is what nanotron asks for at least",
                           job.parallel.pipeline - 1));
}

}  // namespace

std::string tensor_fault(const Architecture& model, Engine engine, std::int64_t tensor) {
  for (const Layer& layer : model.kinds) {
    std::optional<std::string> fault;
    if (const auto* grouped = std::get_if<GroupedAttention>(&layer.attention)) {
      fault = not_divided(tensor, grouped->heads, "heads");
      if (!fault && !replicates_key_value_heads(engine, tensor, grouped->key_value_heads))
        fault = not_divided(tensor, grouped->key_value_heads, "key/value heads");
    } else if (const auto* latent = std::get_if<LatentAttention>(&layer.attention)) {
      fault = not_divided(tensor, latent->heads, "heads");
    } else if (const auto* delta = std::get_if<GatedDelta>(&layer.attention)) {
      fault = not_divided(tensor, delta->key_heads, "heads of keys");
    }
    if (!fault) {
      if (const auto* dense = std::get_if<DenseMlp>(&layer.mlp))
        fault = not_divided(tensor, dense->width, "feed-forward width");
      if (const auto* experts = std::get_if<ExpertMlp>(&layer.mlp))
        fault = not_divided(tensor, experts->width, "width of an expert");
    }
    if (fault) return *fault;
  }
  return not_divided(tensor, model.hidden, "hidden width").value_or(std::string());
}

void validate(Draft& draft) {
  check_micro_batches(draft);
  if (draft.job().model == nullptr) return;
  check_tensor(draft);
  check_sequence(draft);
  check_context(draft);
  check_experts(draft);
  check_order(draft);
}

}  // namespace steelyard
