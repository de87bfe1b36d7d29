#include "plan/layout_reader.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/stage_program.h"
#include "engine/units.h"
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

// Nobody asks a job of a search what it assumes, and each copy would carry it.
ReadJob without_words(ReadJob job) {
  if (job) job->assumptions.clear();
  return job;
}

Job with_all_computed_again(Job job) {
  job.recompute = {};
  job.recompute.mode = RecomputeMode::kFull;
  return job;
}

// What stages may do without, and the units without it: a table that is used at both ends sums its gradients where both
// stand on one stage; on two stages each has its own.
double take_joint(const Job& job, std::vector<StepClock::OnUnit>& units) {
  if (!head_reads_embedding(*job.model) || units.empty()) return 0;
  PartSeconds& embedding = units.front().seconds;
  return std::exchange(embedding.input, 0.0) + std::exchange(embedding.weight, 0.0);
}

PassageTime passage_of(const Job& job, const StepClock& plain, const StepClock* again) {
  const Device& device = *job.cluster.device;
  const Machine* machine = job.cluster.machine.get();
  if (machine == nullptr) return {};
  PassageTime time;
  const TimeTerms terms = plain.read(device, *machine, Outlook::kExpected).terms;
  time.none = time.again = micro_batch_seconds(terms);
  time.none_on_device = time.again_on_device = micro_batch_seconds(terms, false);
  if (again != nullptr) {
    const TimeTerms longer = again->read(device, *machine, Outlook::kExpected).terms;
    time.again = micro_batch_seconds(longer);
    time.again_on_device = micro_batch_seconds(longer, false);
  }
  if (job.trains_in_part() || job.model->encoder_part) return time;
  time.units.none = plain.on_units_alone(device, *machine);
  time.units.all = again == nullptr ? time.units.none : again->on_units_alone(device, *machine);
  time.joint = take_joint(job, time.units.none);
  take_joint(job, time.units.all);
  return time;
}

PassageTime passage_of(const Job& job, StagePrograms<Checked>& programs, const Job* job_again,
                       StagePrograms<Checked>& again) {
  const StepClock plain(job, programs);
  if (job_again == nullptr) return passage_of(job, plain, nullptr);
  const StepClock longer(*job_again, again);
  return passage_of(job, plain, &longer);
}

}  // namespace

LayoutReader::LayoutReader(const Value& run, const PlanTarget& target, const Space& space,
                           const SearchHelp& help)
    : run_(run), target_(target), space_(space), help_(help), form_run_(run) {
  for (const KeyId id : kStageKeys) remove_path(form_run_, key_of(id).path);
  for (const KeyId id : {KeyId::kVirtualPipeline, KeyId::kSchedule, KeyId::kPipeline, KeyId::kData,
                         KeyId::kReplicate, KeyId::kZeroStage, KeyId::kReshard})
    remove_path(form_run_, key_of(id).path);
  undivided_run_ = form_run_;
  remove_path(undivided_run_, key_of(KeyId::kOverlapGather).path);
}

ReadJob LayoutReader::job_of(const Layout& layout) const {
  return without_words(help_.read(run_of(run_, layout, space_, target_.model->layers)));
}

bool LayoutReader::stages_are_stated() const {
  return std::any_of(kStageKeys.begin(), kStageKeys.end(),
                     [&](KeyId id) { return run_.at(key_of(id).path) != nullptr; });
}

ReadJob LayoutReader::job_of_form(const Layout& form) const {
  const Value& run = form.zero_stage == 0 ? undivided_run_ : form_run_;
  ReadJob job = without_words(help_.read(run_of(run, form, space_, target_.model->layers)));
  // Its kernels bound layouts with stages, whose labels torch's schedule hands over as they are wanted.
  if (job) job->labels_come_shifted = job->training.loss == LossKernel::kFusedLinear;
  return job;
}

