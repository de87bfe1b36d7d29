// Context parallelism: which methods an engine has, and what a model's heads and a sequence allow.
//
//   ring           keys and values travel; each rank has one chunk from each end of the sequence, so that causal work is even
//   allgather      keys and values of all ranks at once
//   ulysses        all-to-all before and after attention: the whole sequence of heads / context
//   ring+ulysses   all-to-all among context_inner ranks, a ring of such groups
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "job/group_choice.h"
#include "model/architecture.h"

namespace steelyard {
namespace {

struct Methods {
  Engine engine;
  ContextMethod usual;
  std::string_view reason;
  std::array<bool, 5> has;  // in the order of ContextMethod
  std::string_view words;
};
constexpr std::array kMethods = {
    Methods{Engine::kFsdp2,
            ContextMethod::kAllGather,
            "torch's context_parallel gathers keys and values unless told otherwise",
            {true, false, true, true, false},
            "torch's context_parallel takes ring or allgather"},
    Methods{Engine::kDeepSpeed,
            ContextMethod::kUlysses,
            "what DeepSpeed has",
            {false, true, false, true, false},
            "deepspeed takes ulysses"},
    Methods{Engine::kMegatron,
            ContextMethod::kRing,
            "megatron's own default, --cp-comm-type p2p",
            {true, true, true, true, true},
            "megatron takes ring, allgather, ulysses or ring+ulysses"}};

const Methods* methods_of(Engine engine) {
  for (const Methods& methods : kMethods)
    if (methods.engine == engine) return &methods;
  return nullptr;
}

void choose_inner(Draft& draft) {
  Parallel& parallel = draft.job().parallel;
  const std::int64_t context = parallel.context;
  if (parallel.context_method != ContextMethod::kRingAndUlysses) {
    if (draft.has(KeyId::kContextInner) && draft.count_or(KeyId::kContextInner, 1) > 1)
      draft.refuse(KeyId::kContextInner, "E214",
                   fmt::format("context_inner with {}", name_of(parallel.context_method)),
                   "a part of ring+ulysses", "context_method = \"ring+ulysses\" has it");
    return;
  }
  const std::int64_t inner = draft.count_or(KeyId::kContextInner, 1);
  parallel.context_inner = Ranks(inner);
  if (inner > 1 && inner < context && context % inner == 0) return;
  parallel.context_inner = Ranks(1);
  draft.refuse(draft.has(KeyId::kContextInner) ? KeyId::kContextInner : KeyId::kContextMethod,
               "E214",
               fmt::format("ring+ulysses of {} ranks with context_inner {}", context, inner),
               "needs a part of the ranks for the all-to-all, and a ring of the rest",
               context >= 4 && context % 2 == 0 ? "context_inner = 2 fits"
                                                : "context_method = \"ring\" fits");
}

// Heads on one rank that an all-to-all divides once more.
struct Heads {
  std::int64_t query = 0, key_value = 0;
};
Heads heads_of(const Layer& layer, std::int64_t tensor) {
  if (const auto* grouped = std::get_if<GroupedAttention>(&layer.attention))
    return {grouped->heads / tensor, std::max<std::int64_t>(1, grouped->key_value_heads / tensor)};
  const std::int64_t heads =
      std::visit([](const auto& attention) { return attention.heads; }, layer.attention);
  return {heads / tensor, heads / tensor};
}

// DeepSpeed repeats key/value heads where there are fewer than ranks (UlyssesSPAttentionHF); Transformer Engine does not.
bool divides_heads(const Heads& heads, std::int64_t ranks, Engine engine) {
  if (heads.query % ranks != 0) return false;
  if (heads.key_value % ranks == 0) return true;
  return engine == Engine::kDeepSpeed && ranks % heads.key_value == 0;
}

void check_heads(Draft& draft, std::int64_t ranks) {
  const Job& job = draft.job();
  const std::int64_t tensor = job.parallel.tensor;
  for (const Layer& layer : job.model->kinds) {
    const Heads heads = heads_of(layer, tensor);
    if (heads.query == 0 || divides_heads(heads, ranks, job.engine)) continue;
    const bool of_query = heads.query % ranks != 0;
    const std::string what = fmt::format(
        "ulysses over {} ranks does not divide {} {}{}", ranks,
        of_query ? heads.query : heads.key_value, of_query ? "heads" : "key/value heads",
        tensor > 1 ? fmt::format(" (of one of {} tensor ranks)", tensor) : "");
    std::string fits;
    for (std::int64_t some = std::min(heads.query, ranks); some > 1 && fits.empty(); --some)
      if (divides_heads(heads, some, job.engine)) fits = fmt::format("{} ranks fit", some);
    const bool inner = job.parallel.context_method == ContextMethod::kRingAndUlysses;
    if (!fits.empty()) fits.insert(0, inner ? "context_inner = " : "context = ");
    if (job.engine == Engine::kMegatron)
      fits += fits.empty() ? "context_method = \"ring\" asks nothing of the heads"
                           : "; context_method = \"ring\" asks nothing of the heads";
    draft.refuse(inner ? KeyId::kContextInner : KeyId::kContext, "E214", what,
                 "every rank attends with whole heads", fits);
    return;
  }
}

// Kernels that can be asked for parts of a sequence.
void check_kernel(Draft& draft) {
  const Job& job = draft.job();
  const AttentionKernel kernel = job.training.attention;
  const bool torch = job.engine == Engine::kFsdp2;
  if (kernel == AttentionKernel::kEager) {
    draft.refuse(draft.has(KeyId::kAttention) ? KeyId::kAttention : KeyId::kContext, "E214",
                 "eager attention with context", "no part of it is divided over ranks",
                 "attention = \"flash\" is");
    return;
  }
  if (kernel == AttentionKernel::kEfficient && !torch) {
    draft.refuse(draft.has(KeyId::kAttention) ? KeyId::kAttention : KeyId::kContext, "E320",
                 "not weighed yet: efficient attention with context in this engine",
                 "flash attention is weighed", "attention = \"flash\"");
    return;
  }
  if (!torch) return;
  for (const Layer& layer : job.model->kinds) {
    const auto* grouped = std::get_if<GroupedAttention>(&layer.attention);
    if (grouped == nullptr) continue;
    const bool windowed =
        grouped->sliding_window && job.training.sequence_length > *grouped->sliding_window;
    if (windowed || !grouped->causal) {
      draft.refuse(KeyId::kContext, "E214",
                   fmt::format("{} attends {}", job.model->name,
                               windowed ? "through a window" : "in both directions"),
                   "torch's context_parallel knows causal attention without a mask only",
                   "context = 1");
      return;
    }
    if (kernel == AttentionKernel::kEfficient &&
        job.implementation == Implementation::kTransformers &&
        grouped->heads != grouped->key_value_heads) {
      draft.refuse(KeyId::kContext, "E214",
                   "efficient attention of grouped heads is written out, and not divided",
                   "context_parallel catches fused kernels only", "attention = \"flash\"");
      return;
    }
  }
}

}  // namespace

std::string divisors_near(std::int64_t number, std::int64_t wanted, std::int64_t most) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= std::min(number, most); ++d)
    if (number % d == 0) divisors.push_back(d);
  std::stable_sort(divisors.begin(), divisors.end(), [wanted](std::int64_t a, std::int64_t b) {
    return std::abs(a - wanted) < std::abs(b - wanted);
  });
  if (divisors.size() > 3) divisors.resize(3);
  std::sort(divisors.begin(), divisors.end());
  std::string text;
  for (std::size_t i = 0; i < divisors.size(); ++i)
    text += fmt::format("{}{}",
                        i == 0                     ? ""
                        : i + 1 == divisors.size() ? " or "
                                                   : ", ",
                        divisors[i]);
  return text;
}

