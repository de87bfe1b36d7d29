#include "plan/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "plan/cells.h"
#include "plan/findings.h"
#include "plan/first_fit.h"
#include "plan/groups.h"
#include "plan/layout_reader.h"
#include "plan/tasks.h"
#include "plan/turns.h"
#include "plan/weigher.h"

namespace steelyard {
namespace {

// Weighed between two looks at the bounds. Fixed, so that the answer does not depend on the number of workers.
constexpr std::size_t kBatch = 128, kBatchUpToLimit = 256;
// Bundles whose bounds one piece of work asks for.
constexpr std::size_t kPiece = 1024;
// A micro-batch that is a multiple of all others is looked at up to here.
constexpr std::int64_t kWidest = std::int64_t{1} << 20;

void put(Value& run, const std::string& path, Value value) {
  Place place;
  place.source = "plan";
  value.set_mark(mark_of(place));
  set_path(run, path, std::move(value), place);
}

class Search {
 public:
  Search(const Value& run, const PlanTarget& target, const Space& space, const SearchWish& wish,
         const SearchHelp& help)
      : target_(target),
        space_(space),
        wish_(wish),
        help_(help),
        reader_(run, target, space, help),
        stages_are_stated_(reader_.stages_are_stated()),
        bounds_(target, stages_are_stated_),
        found_(target, space, wish),
        first_fit_(space, reader_, help, found_),
        weigher_(target, space, wish, reader_, facts_),
        open_(space) {}

  SearchResult operator()() {
    found_.counts.layouts = space_.size();
    found_.interrupted = space_.unfinished;
    if (!bound_memory()) return stopped();
    if (wish_.first_that_fits) {
      queue_by_likelihood();
    } else {
      bound_time();
      if (help_.is_out_of_time()) return stopped();
      form_groups();
    }
    if (help_.is_out_of_time()) return stopped();
    weigh_in_batches();
    if (wish_.first_that_fits) first_fit_.settle();
    return found_.result();
  }

 private:
  // A layout that has been taken out of its group.
  struct Opened {
    std::uint32_t layout = 0;
    double seconds = 0, bytes = 0;  // at least
  };

  // Before any layout was weighed.
  SearchResult stopped() {
    SearchCounts& counts = found_.counts;
    counts.not_asked = counts.layouts - counts.not_allowed - counts.certainly_too_large;
    found_.interrupted = true;
    return found_.result();
  }

  // A base is asked once for what its layers keep; that bounds the memory of every layout that has it. False: out of time,
  // and no layout was bounded.
  bool bound_memory() {
    std::vector<FormFacts>& facts = facts_;
    facts.resize(space_.bases.size());
    help_.share(facts.size(), [&](std::size_t i) {
      if (!help_.is_out_of_time())
        facts[i] = reader_.facts_of(space_.bases[i], !wish_.first_that_fits);
    });
    struct Excluded {
      std::int64_t layouts = 0;
      std::uint32_t nearest = 0;
      double least = Findings::kNever;
      std::map<std::uint32_t, std::int64_t> refused;  // by base
    };
    std::vector<Excluded> pieces((space_.bundles.size() + kPiece - 1) / kPiece);
    const double usable = static_cast<double>(target_.device->capacity.value().value());
    help_.share(pieces.size(), [&](std::size_t piece) {
      if (help_.is_out_of_time()) return;
      Bounds bounds(target_, stages_are_stated_);
      Excluded& excluded = pieces[piece];
      const std::size_t end = std::min(space_.bundles.size(), (piece + 1) * kPiece);
      for (std::size_t i = piece * kPiece; i < end; ++i) {
        const Bundle& bundle = space_.bundles[i];
        bound_bundle(bounds, bundle, [&](Choice choice, double bytes) {
          const std::uint32_t base = space_.base_of[space_.form_of(bundle, choice)];
          OpenLayouts::Bits& bits = open_.at(space_.slot_of(bundle, choice.round, choice.division));
          const bool refused = !facts[base].code.empty();
          if (wish_.everything || (!refused && bytes <= usable)) {
            bits |= static_cast<OpenLayouts::Bits>(1U << choice.recomputation);
          } else if (refused) {
            ++excluded.refused[base];
          } else {
            ++excluded.layouts;
            if (bytes >= excluded.least) return;
            excluded.least = bytes;
            excluded.nearest = space_.number_of(bundle, choice);
          }
        });
      }
    });
    if (help_.is_out_of_time()) return false;
    for (const Excluded& excluded : pieces) {
      if (excluded.layouts > 0)
        found_.exclude(excluded.nearest, excluded.least - usable, excluded.layouts);
      for (const auto& [base, layouts] : excluded.refused)
        found_.refuse(facts[base].code, facts[base].words, layouts);
    }
    return true;
  }

