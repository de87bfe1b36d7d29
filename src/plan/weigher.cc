#include "plan/weigher.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "plan/fewest_recomputed.h"
#include "predict/prepared_job.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

// Forms that are remembered with their graphs, some 100 KB each.
constexpr std::ptrdiff_t kMostDrawn = 256;
// More layouts of one form are given to several workers; each draws it again, which takes as long as some layouts.
constexpr std::size_t kOfOneWorker = 128;
// A layout takes so many times as long to weigh as a group takes to be timed, about.
constexpr std::size_t kTimesOfGroup = 4;

// What is the same for all layouts whose graphs are the same (predict/prepared_job.h). `ends_again`: with all layers computed
// again the ends are, too, and their graphs are others.
auto drawn_key(const Layout& l, bool ends_again) {
  const bool all_again = l.recompute == RecomputeMode::kFull ||
                         (l.recompute == RecomputeMode::kEvery && l.recomputed == 1);
  return std::tuple(ends_again && all_again, l.engine, l.implementation, l.loss,
                    l.sequence_parallel, l.context_method, l.zero_stage, l.recipe,
                    recomputes_layers(l.recompute) ? RecomputeMode::kFull : l.recompute, l.tensor,
                    l.context, l.expert, l.expert_tensor, l.micro_batch, l.pipeline > 1, l.data > 1,
                    l.accumulation > 1);
}

// And of those that one prepared job takes in turn. Of what its nodes hold the one that changes least comes first.
auto prepared_key(const Layout& l) {
  return std::tuple(l.data, l.replicate, l.pipeline, l.schedule, l.chunks, l.recompute,
                    l.accumulation);
}
bool is_prepared_as(const Layout& a, const Layout& b) {
  return a.data == b.data && a.replicate == b.replicate && a.pipeline == b.pipeline;
}

}  // namespace

// Of layouts whose graphs are the same.
struct Weigher::Drawn {
  std::optional<PreparedForm> form;  // of the last kMostDrawn
  std::optional<FormSwings> swings;
  std::optional<PreparedJob> prepared;
  Layout prepared_for;

  PreparedJob& prepare(const Job& job, const Layout& layout) {
    if (prepared && is_prepared_as(prepared_for, layout))
      prepared->turn_to(job);
    else
      prepared.emplace(job, *form);
    prepared_for = layout;
    return *prepared;
  }
};

// By what is the same, and which of the workers that have a part of the layouts.
struct Weigher::Forms {
  using Key = std::pair<decltype(drawn_key(Layout(), false)), std::size_t>;
  std::map<Key, Drawn> by_key;
};

Weigher::Weigher(const PlanTarget& target, const Space& space, const SearchWish& wish,
                 const LayoutReader& reader, const std::vector<FormFacts>& facts)
    : target_(target),
      space_(space),
      wish_(wish),
      reader_(reader),
      facts_(facts),
      forms_(std::make_unique<Forms>()) {}
Weigher::~Weigher() = default;

void Weigher::weigh(const std::vector<Asked>& which, const Findings& found,
                    std::vector<LayoutOutcome>& answers, Tasks& tasks) {
  auto& forms = forms_->by_key;
  const auto drawn = std::count_if(forms.begin(), forms.end(),
                                   [](const auto& form) { return form.second.form.has_value(); });
  if (drawn > kMostDrawn)
    for (auto& [key, form] : forms) form.form.reset();
  std::map<Forms::Key, std::vector<std::size_t>> by_form;
  std::map<decltype(drawn_key(Layout(), false)), std::size_t> alike;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const FormFacts& facts = facts_[space_.base_of[space_.form_of(which[i].layout)]];
    const auto key = drawn_key(space_.layout(which[i].layout), facts.ends_again);
    by_form[{key, alike[key]++ / kOfOneWorker}].push_back(i);
  }
  answers.resize(which.size());
  for (auto& [key, members] : by_form) {
    std::sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
      return prepared_key(space_.layout(which[a].layout)) <
             prepared_key(space_.layout(which[b].layout));
    });
    const std::size_t work = members.size() * kTimesOfGroup;
    tasks.add(work,
              [this, &which, &found, &answers, &form = forms[key], mine = std::move(members)] {
                Bounds bounds(target_, reader_.stages_are_stated());
                for (const std::size_t i : mine) {
                  answers[i].skipped = reader_.is_out_of_time();
                  if (!answers[i].skipped) answers[i] = weigh(which[i], form, bounds, found);
                }
                form.prepared.reset();
              });
  }
}

