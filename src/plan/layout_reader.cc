#include "plan/layout_reader.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>

#include "engine/stage_program.h"
#include "machine/machine.h"
#include "predict/prepared_job.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

constexpr std::initializer_list<KeyId> kStageKeys = {
    KeyId::kPipelineLayout, KeyId::kFirstStageLayers, KeyId::kLastStageLayers,
    KeyId::kCountEmbedding, KeyId::kCountLoss,        KeyId::kPipelineGroup};

FormFacts refused(const Diagnostic& problem) {
  FormFacts facts;
  facts.code = problem.code;
  facts.words = problem.message;
  return facts;
}

Job with_all_computed_again(Job job) {
  job.recompute = {};
  job.recompute.mode = RecomputeMode::kFull;
  return job;
}

}  // namespace

ReadJob LayoutReader::job_of(const Layout& layout) const {
  return help_.read(run_of(run_, layout, space_, target_.model->layers));
}

bool LayoutReader::stages_are_stated() const {
  return std::any_of(kStageKeys.begin(), kStageKeys.end(),
                     [&](KeyId id) { return run_.at(key_of(id).path) != nullptr; });
}

// A form stands for itself: what the run file says about stages belongs to layouts that have them.
ReadJob LayoutReader::job_of_form(const Layout& form) const {
  Value run = run_;
  for (const KeyId id : kStageKeys) remove_path(run, key_of(id).path);
  for (const KeyId id : {KeyId::kVirtualPipeline, KeyId::kSchedule, KeyId::kPipeline, KeyId::kData,
                         KeyId::kReplicate, KeyId::kZeroStage, KeyId::kReshard})
    remove_path(run, key_of(id).path);
  // A way of states that are divided.
  if (form.zero_stage == 0) remove_path(run, key_of(KeyId::kOverlapGather).path);
  return help_.read(run_of(run, form, space_, target_.model->layers));
}

FormFacts LayoutReader::memory_of(const Layout& base) const {
  try {
    const ReadJob job = job_of_form(base);
    if (!job) return refused(job.error().front());
    if (base.recompute != RecomputeMode::kNone) return memory_facts(*job, nullptr);
    Layout all = base;
    all.recompute = RecomputeMode::kFull;
    const ReadJob again = job_of_form(all);
    return memory_facts(*job, again ? &*again : nullptr);
  } catch (const OverflowError&) {
    return {};  // bounds nothing; the layout itself will be refused
  }
}

// A job, and the same with every layer computed again; graphs are drawn once.
struct LayoutReader::Clocks {
  Clocks(const Job& job, bool with_again)
      : all(with_again ? with_all_computed_again(job) : job),
        shared(with_again && job.recompute.mode == RecomputeMode::kNone) {
    StagePrograms<Checked> programs(shared ? all : job, SlotDetail::kSums, shared);
    plain.emplace(job, programs);
    if (shared)
      again.emplace(all, programs);
    else if (with_again)
      again.emplace(all);
  }
  const Job all;
  const bool shared;
  std::optional<StepClock> plain, again;
};

FormFacts LayoutReader::time_of(const Layout& form, bool again) const {
  FormFacts facts;
  try {
    const ReadJob job = job_of_form(form);
    if (!job) return refused(job.error().front());
    facts.alike = job->model->kinds.size() == 1;
    const Device& device = *job->cluster.device;
    const Machine* machine = usual_machine(device);
    if (machine == nullptr) return facts;
    const Clocks clocks(*job, again);
    const TimeTerms plain = clocks.plain->read(device, *machine, Outlook::kExpected).terms;
    facts.seconds = facts.seconds_again = micro_batch_seconds(plain);
    facts.device = facts.device_again = micro_batch_seconds(plain, false);
    if (!again) return facts;
    const TimeTerms longer = clocks.again->read(device, *machine, Outlook::kExpected).terms;
    facts.seconds_again = micro_batch_seconds(longer);
    facts.device_again = micro_batch_seconds(longer, false);
  } catch (const OverflowError&) {
    facts.seconds = facts.seconds_again = 0;
  }
  return facts;
}

std::vector<GroupTime> LayoutReader::times_of_groups(const Layout& form,
                                                     const std::vector<AskedGroup>& groups) const {
  const bool again = std::any_of(groups.begin(), groups.end(),
                                 [](const AskedGroup& group) { return group.again; });
  std::unique_ptr<const Clocks> clocks;
  std::vector<GroupTime> times;
  for (const AskedGroup& group : groups) times.push_back(time_of_group(form, group, again, clocks));
  return times;
}

GroupTime LayoutReader::time_of_group(const Layout& form, const AskedGroup& group, bool again,
                                      std::unique_ptr<const Clocks>& clocks) const {
  GroupTime time;
  try {
    Layout whole = form;
    whole.data = group.first->data;
    whole.zero_stage = group.first->zero_stage;
    whole.replicate = group.first->replicate;
    const ReadJob read = job_of_form(whole);
    if (!read) return time;  // bounds nothing
    time.alike = read->model->kinds.size() == 1;
    const Device& device = *read->cluster.device;
    const Machine* machine = usual_machine(device);
    if (machine == nullptr) return time;
    const std::int64_t rounds = group.first->accumulation;
    const bool as_stages = read->engine == Engine::kFsdp2 && group.first->pipeline > 1 &&
                           run_.at(key_of(KeyId::kSyncEachMicroBatch).path) == nullptr;
    const auto with_rounds = [&](Job job) {
      if (as_stages) sync_as_stages(job.parallel);
      job.training.gradient_accumulation = rounds;
      job.training.global_batch *= rounds;
      return job;
    };
    const Job job = with_rounds(*read);
    if (!clocks) clocks = std::make_unique<const Clocks>(job, again);
    const auto measure = [&](const Job& timed, const StepClock& clock, GroupTime::Again& times_of) {
      const StepClock own(timed, clock);
      const StepTime answer = own.read(device, *machine, Outlook::kExpected);
      const auto times = static_cast<double>(rounds);
      times_of.micro = micro_batch_seconds(answer.terms) / times;
      times_of.device = micro_batch_seconds(answer.terms, false) / times;
      times_of.rest = std::max(0.0, answer.step.value() - times_of.micro * times);
      time.rest_beside_data = std::max(0.0, times_of.rest - answer.terms[TimeTerm::kData]);
      if (!group.splits) return;
      const StepClock::Passage passage = own.passage(device, *machine);
      times_of.forward = micro_batch_seconds(passage.forward, false);
      times_of.input = micro_batch_seconds(passage.input, false);
    };
    measure(job, *clocks->plain, time.none);
    time.all = time.none;
    if (group.again) measure(with_all_computed_again(job), *clocks->again, time.all);
  } catch (const OverflowError&) {
    return {};
  }
  return time;
}

}  // namespace steelyard
