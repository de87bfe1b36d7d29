#include "plan/layout_reader.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

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

FormFacts LayoutReader::time_of(const Layout& form, bool again) const {
  FormFacts facts;
  try {
    const ReadJob job = job_of_form(form);
    if (!job) return refused(job.error().front());
    facts.alike = job->model->kinds.size() == 1;
    const auto time = expected_time(*job);
    if (!time) return facts;
    facts.seconds = facts.seconds_again = micro_batch_seconds(time->terms);
    facts.device = facts.device_again = micro_batch_seconds(time->terms, false);
    if (!again) return facts;
    if (const auto longer = expected_time(with_all_computed_again(*job))) {
      facts.seconds_again = micro_batch_seconds(longer->terms);
      facts.device_again = micro_batch_seconds(longer->terms, false);
    }
  } catch (const OverflowError&) {
    facts.seconds = facts.seconds_again = 0;
  }
  return facts;
}

struct LayoutReader::Clocks {
  std::optional<StepClock> plain, again;
};

std::vector<GroupTime> LayoutReader::times_of_groups(const Layout& form,
                                                     const std::vector<AskedGroup>& groups) const {
  Clocks clocks;
  std::vector<GroupTime> times;
  for (const AskedGroup& group : groups) times.push_back(time_of_group(form, group, clocks));
  return times;
}

GroupTime LayoutReader::time_of_group(const Layout& form, const AskedGroup& group,
                                      Clocks& clocks) const {
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
    const auto measure = [&](Job job, std::optional<StepClock>& clock, GroupTime::Again& again) {
      if (as_stages) sync_as_stages(job.parallel);
      job.training.gradient_accumulation = rounds;
      job.training.global_batch *= rounds;
      if (!clock) clock.emplace(job);
      const StepClock own(job, *clock);
      const StepTime answer = own.read(device, *machine, Outlook::kExpected);
      const auto times = static_cast<double>(rounds);
      again.micro = micro_batch_seconds(answer.terms) / times;
      again.device = micro_batch_seconds(answer.terms, false) / times;
      again.rest = std::max(0.0, answer.step.value() - again.micro * times);
      time.rest_beside_data = std::max(0.0, again.rest - answer.terms[TimeTerm::kData]);
      if (!group.splits) return;
      const StepClock::Passage passage = own.passage(device, *machine);
      again.forward = micro_batch_seconds(passage.forward, false);
      again.input = micro_batch_seconds(passage.input, false);
    };
    measure(*read, clocks.plain, time.none);
    time.all = time.none;
    if (group.again) measure(with_all_computed_again(*read), clocks.again, time.all);
  } catch (const OverflowError&) {
    return {};
  }
  return time;
}

}  // namespace steelyard