Fate Weigher::fate_of(const LayoutNeed& need) const {
  if (need.fits) return Fate::kFits;
  const bool may_fit =
      need.device <= target_.device->capacity && need.on_host != Verdict::kDoesNotFit;
  return may_fit ? Fate::kTight : Fate::kTooLarge;
}

// As few layers as do as well as the most of them, and so take the least time. The job is left with them.
std::int32_t Weigher::choose_recomputed(Job& job, const Layout& layout, PreparedJob& prepared,
                                        Fate fate, LayoutNeed& need) const {
  const auto fits = [&](std::int32_t layers) {
    job.recompute.layers = Layers(layers);
    prepared.turn_to(job);
    const LayoutNeed here = prepared.need();
    if (fate_of(here) < fate) return false;
    need = here;
    return true;
  };
  std::int32_t fewest = layout.least_recomputed;
  if (wish_.everything)  // the judge asks every number
    while (fewest < layout.recomputed && !fits(fewest)) ++fewest;
  else
    fewest = fewest_recomputed(layout.least_recomputed, layout.recomputed, fits);
  job.recompute.layers = Layers(fewest);
  prepared.turn_to(job);
  return fewest;
}

LayoutOutcome Weigher::weigh(const Asked& asked, Drawn& drawn, Bounds& bounds,
                             const Findings& found) const {
  LayoutOutcome weighing;
  WeighedLayout& answer = weighing.answer;
  answer.layout = asked.layout;
  const Layout& layout = space_.layout(asked.layout);
  const auto refused = [&](const ReadJob& job) {
    answer.fate = Fate::kNotAllowed;
    weighing.code = job.error().front().code;
    weighing.words = job.error().front().message;
    return weighing;
  };
  try {
    std::optional<ReadJob> job;
    const auto draw = [&] {
      if (!job) job.emplace(reader_.job_of(layout));
      if (*job && !drawn.form) drawn.form.emplace(**job);
      return job->has_value();
    };
    if (!drawn.swings) {
      if (!draw()) return refused(*job);
      drawn.swings.emplace(**job, *drawn.form->drawn());
    }
    const FormFacts& facts = facts_[space_.base_of[space_.form_of(asked.layout)]];
    const Bounds::Need least = bounds.least_need(layout, facts, *drawn.swings);
    answer.least_bytes = least.device;
    answer.least_high = least.high;
    const double usable = static_cast<double>(target_.device->capacity.value().value());
    if (least.device > usable && !wish_.everything) {
      answer.fate = Fate::kTooLarge;
      answer.certain = true;
      answer.bytes = static_cast<std::int64_t>(least.device);
      return weighing;
    }
    // It does not fit for certain; among those that nearly do, a faster one is known.
    if (least.high > usable && found.is_slower_than_tight(asked.seconds)) return weighing;
    const bool only_if_it_fits = found.is_slower_than_fit(asked.seconds);
    if (least.high > usable && only_if_it_fits) return weighing;
    if (!draw()) return refused(*job);
    PreparedJob& prepared = drawn.prepare(**job, layout);
    LayoutNeed need = only_if_it_fits ? prepared.need_if_it_fits() : prepared.need();
    if (only_if_it_fits && fate_of(need) == Fate::kTight) return weighing;
    answer.fate = fate_of(need);
    if (layout.least_recomputed > 0) {
      answer.recomputed = layout.recomputed;
      if (answer.fate != Fate::kTooLarge && !wish_.first_that_fits)
        answer.recomputed = choose_recomputed(**job, layout, prepared, answer.fate, need);
    }
    answer.bytes = need.device.value().value();
    answer.high = need.high.value().value();
    answer.pipeline = need.pipeline;
    answer.binds = need.binds;
    if (need.on_host == Verdict::kDoesNotFit && need.device <= target_.device->capacity)
      answer.over_host = (need.host - prepared.host_memory()).value().value();
    if (answer.fate == Fate::kTooLarge || (wish_.first_that_fits && !need.fits)) return weighing;
    if (const auto step = prepared.step()) answer.seconds = step->value();
  } catch (const OverflowError& fault) {
    answer.fate = Fate::kNotAllowed;
    weighing.code = "E107";
    weighing.words = fault.what();
    drawn.prepared.reset();
  }
  return weighing;
}

}  // namespace steelyard