  // Calls `visit` with each choice of a bundle and its bytes at least.
  template <class Visit>
  void bound_bundle(Bounds& bounds, const Bundle& bundle, Visit visit) const {
    const auto& divisions = space_.divisions[bundle.divisions];
    Choice choice;
    for (; choice.recomputation < space_.recomputations[bundle.recomputations].size();
         ++choice.recomputation)
      for (choice.round = 0; choice.round < space_.rounds[bundle.rounds].size(); ++choice.round) {
        choice.division = 0;
        const std::uint32_t base = space_.base_of[space_.form_of(bundle, choice)];
        const FormFacts& facts = facts_[base];
        Layout layout = space_.layout(bundle, choice);
        const Bounds::Moments moments = bounds.moments_of(layout, facts);
        for (; choice.division < divisions.size(); ++choice.division) {
          layout.zero_stage = divisions[choice.division].zero_stage;
          layout.replicate = divisions[choice.division].replicate;
          visit(choice, Bounds::bytes_of(moments, bounds.held_by(layout, facts)));
        }
      }
  }

  // A base is timed with its smallest micro-batch, and with one that is a multiple of all others that are open: that bounds
  // the time of every layout that has it.
  void bound_time() {
    struct Wanted {
      bool again = false;       // whole layers are computed again, too
      std::int64_t widest = 0;  // micro-batch; 0: not wanted
    };
    std::vector<Wanted> wanted(space_.bases.size());
    std::vector<bool> open(space_.forms.size(), false);
    each_open([&](const Bundle& bundle, Choice choice) {
      const std::uint32_t form = space_.form_of(bundle, choice);
      const auto mode = space_.recomputations[bundle.recomputations][choice.recomputation].mode;
      Wanted& base = wanted[space_.base_of[form]];
      base.again = base.again || recomputes_layers(mode);
      if (open[form]) return;
      open[form] = true;
      const std::int64_t micro_batch = space_.forms[form].micro_batch;
      if (micro_batch != space_.bases[space_.base_of[form]].micro_batch)
        base.widest = std::lcm(std::max<std::int64_t>(1, base.widest), micro_batch);
    });
    std::vector<std::uint32_t> bases;
    for (std::uint32_t i = 0; i < wanted.size(); ++i)
      if (wanted[i].widest > 0 && wanted[i].widest <= kWidest) bases.push_back(i);
    help_.share(bases.size(), [&](std::size_t at) {
      if (help_.is_out_of_time()) return;
      const Wanted& base = wanted[bases[at]];
      FormFacts& facts = facts_[bases[at]];
      Layout form = space_.bases[bases[at]];
      form.micro_batch = static_cast<std::int32_t>(base.widest);
      facts.widest = reader_.time_of(form, base.again);
      facts.widest_micro_batch = base.widest;
    });
    found_.counts.bases = std::count_if(facts_.begin(), facts_.end(),
                                        [](const FormFacts& facts) { return facts.code.empty(); });
  }
  template <class Visit>
  void each_open(Visit visit) const {
    for (const Bundle& bundle : space_.bundles)
      open_.each(bundle, [&](Choice choice) { visit(bundle, choice); });
  }

