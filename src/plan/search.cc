#include "plan/search.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>

#include "plan/cells.h"
#include "plan/findings.h"
#include "plan/layout_reader.h"
#include "plan/weigher.h"

namespace steelyard {
namespace {

// Weighed between two looks at the bounds. Fixed, so that the answer does not depend on the number of workers.
constexpr std::size_t kBatch = 128;
// Layouts whose bounds one piece of work asks for.
constexpr std::size_t kPiece = 16384;

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
        weigher_(target, space, wish, help, reader_, memory_),
        cells_(space.layouts) {}

  SearchResult operator()() {
    found_.counts.layouts = static_cast<std::int64_t>(space_.layouts.size());
    bound_memory();
    bound_time();
    if (wish_.first_that_fits) sort_by_likelihood();
    form_groups();
    weigh_in_batches();
    return found_.result();
  }

 private:
  struct Open {
    std::uint32_t layout = 0;
    double seconds = 0, bytes = 0;  // at least
  };

  // A base is asked once for what its layers keep; that bounds the memory of every layout that has it.
  void bound_memory() {
    std::vector<FormFacts>& facts = memory_;
    facts.resize(space_.bases.size());
    help_.share(facts.size(),
                [&](std::size_t i) { facts[i] = reader_.memory_of(space_.bases[i]); });
    const double usable = static_cast<double>(target_.device->capacity.value().value());
    std::vector<double> least(space_.layouts.size(), 0.0);
    help_.share((least.size() + kPiece - 1) / kPiece, [&](std::size_t piece) {
      Bounds bounds(target_, stages_are_stated_);
      const std::size_t end = std::min(least.size(), (piece + 1) * kPiece);
      for (std::size_t i = piece * kPiece; i < end; ++i) {
        const std::uint32_t base = space_.base_of[space_.form_of[i]];
        if (facts[base].code.empty())
          least[i] =
              bounds.least_bytes(space_.layouts[i], facts[base], space_.bases[base].micro_batch);
      }
    });
    for (std::uint32_t i = 0; i < least.size(); ++i) {
      const FormFacts& here = facts[space_.base_of[space_.form_of[i]]];
      if (wish_.everything || (here.code.empty() && least[i] <= usable))
        open_.push_back({i, 0, least[i]});
      else if (here.code.empty())
        found_.exclude(i, least[i] - usable);
      else
        found_.refuse(here.code, here.words);
    }
  }

  void bound_time() {
    if (wish_.first_that_fits) return;
    // 1: nothing, 2: whole layers are computed again, too
    std::vector<char> needed(space_.forms.size(), 0);
    for (const Open& open : open_) {
      char& need = needed[space_.form_of[open.layout]];
      const bool again = recomputes_layers(space_.layouts[open.layout].recompute);
      need = std::max(need, static_cast<char>(again ? 2 : 1));
    }
    std::vector<std::uint32_t> forms;
    for (std::uint32_t i = 0; i < needed.size(); ++i)
      if (needed[i] != 0) forms.push_back(i);
    found_.counts.forms = static_cast<std::int64_t>(forms.size());
    std::vector<FormFacts> facts(space_.forms.size());
    help_.share(forms.size(), [&](std::size_t at) {
      const std::uint32_t i = forms[at];
      facts[i] = reader_.time_of(space_.forms[i], needed[i] == 2);
    });
    std::erase_if(open_, [&](Open& open) {
      const FormFacts& here = facts[space_.form_of[open.layout]];
      if (!here.code.empty() && !wish_.everything) {
        found_.refuse(here.code, here.words);
        return true;
      }
      open.seconds = bounds_.least_seconds(space_.layouts[open.layout], here);
      return false;
    });
  }

  // Most likely to fit first: much computed again, small micro-batches, little held.
  void sort_by_likelihood() {
    const auto likely = [&](const Open& open) {
      const Layout& layout = space_.layouts[open.layout];
      return std::tuple(layout.recompute != RecomputeMode::kFull, layout.micro_batch,
                        layout.loss == LossKernel::kPlain, open.bytes, open.layout);
    };
    std::sort(open_.begin(), open_.end(),
              [&](const Open& a, const Open& b) { return likely(a) < likely(b); });
  }