FormFacts LayoutReader::facts_of(const Layout& base, const Job& job, bool timed) const {
  ReadJob again;
  const bool asks_again = base.recompute == RecomputeMode::kNone;
  if (asks_again) {
    Layout all = base;
    all.recompute = RecomputeMode::kFull;
    again = job_of_form(all);
  }
  if (!asks_again || !again) {
    StagePrograms<Checked> programs(job);
    FormFacts facts = memory_facts(job, programs, nullptr, nullptr);
    if (timed) facts.smallest = passage_of(job, programs, nullptr, programs);
    return facts;
  }
  // Graphs are drawn once; but where layers are adapted, other kinds of them may be computed again, and layers of two stacks
  // give one another other tensors.
  const bool shared =
      !job.trains_in_part() && !job.model->encoder_part && !computes_ends_again(*again);
  StagePrograms<Checked> drawn(*again, SlotDetail::kSums, shared);
  std::optional<StagePrograms<Checked>> apart;
  if (!shared) apart.emplace(job);
  StagePrograms<Checked>& plain = shared ? drawn : *apart;
  FormFacts facts = memory_facts(job, plain, &*again, &drawn);
  if (timed) facts.smallest = passage_of(job, plain, &*again, drawn);
  return facts;
}

// Of layouts whose layers are not computed again the reader may refuse what it takes where they are.
bool LayoutReader::recomputes_what_it_refuses(Layout base) const {
  if (base.recompute != RecomputeMode::kNone) return false;
  base.recompute = RecomputeMode::kFull;
  return job_of_form(base).has_value();
}

FormFacts LayoutReader::facts_of(const Layout& base, bool timed) const {
  FormFacts facts;
  try {
    if (const ReadJob job = job_of_form(base)) {
      facts = facts_of(base, *job, timed);
      Layout twice = base;
      twice.micro_batch *= 2;
      const bool open = run_.at(key_of(KeyId::kMicroBatch).path) == nullptr;
      if (open && keeps_copies_of_weights(*job))
        if (const ReadJob wider = job_of_form(twice))
          facts.keep_growth(facts_of(twice, *wider, false));
    } else if (!recomputes_what_it_refuses(base)) {
      facts = refused(job.error().front());
    }  // else nothing is bounded: each layout is asked
  } catch (const OverflowError&) {
    facts = {};  // bounds nothing; the layout itself will be refused
  }
  facts.micro_batch = base.micro_batch;
  return facts;
}

// A job, and the same with every layer computed again; graphs are drawn once.
struct LayoutReader::Clocks {
  Clocks(Job asked, bool with_again)
      : job(std::move(asked)),
        all(with_again ? with_all_computed_again(job) : job),
        shared(with_again && job.recompute.mode == RecomputeMode::kNone &&
               !job.model->encoder_part && !computes_ends_again(all)) {
    StagePrograms<Checked> programs(shared ? all : job, SlotDetail::kSums, shared);
    plain.emplace(job, programs);
    if (shared)
      again.emplace(all, programs);
    else if (with_again)
      again.emplace(all);
  }
  void settle(const Device& device, const Machine& machine) {
    plain->settle(device, machine);
    if (again) again->settle(device, machine);
  }
  const Job job, all;
  const bool shared;
  std::optional<StepClock> plain, again;
};

PassageTime LayoutReader::time_of(const Layout& form, bool again) const {
  try {
    const ReadJob job = job_of_form(form);
    if (!job) return {};
    const Clocks clocks(*job, again);
    return passage_of(*job, *clocks.plain, again ? &*clocks.again : nullptr);
  } catch (const OverflowError&) {
    return {};
  }
}