  // Most likely to fit first: much computed again, small micro-batches, little held.
  void queue_by_likelihood() {
    each_open([&](const Bundle& bundle, Choice choice) {
      const FormFacts& facts = facts_[space_.base_of[space_.form_of(bundle, choice)]];
      opened_.push_back(
          {space_.number_of(bundle, choice), 0, least_bytes(space_.layout(bundle, choice), facts)});
    });
    const auto likely = [&](const Opened& opened) {
      const Layout layout = space_.layout(opened.layout);
      return std::tuple(layout.recompute != RecomputeMode::kFull, layout.micro_batch,
                        layout.loss == LossKernel::kPlain, opened.bytes, opened.layout);
    };
    std::sort(opened_.begin(), opened_.end(),
              [&](const Opened& a, const Opened& b) { return likely(a) < likely(b); });
    for (std::uint32_t i = 0; i < opened_.size(); ++i)
      turns_.add({static_cast<double>(i), false, false, i});
  }

  double least_bytes(const Layout& layout, const FormFacts& facts) {
    return facts.code.empty() ? bounds_.least_bytes(layout, facts) : 0;
  }

  void form_groups() {
    groups_.emplace(space_, open_, bounds_, facts_, help_);
    if (!wish_.everything) cells_.emplace(space_);
    for (std::uint32_t i = 0; i < groups_->all.size(); ++i)
      turns_.add({groups_->all[i].seconds, groups_->all[i].unusual, true, i});
    found_.counts.groups = static_cast<std::int64_t>(groups_->all.size());
  }

  std::int64_t held_by(const Turn& turn) const {
    return turn.group ? groups_->all[turn.at].layouts : 1;
  }

  // What comes next, up to a batch of each: layouts and groups that have their turn.
  struct Batch {
    std::vector<Turn> groups;
    std::vector<Opened> layouts;
  };

  Batch next_batch() {
    const double most = found_.limit();
    // Where a limit is known most of what has its turn before it will be asked anyway.
    const std::size_t full = most < Findings::kNever ? kBatchUpToLimit : kBatch;
    Batch batch;
    while (!turns_.empty() && batch.groups.size() < full && batch.layouts.size() < full) {
      const Turn turn = turns_.next();
      // No usual layout is left that can be wanted; the others have their turn.
      if (turn.seconds > most && turn.unusual) break;
      turns_.pop();
      if (turn.seconds > most ||
          (!turn.group && found_.is_beaten(opened_[turn.at].seconds, opened_[turn.at].bytes))) {
        found_.counts.cannot_be_faster += held_by(turn);
        continue;
      }
      const WeighedLayout* leaner = nullptr;
      if (turn.group)
        batch.groups.push_back(turn);
      else if (cells_ && (leaner = cells_->too_large(opened_[turn.at].layout)) != nullptr)
        found_.exclude_like(*leaner);
      else
        batch.layouts.push_back(opened_[turn.at]);
    }
    return batch;
  }

  void weigh_in_batches() {
    std::int64_t done = 0;
    for (;;) {
      const Batch batch = next_batch();
      if (batch.groups.empty() && batch.layouts.empty()) break;
      Tasks tasks(help_);
      const FamiliesAsked families = families_of(batch.groups);
      for (const auto& family : families)
        tasks.add(family.second.size(), [this, &groups = family.second] { time_family(groups); });
      std::vector<Weigher::Asked> asked;
      for (const Opened& one : batch.layouts) asked.push_back({one.layout, one.seconds});
      std::vector<LayoutOutcome> answers;
      weigher_.weigh(asked, found_, answers, tasks);
      tasks.run();
      for (const Turn& turn : batch.groups) open_group(turn, groups_->all[turn.at]);
      learn(batch.layouts, answers);
      done += static_cast<std::int64_t>(batch.layouts.size());
      const bool stops =
          help_.go_on && !help_.go_on({done, found_.counts.layouts, found_.best_seconds()});
      if (stops || help_.is_out_of_time()) {
        found_.interrupted = true;
        break;
      }
    }
    const double most = found_.limit();
    for (const Turn& turn : turns_.all())
      (turn.seconds > most ? found_.counts.cannot_be_faster : found_.counts.not_asked) +=
          held_by(turn);
  }

  void learn(const std::vector<Opened>& layouts, std::vector<LayoutOutcome>& answers) {
    for (std::size_t i = 0; i < layouts.size(); ++i) {
      WeighedLayout& answer = answers[i].answer;
      answer.least_seconds = layouts[i].seconds;
      answer.least_bytes = std::max(answer.least_bytes, layouts[i].bytes);
      if (cells_ && !answers[i].skipped) cells_->learn(answer);
    }
    if (wish_.first_that_fits)
      first_fit_.take(answers);
    else
      for (const LayoutOutcome& answer : answers) found_.take(answer);
  }