  // Layouts with the same form and data ranks, asked for their time together when the first of them has its turn.
  struct Group {
    std::uint32_t first = 0;             // the group's own layout stands for it
    std::vector<std::uint32_t> members;  // of open_
    double seconds = Findings::kNever;
    bool again = false, splits = false;  // some of them compute layers again, or split backward
    std::uint32_t family = 0;
    std::optional<GroupTime> time;
  };
  // Groups with the same kernels.
  using FamilyKey = std::tuple<std::uint32_t, std::uint8_t, bool>;
  // What most runs are comes first: a good answer early excludes more of the rest.
  static bool is_unusual(const Layout& layout) {
    return layout.chunks > 1 || layout.replicate > 1 || layout.micro_batch > 4 ||
           layout.schedule != PipelineSchedule::kOneForwardOneBackward ||
           (layout.context > 1 && layout.context_method == ContextMethod::kUlysses);
  }
  struct Turn {
    double seconds = 0;
    bool unusual = false;
    bool group = false;
    std::uint32_t at = 0;  // of groups_, or of open_
    // Least first; a group before the layouts that it may hold.
    friend bool operator<(const Turn& a, const Turn& b) {
      return std::tuple(b.unusual, b.seconds, a.group, b.at) <
             std::tuple(a.unusual, a.seconds, b.group, a.at);
    }
  };

  bool has_cells() const { return !wish_.everything && !wish_.first_that_fits; }

  void form_groups() {
    if (wish_.first_that_fits) {
      for (std::uint32_t i = 0; i < open_.size(); ++i)
        turns_.push({static_cast<double>(i), false, false, i});
      return;
    }
    using Key = std::tuple<std::uint32_t, std::int32_t, std::uint8_t, std::int32_t, bool>;
    std::map<Key, std::uint32_t> known;
    std::map<FamilyKey, std::uint32_t> families;
    Key last{};
    std::uint32_t group_of_last = 0;
    for (std::uint32_t i = 0; i < open_.size(); ++i) {
      const Layout& layout = space_.layouts[open_[i].layout];
      if (has_cells()) cells_.add(open_[i].layout);
      const Key key{space_.form_of[open_[i].layout], layout.data, layout.zero_stage,
                    layout.replicate, is_unusual(layout)};
      if (i == 0 || key != last) {
        const auto [at, fresh] = known.try_emplace(key, static_cast<std::uint32_t>(groups_.size()));
        if (fresh) {
          const FamilyKey kernels{space_.form_of[open_[i].layout], layout.zero_stage,
                                  layout.accumulation == 1};
          const auto family =
              families.try_emplace(kernels, static_cast<std::uint32_t>(families.size())).first;
          families_.resize(families.size());
          families_[family->second].push_back(at->second);
          groups_.push_back(
              {open_[i].layout, {}, Findings::kNever, false, false, family->second, {}});
        }
        group_of_last = at->second;
        last = key;
      }
      Group& group = groups_[group_of_last];
      group.members.push_back(i);
      group.seconds = std::min(group.seconds, open_[i].seconds);
      group.again = group.again || recomputes_layers(layout.recompute);
      group.splits =
          group.splits || (layout.pipeline > 1 && order_of(layout.schedule).splits_backward);
    }
    for (std::uint32_t i = 0; i < groups_.size(); ++i)
      turns_.push({groups_[i].seconds, is_unusual(space_.layouts[groups_[i].first]), true, i});
    found_.counts.groups = static_cast<std::int64_t>(groups_.size());
    found_.counts.cells = static_cast<std::int64_t>(cells_.count());
  }

  std::int64_t held_by(const Turn& turn) const {
    return turn.group ? static_cast<std::int64_t>(groups_[turn.at].members.size()) : 1;
  }

  // What comes next, up to a batch of each: layouts and groups that have their turn, and those that must be asked before.
  struct Batch {
    std::vector<Turn> groups, waiting;
    std::vector<std::uint32_t> layouts, first;  // of open_
    bool is_full() const {
      return groups.size() == kBatch || layouts.size() == kBatch || first.size() == kBatch;
    }
  };

  Batch next_batch() {
    const double most = found_.limit();
    Batch batch;
    while (!turns_.empty() && !batch.is_full()) {
      const Turn turn = turns_.top();
      // No usual layout is left that can be wanted; the others have their turn.
      if (turn.seconds > most && turn.unusual) break;
      turns_.pop();
      if (turn.seconds > most ||
          (!turn.group && found_.is_beaten(open_[turn.at].seconds, open_[turn.at].bytes))) {
        found_.counts.cannot_be_faster += held_by(turn);
        continue;
      }
      if (turn.group) {
        batch.groups.push_back(turn);
      } else if (!has_cells()) {
        batch.layouts.push_back(turn.at);
      } else if (const WeighedLayout* leaner = cells_.too_large(turn.at)) {
        found_.exclude_like(*leaner);
      } else if (const auto before = cells_.asked_before(turn.at)) {
        batch.waiting.push_back(turn);
        if (std::find(batch.first.begin(), batch.first.end(), *before) == batch.first.end())
          batch.first.push_back(*before);
      } else {
        batch.layouts.push_back(turn.at);
      }
    }
    return batch;
  }

