// Expert parallelism: experts stand on `expert` ranks inside data x context (x tensor), each cut over `expert_tensor`
// ranks, and tokens travel to them.
//
//   data x context x tensor = expert x expert_tensor x ranks that hold the same experts
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <variant>

#include "job/group_choice.h"
#include "model/architecture.h"

namespace steelyard {
namespace {

const ExpertMlp* experts_of(const Architecture& model) {
  for (const Layer& layer : model.kinds)
    if (const auto* mlp = std::get_if<ExpertMlp>(&layer.mlp)) return mlp;
  return nullptr;
}

bool dispatches(const Job& job) {
  return job.implementation == Implementation::kMegatron ||
         job.implementation == Implementation::kTorchtitan;
}

// Who divides experts: Megatron's own code and torchtitan's.
bool check_engine(Draft& draft) {
  const Job& job = draft.job();
  const std::string engine(name_of(job.engine));
  const bool divides = job.engine == Engine::kFsdp2 || job.engine == Engine::kMegatron;
  if (job.engine == Engine::kDeepSpeed || (divides && !dispatches(job))) {
    draft.refuse(KeyId::kExpert, "E320",
                 fmt::format("not weighed yet: expert parallelism of {} with {}'s model code",
                             engine, name_of(job.implementation)),
                 "known, not in this version",
                 job.engine == Engine::kFsdp2
                     ? "implementation = \"torchtitan\" is weighed"
                     : "engine = \"megatron\" is weighed, and fsdp2 with torchtitan's model code");
    return false;
  }
  if (divides) return true;
  draft.refuse(KeyId::kExpert, "E217", fmt::format("{} has no expert parallelism", engine),
               "every rank has all experts", "megatron and fsdp2 (torchtitan) have it");
  return false;
}

// torchtitan takes the ranks of one replica, and cuts no expert once experts are divided; Megatron does both.
void check_product(Draft& draft) {
  const Job& job = draft.job();
  const Parallel& parallel = job.parallel;
  const std::int64_t tensor = parallel.tensor, expert = parallel.expert,
                     cut = parallel.expert_tensor;
  const bool torchtitan = job.engine == Engine::kFsdp2;
  if (torchtitan && expert > 1 && cut > 1) {
    draft.refuse(KeyId::kExpertTensor, "E215",
                 fmt::format("expert_tensor {} with expert {}", cut, expert),
                 "torchtitan cuts no expert once experts are divided", "expert_tensor = 1");
    return;
  }
  const std::int64_t data = parallel.data / (torchtitan ? parallel.replicate.value() : 1);
  const std::int64_t room = data * parallel.context * tensor;
  if (room % (expert * cut) == 0) return;
  const bool alone = room % expert == 0 && draft.has(KeyId::kExpertTensor);
  const std::string fits = alone             ? divisors_near(room / expert, cut, 65'536)
                           : room % cut == 0 ? divisors_near(room / cut, expert, 65'536)
                                             : std::string();
  draft.refuse(alone ? KeyId::kExpertTensor : KeyId::kExpert, "E215",
               fmt::format("expert {}{} does not divide data {} x context {} x tensor {} = {}",
                           expert, cut > 1 ? fmt::format(" x expert_tensor {}", cut) : "", data,
                           parallel.context, tensor, room),
               "experts are divided over these ranks",
               fits.empty()
                   ? "expert_tensor = 1 leaves experts whole"
                   : fmt::format("{} = {} fits", alone ? "expert_tensor" : "expert", fits));
}

void check_tokens(Draft& draft) {
  const Job& job = draft.job();
  if (job.engine != Engine::kMegatron || job.parallel.tensor == 1 || job.parallel.sequence_parallel)
    return;
  draft.refuse(KeyId::kSequenceParallel, "E217",
               "megatron trains experts with tensor only with sequence_parallel",
               "its MoE layer refuses the other", "sequence_parallel = true");
}

void choose_capacity(Draft& draft) {
  Job& job = draft.job();
  Experts& experts = job.experts;
  const bool megatron = job.implementation == Implementation::kMegatron;
  const bool padded = draft.truth_or(KeyId::kExpertPadding, false);
  const auto factor = draft.settings().number(KeyId::kExpertCapacity);
  if ((factor && *factor > 0) || padded) {
    if (!megatron) {
      draft.refuse(factor ? KeyId::kExpertCapacity : KeyId::kExpertPadding, "E216",
                   fmt::format("{}'s experts have no capacity", name_of(job.implementation)),
                   "no token is dropped there", "engine = \"megatron\" has it");
      return;
    }
    if (!factor || *factor <= 0) {
      draft.refuse(KeyId::kExpertPadding, "E215", "pad_to_capacity without a capacity",
                   "needs experts.capacity_factor", "capacity_factor = 1.0");
      return;
    }
    if (experts.dispatcher != ExpertDispatcher::kAllToAll) {
      draft.refuse(KeyId::kExpertCapacity, "E215", "capacity_factor with the allgather dispatcher",
                   "megatron drops tokens with all-to-all only", "dispatcher = \"all-to-all\"");
      return;
    }
    experts.capacity_factor = factor;
    experts.pad_to_capacity = padded;
  }
}

void choose_dispatcher(Draft& draft) {
  Job& job = draft.job();
  const auto given = draft.settings().name(KeyId::kExpertDispatcher);
  const bool megatron = job.implementation == Implementation::kMegatron;
  constexpr int kKnown = static_cast<int>(ExpertDispatcher::kAllGather);
  if (given && *given > kKnown) {
    draft.refuse(KeyId::kExpertDispatcher, "E320", "not weighed yet: the flex dispatcher",
                 "its buffers belong to DeepEP, outside PyTorch's allocator",
                 "dispatcher = \"all-to-all\" is weighed");
    return;
  }
  if (given && !megatron && *given != static_cast<int>(ExpertDispatcher::kAllToAll)) {
    draft.refuse(KeyId::kExpertDispatcher, "E216",
                 fmt::format("{} has no allgather dispatcher", name_of(job.implementation)),
                 "tokens travel by all-to-all", "dispatcher = \"all-to-all\"");
    return;
  }
  job.experts.dispatcher =
      megatron ? draft.name_or(KeyId::kExpertDispatcher, ExpertDispatcher::kAllGather,
                               "megatron's own default, --moe-token-dispatcher-type")
               : ExpertDispatcher::kAllToAll;
}

void choose_imbalance(Draft& draft, const ExpertMlp& mlp) {
  Job& job = draft.job();
  const std::int64_t expert = job.parallel.expert;
  if (expert == 1) return;  // all pairs stay where they are
  const double worst = worst_imbalance(mlp.experts, mlp.experts_per_token, expert);
  const Setting* setting = draft.settings().find(KeyId::kExpertImbalance);
  if (setting == nullptr) {
    draft.assume(
        KeyId::kExpertImbalance, "1",
        fmt::format("balanced routing; at worst one of {} ranks receives {:.4g} times that", expert,
                    worst));
    return;
  }
  constexpr int kWorst = 1;
  if (setting->name >= 0) {
    job.experts.imbalance = setting->name == kWorst ? worst : 1;
  } else if (setting->number > worst) {
    draft.refuse(KeyId::kExpertImbalance, "E215",
                 fmt::format("imbalance {} over {} ranks", setting->number, expert),
                 fmt::format("{} of {} experts for a token: one rank receives at most {:.4g} times "
                             "the average",
                             mlp.experts_per_token, mlp.experts, worst),
                 "imbalance = \"worst\"");
  } else {
    job.experts.imbalance = setting->number;
  }
}

}  // namespace

double worst_imbalance(std::int64_t experts, std::int64_t experts_per_token, std::int64_t expert) {
  if (experts <= 0 || experts_per_token <= 0) return 1;
  const std::int64_t chosen_here =
      std::min(experts_per_token, std::max<std::int64_t>(1, experts / expert));
  return static_cast<double>(expert * chosen_here) / static_cast<double>(experts_per_token);
}

void choose_experts(Draft& draft) {
  Job& job = draft.job();
  Parallel& parallel = job.parallel;
  parallel.expert = Ranks(draft.count_or(KeyId::kExpert, 1));
  const bool torchtitan = job.implementation == Implementation::kTorchtitan;
  parallel.expert_tensor = Ranks(draft.count_or(
      KeyId::kExpertTensor, torchtitan && parallel.expert > 1 ? 1 : parallel.tensor.value()));
  if (job.model == nullptr) return;
  const ExpertMlp* mlp = experts_of(*job.model);
  if (mlp == nullptr) return;
  choose_dispatcher(draft);
  choose_capacity(draft);
  choose_imbalance(draft, *mlp);
}

void check_experts(Draft& draft) {
  const Job& job = draft.job();
  const std::int64_t expert = job.parallel.expert;
  const ExpertMlp* mlp = experts_of(*job.model);
  if (mlp == nullptr) {
    if (expert > 1)
      draft.refuse(KeyId::kExpert, "E215",
                   fmt::format("expert {} for a model without experts", expert),
                   fmt::format("{} is dense", job.model->name), "expert = 1");
    return;
  }
  const std::int64_t cut = job.parallel.expert_tensor;
  check_tokens(draft);
  const bool divided = expert > 1 || cut != job.parallel.tensor;
  if (!divided) return;
  if (expert > 1 && mlp->experts % expert != 0) {
    draft.refuse(KeyId::kExpert, "E215",
                 fmt::format("expert {} does not divide {} experts", expert, mlp->experts),
                 "every rank needs an equal number of experts",
                 fmt::format("expert = {} fits", divisors_near(mlp->experts, expert, 65'536)));
    return;
  }
  if (!check_engine(draft)) return;
  if (cut > 1 && mlp->width % cut != 0) {
    draft.refuse(
        KeyId::kExpertTensor, "E215",
        fmt::format("expert_tensor {} does not divide {}, the width of an expert", cut, mlp->width),
        "every rank needs an equal part",
        fmt::format("expert_tensor = {} fits", divisors_near(mlp->width, cut, 65'536)));
    return;
  }
  check_product(draft);
}

}  // namespace steelyard
