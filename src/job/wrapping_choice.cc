// Sources: accelerate/utils/fsdp_utils.py, fsdp2_prepare_model (1.14); pytorch/torchtitan pull request 1094, apply_fsdp; what
// the last units do after forward: torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _lazy_init (pytorch pull request 155319).
#include "job/wrapping_choice.h"

#include <fmt/format.h>

#include "job/engine_rules.h"
#include "job/method_choice.h"

namespace steelyard {
namespace {

constexpr int kApart = 1;

// More than a table, a norm and a head: learned positions, a norm of the embedding, a second stack. Those are the root's.
bool has_other_ends(const Architecture& model) {
  return model.encoder_part || model.embedding_parameters.size() != 1 || model.encoder;
}

}  // namespace

void choose_wrapping(Draft& draft) {
  Job& job = draft.job();
  const auto said = draft.settings().name(KeyId::kWrapEnds);
  if (job.engine != Engine::kFsdp2) {
    if (said == kApart)
      draft.refuse(KeyId::kWrapEnds, "E216",
                   fmt::format("{} wraps no ends apart", name_of(job.engine)), "a choice of fsdp2",
                   "leave it out");
    return;
  }
  const bool other = job.model != nullptr && has_other_ends(*job.model);
  if (said == kApart && other)
    draft.warn(KeyId::kWrapEnds, "E216", "wrap.ends = \"apart\" is weighed as \"root\"",
               "this model's ends are more than a table, a norm and a head");
  const bool torchtitan = job.implementation == Implementation::kTorchtitan;
  const bool before = job.torchtitan_before_0_2;
  Wrapping& wrapping = job.wrapping;
  // accelerate wraps a table apart, and the last norm with the head, where the two are not one (1.14, fsdp2_prepare_model).
  const bool trainer = has_two_groups(job) && job.model != nullptr && !job.model->tied_head;
  wrapping.ends_apart =
      !other && (said ? *said == kApart : (torchtitan && !before) || (trainer && !torchtitan));
  if (trainer && !torchtitan && !said && !other)
    draft.assume(KeyId::kWrapEnds, "apart", "accelerate wraps a head of its own so since 1.14");
  if (torchtitan && !said)
    draft.assume(KeyId::kWrapEnds, before ? "root" : "apart",
                 before ? "torchtitan wraps so before 0.2" : "torchtitan wraps so since 0.2");
  wrapping.keeps_last_layer =
      torchtitan && before && job.parallel.zero_stage == 3 && !wrapping.reshards_last;
}

}  // namespace steelyard