  void weigh_in_batches() {
    std::int64_t done = 0;
    for (;;) {
      const Batch batch = next_batch();
      if (batch.groups.empty() && batch.layouts.empty() && batch.first.empty()) break;
      ask_first(batch);
      time_groups(batch.groups);
      std::vector<std::uint32_t> unknown;
      for (const std::uint32_t at : batch.layouts)
        if (known_.count(at) == 0) unknown.push_back(at);
      keep(unknown, weigh(unknown, false), false);
      for (const std::uint32_t at : batch.layouts) {
        ++done;
        found_.take(known_.at(at));
        known_.erase(at);
      }
      if (help_.go_on && !help_.go_on({done, found_.counts.layouts, found_.best_seconds()})) {
        found_.interrupted = true;
        break;
      }
    }
    const double most = found_.limit();
    for (; !turns_.empty(); turns_.pop())
      (turns_.top().seconds > most ? found_.counts.cannot_be_faster : found_.counts.not_asked) +=
          held_by(turns_.top());
  }

  // Their answers are kept for their own turn.
  void ask_first(const Batch& batch) {
    keep(batch.first, weigh(batch.first, true), true);
    for (const Turn& turn : batch.waiting) turns_.push(turn);
    found_.counts.cells_asked += static_cast<std::int64_t>(batch.first.size());
  }
  std::vector<LayoutOutcome> weigh(const std::vector<std::uint32_t>& which, bool first) {
    std::vector<Weigher::Asked> asked;
    for (const std::uint32_t at : which) asked.push_back({open_[at].layout, open_[at].seconds});
    return weigher_.weigh(asked, first, found_);
  }
  void keep(const std::vector<std::uint32_t>& which, std::vector<LayoutOutcome> answers,
            bool first) {
    for (std::size_t i = 0; i < which.size(); ++i) {
      WeighedLayout& answer = answers[i].answer;
      answer.least_seconds = open_[which[i]].seconds;
      answer.least_bytes = std::max(answer.least_bytes, open_[which[i]].bytes);
      if (has_cells()) cells_.learn(which[i], answer);
      if (answer.fate != Fate::kOpen || !first) known_.emplace(which[i], std::move(answers[i]));
    }
  }

  // With those of their families that will have their turn for all that is known yet.
  void time_groups(const std::vector<Turn>& turns) {
    const double most = found_.limit();
    std::map<std::uint32_t, std::vector<std::uint32_t>> asked;  // by family
    for (const Turn& turn : turns) {
      const Group& group = groups_[turn.at];
      if (group.time || (most < Findings::kNever && asked.count(group.family) > 0)) continue;
      if (most == Findings::kNever) {
        asked[group.family].push_back(turn.at);
        continue;
      }
      for (const std::uint32_t other : families_[group.family])
        if (!groups_[other].time && groups_[other].seconds <= most)
          asked[group.family].push_back(other);
    }
    std::vector<const std::vector<std::uint32_t>*> work;
    for (const auto& [family, groups] : asked) work.push_back(&groups);
    help_.share(work.size(), [&](std::size_t i) {
      std::vector<LayoutReader::AskedGroup> groups;
      for (const std::uint32_t at : *work[i])
        groups.push_back(
            {&space_.layouts[groups_[at].first], groups_[at].again, groups_[at].splits});
      const Layout& form = space_.forms[space_.form_of[groups_[work[i]->front()].first]];
      const std::vector<GroupTime> times = reader_.times_of_groups(form, groups);
      for (std::size_t at = 0; at < times.size(); ++at) groups_[(*work[i])[at]].time = times[at];
    });
    for (const Turn& turn : turns) open_group(turn, *groups_[turn.at].time);
  }

  void open_group(const Turn& turn, const GroupTime& time) {
    ++found_.counts.groups_timed;
    Group& group = groups_[turn.at];
    for (const std::uint32_t member : group.members) {
      Open& open = open_[member];
      open.seconds =
          std::max(open.seconds, bounds_.least_seconds(space_.layouts[open.layout], time));
      turns_.push({open.seconds, turn.unusual, false, member});
    }
    group.members = {};
  }

  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  const SearchHelp& help_;
  const LayoutReader reader_;
  const bool stages_are_stated_;
  const Bounds bounds_;
  Findings found_;
  std::vector<FormFacts> memory_;  // by base
  Weigher weigher_;
  std::vector<Open> open_;
  std::vector<Group> groups_;
  std::vector<std::vector<std::uint32_t>> families_;        // of groups_
  Cells cells_;                                             // numbered as open_
  std::unordered_map<std::uint32_t, LayoutOutcome> known_;  // asked before their turn
  std::priority_queue<Turn> turns_;
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
  for (const auto& [path, value] : space.recipes[layout.recipe].keys) put(asked, path, value);
  return asked;
}

SearchResult search(const Value& run, const PlanTarget& target, const Space& space,
                    const SearchWish& wish, const SearchHelp& help) {
  return Search(run, target, space, wish, help)();
}

}  // namespace steelyard
