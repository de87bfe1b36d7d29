#include "plan/form_facts.h"

#include <algorithm>

#include "engine/stage_program.h"
#include "model/sequence.h"
#include "operators/style.h"
#include "predict/band.h"
#include "recipe/bytes_per_parameter.h"

namespace steelyard {
namespace {

// States that are one tensor for each parameter; factored, blockwise and projected ones have no simple least size.
bool has_plain_states(const Optimizer& optimizer) {
  return !optimizer.paged &&
         std::all_of(optimizer.slots.begin(), optimizer.slots.end(), [](const OptimizerSlot& slot) {
           return slot.extent == SlotExtent::kParameter && slot.applies_to == SlotAppliesTo::kAll;
         });
}

// Of gradients that stand in buffers from load on, for each parameter.
double buffered_gradient(StagePrograms<Checked>& programs, const Job& job, double elements) {
  // DeepSpeed's, and what FSDP has reduced, are divided over ranks.
  if ((job.engine != Engine::kMegatron && job.engine != Engine::kNanotron) || elements == 0)
    return 0;
  if (job.parallel.zero_stage > 1) return 0;  // Megatron-FSDP's, too
  std::vector<Event> events;
  programs.engine().load(programs.stage_of(0), events);
  double bytes = 0;
  for (const Event& event : events) {
    const Slot& slot = programs.program().slot_at(event.slot);
    if (slot.pile == Pile::kGradients)
      bytes += static_cast<double>(slot.bytes.value().value()) * event.count;
  }
  return bytes / elements * kWithoutRounding;
}

double bytes_kept(const StagePrograms<Checked>& programs, std::size_t kind, bool again) {
  double bytes = 0;
  for (const SlotId slot : programs.kept_of_kind(kind, again))
    bytes += static_cast<double>(programs.program().slot_at(slot).bytes.value().value());
  return bytes;
}

std::vector<double> summed(const std::vector<int>& kinds, const std::vector<double>& of_kind) {
  std::vector<double> sums = {0};
  for (const int kind : kinds)
    sums.push_back(sums.back() + of_kind[static_cast<std::size_t>(kind)]);
  return sums;
}

}  // namespace

FormFacts memory_facts(const Job& job, StagePrograms<Checked>& programs, const Job* job_again,
                       const StagePrograms<Checked>* again) {
  FormFacts facts;
  const Architecture& model = *job.model;
  facts.ends_again = job_again != nullptr && computes_ends_again(*job_again);
  facts.alike = model.kinds.size() == 1 && !facts.ends_again;
  facts.error_above = ErrorBand::least_above(job);
  std::vector<double> kept, elements;
  for (std::size_t kind = 0; kind < model.kinds.size(); ++kind) {
    // What a tower's layers keep may go with its hidden states, before the decoder runs.
    const bool stays = !model.kinds[kind].encodes || !reads_patches(model);
    kept.push_back(stays ? bytes_kept(programs, kind, false) : 0);
    elements.push_back(static_cast<double>(plain(programs.units().kinds[kind].elements)));
    facts.largest = std::max(facts.largest, elements.back());
  }
  const std::vector<int> kinds = kind_of_each_layer(model);
  facts.kept = summed(kinds, kept);
  facts.elements = summed(kinds, elements);
  facts.kept_again.assign(facts.kept.size(), 0.0);
  if (again != nullptr) {
    // Adapters may make other kinds of layers where they are computed again.
    const std::vector<int> kinds_again = kind_of_each_layer(*job_again->model);
    for (std::size_t layer = 0; layer < kinds.size(); ++layer) {
      const double whole = kept[static_cast<std::size_t>(kinds[layer])];
      const double less =
          std::min(whole, bytes_kept(*again, static_cast<std::size_t>(kinds_again[layer]), true));
      facts.kept_again[layer + 1] = facts.kept_again[layer] + less;
      facts.largest_again = std::max(facts.largest_again, whole - less);
    }
  }
  // nanotron's loss lets its logits go as it runs; a head that is computed again keeps next to nothing.
  if (job.engine != Engine::kNanotron && !facts.ends_again)
    for (const SlotId slot : programs.kept_of_head())
      facts.kept_of_head +=
          static_cast<double>(programs.program().slot_at(slot).bytes.value().value());
  facts.embedding = static_cast<double>(plain(programs.units().embedding.elements));
  const Parallel& parallel = job.parallel;
  facts.share = std::max(1.0, static_cast<double>(parallel.tensor.value()) /
                                  static_cast<double>(parallel.expert * parallel.expert_tensor));
  // Frozen parameters may be quantised and have no states.
  if (job.trains_in_part()) return facts;
  const Precision& precision = job.training.precision;
  facts.weight = std::min(bytes_each(precision.parameters), bytes_each(precision.compute));
  double all = facts.elements.back() + facts.embedding;
  all += static_cast<double>(plain(programs.units().head.elements));
  facts.gradient = buffered_gradient(programs, job, all);
  if (job.engine == Engine::kFsdp2)
    facts.gradient_of_stage = std::min(facts.weight, bytes_each(precision.gradients));
  const bool on_host = job.offload.optimizer != OffloadTarget::kNone ||
                       job.offload.parameters != OffloadTarget::kNone;
  if (on_host || !has_plain_states(job.training.optimizer)) return facts;
  const BytesPerParameter bytes = bytes_per_parameter(job.training.optimizer, precision);
  // nanotron steps its parameters themselves unless it accumulates in fp32.
  facts.states = bytes.states + (job.engine == Engine::kNanotron ? 0 : bytes.master);
  return facts;
}

bool computes_ends_again(const Job& job) { return style_of(job).recomputes_ends; }

bool keeps_copies_of_weights(const Job& job) {
  const OperatorStyle style = style_of(job);
  return style.autocast || style.eight_bits != EightBitCode::kNone || job.trains_in_part();
}

void FormFacts::keep_growth(const FormFacts& twice) {
  const auto of_layers = [](std::vector<double>& sums, const std::vector<double>& wider) {
    for (std::size_t layer = 0; layer < sums.size(); ++layer)
      sums[layer] = wider[layer] - sums[layer];
  };
  of_layers(kept, twice.kept);
  of_layers(kept_again, twice.kept_again);
  largest_again = std::max(0.0, twice.largest_again - largest_again);
  kept_of_head = twice.kept_of_head - kept_of_head;
}

double micro_batch_seconds(const TimeTerms& terms, bool with_host) {
  double seconds = 0;
  for (const TimeTerm term : {TimeTerm::kCompute, TimeTerm::kRecompute, TimeTerm::kTensor,
                              TimeTerm::kContext, TimeTerm::kExpert})
    seconds += terms[term];
  return seconds + (with_host ? terms[TimeTerm::kHost] : 0);
}

}  // namespace steelyard
