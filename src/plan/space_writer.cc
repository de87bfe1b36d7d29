#include "plan/space_writer.h"

#include "job/engine_rules.h"

namespace steelyard {

void SpaceWriter::start_forms() {
  forms_here_.clear();
  bases_here_.clear();
  form_rows_here_.clear();
}

void SpaceWriter::add(const Layout& common, const std::vector<Rounds>& rounds,
                      const std::vector<Division>& divisions,
                      const std::vector<Recomputation>& recomputations) {
  const std::size_t layouts = rounds.size() * divisions.size() * recomputations.size();
  if (layouts == 0) return;
  if (space_.size() + layouts > kMostLayouts) {
    space_.cut_short = true;
    return;
  }
  Bundle bundle;
  bundle.common = common;
  bundle.rounds = rounds_.number_of(rounds, space_.rounds);
  bundle.divisions = divisions_.number_of(divisions, space_.divisions);
  bundle.recomputations = recomputations_.number_of(recomputations, space_.recomputations);
  const auto [found, fresh] = form_rows_here_.try_emplace(
      {common.implementation, common.data > 1, bundle.rounds, bundle.recomputations},
      static_cast<std::uint32_t>(space_.form_numbers.size()));
  bundle.forms = found->second;
  if (fresh) add_forms(common, rounds, recomputations);
  space_.add(bundle);
}

void SpaceWriter::add_forms(Layout layout, const std::vector<Rounds>& rounds,
                            const std::vector<Recomputation>& recomputations) {
  for (const Rounds& round : rounds) {
    const std::size_t row = space_.form_numbers.size();
    space_.form_numbers.resize(row + Space::kKindsOfForm, 0);
    layout.micro_batch = round.micro_batch;
    for (const Recomputation& recomputation : recomputations) {
      layout.recompute = recomputation.mode;
      const auto [found, fresh] =
          forms_here_.emplace(form_key(layout), static_cast<std::uint32_t>(space_.forms.size()));
      space_.form_numbers[row + Space::kind_of_form(recomputation.mode)] = found->second;
      if (!fresh) continue;
      space_.forms.push_back(form_of(layout));
      add_base(space_.forms.back());
    }
  }
}

void SpaceWriter::add_base(Layout form) {
  form.micro_batch = static_cast<std::int32_t>(fixed_.count(KeyId::kMicroBatch).value_or(1));
  const auto [found, fresh] =
      bases_here_.emplace(form_key(form), static_cast<std::uint32_t>(space_.bases.size()));
  if (fresh) space_.bases.push_back(form);
  space_.base_of.push_back(found->second);
}

RecomputeMode SpaceWriter::mode_of_form(const Layout& layout) {
  return Space::kind_of_form(layout.recompute) == 0 ? RecomputeMode::kNone : layout.recompute;
}

SpaceWriter::FormKey SpaceWriter::form_key(const Layout& layout) {
  return {layout.implementation, layout.micro_batch, mode_of_form(layout), layout.data > 1};
}

bool SpaceWriter::offloads(const Layout& layout, KeyId offload) const {
  for (const auto& [path, value] : space_.recipes[layout.recipe].keys)
    if (path == key_of(offload).path) return true;
  return fixed_.name(offload).value_or(0) != static_cast<int>(OffloadTarget::kNone);
}

// The least that the engine asks for where something waits on the host.
std::uint8_t SpaceWriter::stage_of_form(const Layout& layout) const {
  if (is_fsdp(layout.engine)) return 3;
  // Megatron-FSDP is another engine.
  if (const auto said = fixed_.count(KeyId::kZeroStage);
      said && *said > 1 && layout.engine == Engine::kMegatron)
    return static_cast<std::uint8_t>(*said);
  if (offloads(layout, KeyId::kOffloadParameters)) return 3;
  return offloads(layout, KeyId::kOffloadOptimizer) ? 1 : 0;
}

Layout SpaceWriter::form_of(const Layout& layout) const {
  Layout form = layout;
  form.recompute = mode_of_form(layout);
  form.recomputed = form.least_recomputed = 0;
  form.pipeline = form.chunks = 1;
  form.schedule = PipelineSchedule::kOneForwardOneBackward;
  form.uneven_stages = false;
  form.replicate = 1;
  form.accumulation = 1;
  // One data rank is another code path of most engines.
  form.data = layout.data > 1 ? 2 : 1;
  while (form.data * form.context * form.tensor % (form.expert * form.expert_tensor) != 0)
    ++form.data;
  form.zero_stage = stage_of_form(form);
  return form;
}

}  // namespace steelyard