  // By family: groups that have their turn, with those of their families that will have it for all that is known yet.
  using FamiliesAsked = std::map<std::uint32_t, std::vector<std::uint32_t>>;
  FamiliesAsked families_of(const std::vector<Turn>& turns) const {
    const double most = found_.limit();
    FamiliesAsked asked;
    for (const Turn& turn : turns) {
      const LayoutGroup& group = groups_->all[turn.at];
      if (group.time || (most < Findings::kNever && asked.count(group.family) > 0)) continue;
      if (most == Findings::kNever) {
        asked[group.family].push_back(turn.at);
        continue;
      }
      for (const std::uint32_t other : groups_->families[group.family])
        if (!groups_->all[other].time && groups_->all[other].seconds <= most)
          asked[group.family].push_back(other);
    }
    return asked;
  }

  void time_family(const std::vector<std::uint32_t>& which) {
    if (help_.is_out_of_time()) return;
    std::vector<LayoutReader::AskedGroup> groups;
    for (const std::uint32_t at : which) {
      const LayoutGroup& group = groups_->all[at];
      groups.push_back({space_.layout(group.first), group.again, group.splits});
    }
    const Layout& form = space_.forms[groups_->all[which.front()].form];
    const auto times = reader_.times_of_groups(form, groups);
    for (std::size_t i = 0; i < times.size(); ++i) groups_->all[which[i]].time = times[i];
  }

  void open_group(const Turn& turn, const LayoutGroup& group) {
    if (!group.time) {  // the time was up
      found_.counts.not_asked += group.layouts;
      return;
    }
    ++found_.counts.groups_timed;
    const double most = found_.limit();
    const FormFacts& facts = facts_[space_.base_of[group.form]];
    groups_->each(group, [&](const Bundle& bundle, Choice choice) {
      const Layout layout = space_.layout(bundle, choice);
      double seconds = bounds_.least_seconds(layout, *group.time, most);
      // Its own stages tell more than what its base knows of them.
      if (layout.pipeline == 1 || !group.time->end)
        seconds = std::max(seconds, bounds_.least_seconds(layout, facts));
      if (seconds > most) {
        ++found_.counts.cannot_be_faster;
        return;
      }
      turns_.add({seconds, turn.unusual, false, static_cast<std::uint32_t>(opened_.size())});
      opened_.push_back({space_.number_of(bundle, choice), seconds, least_bytes(layout, facts)});
    });
  }

  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  const SearchHelp& help_;
  const LayoutReader reader_;
  const bool stages_are_stated_;
  Bounds bounds_;
  Findings found_;
  FirstFit first_fit_;
  std::vector<FormFacts> facts_;  // by base
  Weigher weigher_;
  OpenLayouts open_;
  std::optional<LayoutGroups> groups_;
  std::optional<Cells> cells_;
  std::vector<Opened> opened_;
  Turns turns_;
};

}  // namespace

SearchHelp serial_help() {
  SearchHelp help;
  help.read = [](const Value& run) { return read_job(run); };
  help.share = [](std::size_t count, const std::function<void(std::size_t)>& work) {
    for (std::size_t i = 0; i < count; ++i) work(i);
  };
  return help;
}

Value run_of(const Value& run, const Layout& layout, const Space& space, std::int64_t layers) {
  Value asked = run;
  for (auto& [id, value] : keys_of(layout, layers)) put(asked, key_of(id).path, std::move(value));
  if (const SearchedStack* stack = space.stack_of(layout))
    for (const auto& [path, value] : stack->keys) put(asked, path, value);
  for (const auto& [path, value] : space.recipes[layout.recipe].keys) put(asked, path, value);
  return asked;
}

SearchResult search(const Value& run, const PlanTarget& target, const Space& space,
                    const SearchWish& wish, const SearchHelp& help) {
  return Search(run, target, space, wish, help)();
}

}  // namespace steelyard