std::vector<std::shared_ptr<const GroupTime>> LayoutReader::times_of_groups(
    const Layout& form, const std::vector<AskedGroup>& groups) const {
  // Orders of micro-batches make several groups of the same data ranks.
  struct Alike {
    AskedGroup group;
    std::shared_ptr<const GroupTime> time;
  };
  const auto key_of = [](const Layout& layout) {
    return std::tuple(layout.data, layout.zero_stage, layout.replicate, layout.accumulation);
  };
  std::map<decltype(key_of(form)), Alike> alike;
  bool again = false;
  for (const AskedGroup& group : groups) {
    AskedGroup& asked = alike[key_of(group.first)].group;
    asked = {group.first, asked.again || group.again, asked.splits || group.splits};
    again = again || group.again;
  }
  std::unique_ptr<Clocks> clocks;
  for (auto& [key, one] : alike)
    one.time = std::make_shared<const GroupTime>(time_of_group(form, one.group, again, clocks));
  std::vector<std::shared_ptr<const GroupTime>> times;
  for (const AskedGroup& group : groups) times.push_back(alike.at(key_of(group.first)).time);
  return times;
}

GroupTime LayoutReader::time_of_group(const Layout& form, const AskedGroup& group, bool again,
                                      std::unique_ptr<Clocks>& clocks) const {
  GroupTime time;
  try {
    Layout whole = form;
    whole.data = group.first.data;
    whole.zero_stage = group.first.zero_stage;
    whole.replicate = group.first.replicate;
    ReadJob read = job_of_form(whole);
    if (!read) return time;  // bounds nothing
    time.alike =
        read->model->kinds.size() == 1 && !computes_ends_again(with_all_computed_again(*read));
    const Device& device = *read->cluster.device;
    const Machine* machine = read->cluster.machine.get();
    if (machine == nullptr) return time;
    const std::int64_t rounds = group.first.accumulation;
    const bool as_stages = read->engine == Engine::kFsdp2 && group.first.pipeline > 1 &&
                           run_.at(key_of(KeyId::kSyncEachMicroBatch).path) == nullptr;
    const auto with_rounds = [&](Job job) {
      if (as_stages) sync_as_stages(job.parallel);
      job.training.gradient_accumulation = rounds;
      job.training.global_batch *= rounds;
      return job;
    };
    const Job job = with_rounds(std::move(*read));
    if (!clocks) {
      clocks = std::make_unique<Clocks>(job, again);
      clocks->settle(device, *machine);
    }
    // Where layers are adapted, other kinds of them may be computed again.
    const bool has_units =
        group.first.pipeline > 1 && !job.trains_in_part() && !job.model->encoder_part;
    std::vector<StepClock::OnUnit> units, split_units;
    const auto measure = [&](const Job& timed, const StepClock& clock, GroupTime::Again& times_of) {
      const StepClock own(timed, clock);
      const StepTime answer = own.read(device, *machine, Outlook::kExpected);
      const auto times = static_cast<double>(rounds);
      times_of.micro = micro_batch_seconds(answer.terms) / times;
      times_of.device = micro_batch_seconds(answer.terms, false) / times;
      times_of.rest = std::max(0.0, answer.step.value() - times_of.micro * times);
      time.rest_beside_data = std::max(0.0, times_of.rest - answer.terms[TimeTerm::kData]);
      if (has_units) {
        units = own.on_units(device, *machine, false);
        const double joint = take_joint(timed, units);
        times_of.micro -= joint;
        times_of.device -= joint;
      }
      double joint_input = 0;
      if (has_units && group.splits) {
        split_units = own.on_units(device, *machine, true);
        joint_input = take_joint(timed, split_units);
      }
      if (!group.splits) return;
      const StepClock::Passage passage = own.passage(device, *machine);
      times_of.forward = micro_batch_seconds(passage.forward, false);
      times_of.input = std::max(0.0, micro_batch_seconds(passage.input, false) - joint_input);
    };
    measure(job, *clocks->plain, time.none);
    time.all = time.none;
    time.units = {units, units};
    time.split_units = {split_units, split_units};
    if (group.again) {
      measure(with_all_computed_again(job), *clocks->again, time.all);
      time.units.all = std::move(units);
      time.split_units.all = std::move(split_units);
    }
    if (!has_units) return time;
    const StepClock own(job, *clocks->plain);
    time.send = own.seconds_of_a_send(device, *machine);
    time.end.emplace(own.end(device, *machine));
  } catch (const OverflowError&) {
    return {};
  }
  return time;
}

}  // namespace steelyard