void choose_context(Draft& draft) {
  Job& job = draft.job();
  Parallel& parallel = job.parallel;
  if (parallel.context == 1)
    return;  // with one rank there is nothing to divide, whatever was written
  const std::string engine(name_of(job.engine));
  const Methods* methods = methods_of(job.engine);
  if (methods == nullptr) {
    draft.refuse(KeyId::kContext, "E217", fmt::format("{} has no context parallelism", engine),
                 "every rank sees whole sequences", "fsdp2, deepspeed and megatron have it");
    return;
  }
  auto method = draft.name_or(KeyId::kContextMethod, methods->usual, methods->reason);
  if (!methods->has[static_cast<std::size_t>(method)]) {
    draft.refuse(KeyId::kContextMethod, "E216",
                 fmt::format("{} has no context_method \"{}\"", engine, name_of(method)),
                 std::string(methods->words),
                 fmt::format("context_method = \"{}\"", name_of(methods->usual)));
    method = methods->usual;
  }
  if (method == ContextMethod::kAllToAll)
    method = job.engine == Engine::kFsdp2 ? ContextMethod::kRing : ContextMethod::kUlysses;
  parallel.context_method = method;
  choose_inner(draft);
  if (job.engine != Engine::kDeepSpeed) return;
  const bool tensor = parallel.tensor > 1;
  if (tensor || parallel.pipeline > 1)
    draft.refuse(KeyId::kContext, "E217",
                 fmt::format("deepspeed has no context with {}", tensor ? "tensor" : "a pipeline"),
                 "its sequence groups stand beside data alone",
                 "engine = \"megatron\" has them together");
}

void check_context(Draft& draft) {
  const Job& job = draft.job();
  const std::int64_t context = job.parallel.context;
  if (context == 1 || methods_of(job.engine) == nullptr) return;
  check_kernel(draft);
  if (job.parallel.context_method == ContextMethod::kUlysses) check_heads(draft, context);
  if (job.parallel.context_method == ContextMethod::kRingAndUlysses &&
      job.parallel.context_inner > 1)
    check_heads(draft, job.parallel.context_inner);
}

}  // namespace steelyard
