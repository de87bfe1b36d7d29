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
#include "predict/prepared_job.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

// Weighed between two looks at the bounds. Fixed, so that the answer does not depend on the number of workers.
constexpr std::size_t kBatch = 128;
// Layouts whose bounds one piece of work asks for.
constexpr std::size_t kPiece = 16384;
// Forms that are remembered, some 100 KB each.
constexpr std::size_t kMostDrawn = 256;

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
        found_(target, space, wish),
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
    std::vector<FormFacts> facts(space_.bases.size());
    help_.share(facts.size(),
                [&](std::size_t i) { facts[i] = reader_.memory_of(space_.bases[i]); });
    const double usable = static_cast<double>(target_.device->capacity.value().value());
    const bool stated = reader_.stages_are_stated();
    std::vector<double> least(space_.layouts.size(), 0.0);
    help_.share((least.size() + kPiece - 1) / kPiece, [&](std::size_t piece) {
      Bounds bounds(target_, stated);
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
    const Bounds bounds(target_, reader_.stages_are_stated());
    std::erase_if(open_, [&](Open& open) {
      const FormFacts& here = facts[space_.form_of[open.layout]];
      if (!here.code.empty() && !wish_.everything) {
        found_.refuse(here.code, here.words);
        return true;
      }
      open.seconds = bounds.least_seconds(space_.layouts[open.layout], here);
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
    bool again = false;  // some of them compute layers again
  };
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
    Key last{};
    std::uint32_t group_of_last = 0;
    for (std::uint32_t i = 0; i < open_.size(); ++i) {
      const Layout& layout = space_.layouts[open_[i].layout];
      if (has_cells()) cells_.add(open_[i].layout);
      const Key key{space_.form_of[open_[i].layout], layout.data, layout.zero_stage,
                    layout.replicate, is_unusual(layout)};
      if (i == 0 || key != last) {
        const auto [at, fresh] = known.try_emplace(key, static_cast<std::uint32_t>(groups_.size()));
        if (fresh) groups_.push_back({open_[i].layout, {}, Findings::kNever, false});
        group_of_last = at->second;
        last = key;
      }
      Group& group = groups_[group_of_last];
      group.members.push_back(i);
      group.seconds = std::min(group.seconds, open_[i].seconds);
      group.again = group.again || recomputes_layers(layout.recompute);
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
      keep(unknown, weigh(unknown));
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
    keep(batch.first, weigh(batch.first));
    for (const Turn& turn : batch.waiting) turns_.push(turn);
    found_.counts.cells_asked += static_cast<std::int64_t>(batch.first.size());
  }
  void keep(const std::vector<std::uint32_t>& which, std::vector<Weighing> answers) {
    for (std::size_t i = 0; i < which.size(); ++i) {
      WeighedLayout& answer = answers[i].answer;
      answer.least_seconds = open_[which[i]].seconds;
      answer.least_bytes = open_[which[i]].bytes;
      if (has_cells()) cells_.learn(which[i], answer);
      known_.emplace(which[i], std::move(answers[i]));
    }
  }

  void time_groups(const std::vector<Turn>& turns) {
    std::vector<GroupTime> times(turns.size());
    help_.share(turns.size(), [&](std::size_t i) {
      const Group& group = groups_[turns[i].at];
      times[i] = reader_.time_of_group(space_.forms[space_.form_of[group.first]],
                                       space_.layouts[group.first], group.again);
    });
    for (std::size_t i = 0; i < turns.size(); ++i) open_group(turns[i], times[i]);
  }

  void open_group(const Turn& turn, const GroupTime& time) {
    ++found_.counts.groups_timed;
    const Bounds bounds(target_, reader_.stages_are_stated());
    Group& group = groups_[turn.at];
    for (const std::uint32_t member : group.members) {
      Open& open = open_[member];
      open.seconds =
          std::max(open.seconds, bounds.least_seconds(space_.layouts[open.layout], time));
      turns_.push({open.seconds, turn.unusual, false, member});
    }
    group.members = {};
  }

  // What is the same for all layouts whose graphs are the same (predict/prepared_job.h).
  using DrawnKey = std::tuple<Engine, Implementation, LossKernel, bool, ContextMethod, std::uint8_t,
                              std::uint8_t, RecomputeMode, std::int32_t, std::int32_t, std::int32_t,
                              std::int32_t, std::int32_t, bool, bool, bool>;
  static DrawnKey drawn_key(const Layout& l) {
    return {l.engine,         l.implementation,
            l.loss,           l.sequence_parallel,
            l.context_method, l.zero_stage,
            l.recipe,         recomputes_layers(l.recompute) ? RecomputeMode::kFull : l.recompute,
            l.tensor,         l.context,
            l.expert,         l.expert_tensor,
            l.micro_batch,    l.pipeline > 1,
            l.data > 1,       l.accumulation > 1};
  }

  // Those of one form by one worker, one after the other. `which`: of open_.
  std::vector<Weighing> weigh(const std::vector<std::uint32_t>& which) {
    if (drawn_.size() > kMostDrawn) drawn_.clear();
    std::map<DrawnKey, std::vector<std::size_t>> by_form;
    for (std::size_t i = 0; i < which.size(); ++i)
      by_form[drawn_key(space_.layouts[open_[which[i]].layout])].push_back(i);
    std::vector<std::pair<std::optional<PreparedForm>*, const std::vector<std::size_t>*>> work;
    for (const auto& [key, members] : by_form) work.emplace_back(&drawn_[key], &members);
    std::vector<Weighing> answers(which.size());
    help_.share(work.size(), [&](std::size_t at) {
      for (const std::size_t i : *work[at].second)
        answers[i] = weigh(open_[which[i]].layout, *work[at].first);
    });
    return answers;
  }

  Weighing weigh(std::uint32_t at, std::optional<PreparedForm>& form) const {
    Weighing weighing;
    WeighedLayout& answer = weighing.answer;
    answer.layout = at;
    try {
      const ReadJob job = reader_.job_of(space_.layouts[at]);
      if (!job) {
        answer.fate = Fate::kNotAllowed;
        weighing.code = job.error().front().code;
        weighing.words = job.error().front().message;
        return weighing;
      }
      if (!form) form.emplace(*job);
      PreparedJob prepared(*job, *form);
      const LayoutNeed need = prepared.need();
      answer.bytes = need.device.value().value();
      answer.high = need.high.value().value();
      answer.pipeline = need.pipeline;
      answer.binds = need.binds;
      const bool expected = need.device <= job->cluster.device->capacity;
      answer.fate = need.fits ? Fate::kFits : expected ? Fate::kTight : Fate::kTooLarge;
      if (answer.fate == Fate::kTooLarge || (wish_.first_that_fits && !need.fits)) return weighing;
      if (const auto step = prepared.step()) answer.seconds = step->value();
    } catch (const OverflowError& fault) {
      answer.fate = Fate::kNotAllowed;
      weighing.code = "E107";
      weighing.words = fault.what();
    }
    return weighing;
  }

  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  const SearchHelp& help_;
  const LayoutReader reader_;
  Findings found_;
  std::vector<Open> open_;
  std::vector<Group> groups_;
  Cells cells_;                                        // numbered as open_
  std::unordered_map<std::uint32_t, Weighing> known_;  // asked before their turn
  std::map<DrawnKey, std::optional<PreparedForm>> drawn_;
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
