#include "plan/search.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>

#include "quantity/checked.h"

namespace steelyard {
namespace {

// Weighed between two looks at the bounds. Fixed, so that the answer does not depend on the number of workers.
constexpr std::size_t kBatch = 128;
constexpr double kNever = std::numeric_limits<double>::infinity();

void put(Value& run, KeyId id, Value value) {
  Place place;
  place.source = "plan";
  value.set_mark(mark_of(place));
  set_path(run, key_of(id).path, std::move(value), place);
}

Pile largest_pile(const Prediction& prediction, const RankPrediction& rank) {
  (void)prediction;
  for (const PhasePrediction& phase : rank.phases)
    if (phase.phase == rank.phase)
      return static_cast<Pile>(
          std::max_element(phase.piles.bytes.begin(), phase.piles.bytes.end()) -
          phase.piles.bytes.begin());
  return Pile::kActivations;
}

struct Weighing {
  WeighedLayout answer;
  std::string code, words;  // when refused
};

class Search {
 public:
  Search(const Value& run, const PlanTarget& target, const Space& space, const SearchWish& wish,
         const SearchHelp& help)
      : run_(run), target_(target), space_(space), wish_(wish), help_(help) {}

  SearchResult operator()() {
    result_.counts.layouts = static_cast<std::int64_t>(space_.layouts.size());
    bound_memory();
    bound_time();
    order();
    weigh_in_batches();
    close();
    return std::move(result_);
  }

 private:
  struct Open {
    std::uint32_t layout = 0;
    double seconds = 0, bytes = 0;  // at least
  };
  std::int64_t layers() const { return target_.model->layers; }

  // A base is asked once for what its layers keep; that bounds the memory of every layout that has it.
  void bound_memory() {
    facts_of_base_.resize(space_.bases.size());
    help_.share(space_.bases.size(),
                [&](std::size_t i) { facts_of_base_[i] = memory_of(space_.bases[i]); });
    Bounds bounds(target_, stages_are_stated());
    const double usable = static_cast<double>(target_.device->capacity.value().value());
    open_.reserve(wish_.everything ? space_.layouts.size() : 0);
    for (std::uint32_t i = 0; i < space_.layouts.size(); ++i) {
      const Layout& layout = space_.layouts[i];
      const std::uint32_t base = space_.base_of[space_.form_of[i]];
      const FormFacts& facts = facts_of_base_[base];
      if (!facts.code.empty() && !wish_.everything) {
        refuse(facts.code, facts.words);
        continue;
      }
      const double least = bounds.least_bytes(layout, facts, space_.bases[base].micro_batch);
      if (least > usable && !wish_.everything) {
        ++result_.counts.certainly_too_large;
        const auto excess = static_cast<std::int64_t>(least - usable);
        if (certain_.layouts++ == 0 || excess < certain_.least_excess) {
          certain_.least_excess = excess;
          certain_.nearest = i;
        }
        continue;
      }
      open_.push_back({i, 0, least});
    }
    certain_.certain = true;
    certain_.binds = Pile::kActivations;
  }

  bool stages_are_stated() const {
    for (const KeyId id :
         {KeyId::kPipelineLayout, KeyId::kFirstStageLayers, KeyId::kLastStageLayers,
          KeyId::kCountEmbedding, KeyId::kCountLoss, KeyId::kPipelineGroup})
      if (run_.at(key_of(id).path) != nullptr) return true;
    return false;
  }

  FormFacts memory_of(const Layout& base) const {
    FormFacts facts;
    try {
      const ReadJob job = help_.read(form_run(base));
      if (!job) return refused(job.error().front());
      Layout all = base;
      all.recompute = RecomputeMode::kFull;
      ReadJob again = base.recompute == RecomputeMode::kNone
                          ? help_.read(form_run(all))
                          : ReadJob(tl::unexpected(Diagnostics{}));
      return memory_facts(*job, again ? &*again : nullptr);
    } catch (const OverflowError&) {
      return facts;  // bounds nothing; the layout itself will be refused
    }
  }

  static FormFacts refused(const Diagnostic& problem) {
    FormFacts facts;
    facts.code = problem.code;
    facts.words = problem.message;
    return facts;
  }

  // A form stands for itself: what the run file says about stages belongs to layouts that have them.
  Value form_run(const Layout& form) const {
    Value run = run_;
    for (const KeyId id :
         {KeyId::kPipelineLayout, KeyId::kFirstStageLayers, KeyId::kLastStageLayers,
          KeyId::kCountEmbedding, KeyId::kCountLoss, KeyId::kPipelineGroup, KeyId::kVirtualPipeline,
          KeyId::kSchedule, KeyId::kPipeline, KeyId::kData, KeyId::kReplicate, KeyId::kZeroStage,
          KeyId::kReshard})
      remove_path(run, key_of(id).path);
    return run_of(run, form, space_, layers());
  }

  void bound_time() {
    facts_of_form_.resize(space_.forms.size());
    if (wish_.first_that_fits) return;
    // 1: nothing, 2: whole layers are computed again, too
    std::vector<char> needed(space_.forms.size(), 0);
    for (const Open& open : open_) {
      const RecomputeMode mode = space_.layouts[open.layout].recompute;
      const bool again = mode == RecomputeMode::kFull || mode == RecomputeMode::kEvery ||
                         mode == RecomputeMode::kBlock;
      char& need = needed[space_.form_of[open.layout]];
      need = std::max(need, static_cast<char>(again ? 2 : 1));
    }
    std::vector<std::uint32_t> forms;
    for (std::uint32_t i = 0; i < needed.size(); ++i)
      if (needed[i] != 0) forms.push_back(i);
    result_.counts.forms = static_cast<std::int64_t>(forms.size());
    help_.share(forms.size(), [&](std::size_t at) {
      const std::uint32_t i = forms[at];
      facts_of_form_[i] = time_of(space_.forms[i], needed[i] == 2);
    });
  }

  FormFacts time_of(const Layout& form, bool with_again) const {
    FormFacts facts;
    try {
      const ReadJob job = help_.read(form_run(form));
      if (!job) return refused(job.error().front());
      facts.alike = job->model->kinds.size() == 1;
      const auto time = predict_time(*job);
      if (time) {
        facts.seconds = facts.seconds_again = micro_batch_seconds(*time);
        facts.device = facts.device_again = micro_batch_seconds(*time, false);
      }
      if (!with_again) return facts;
      Layout all = form;
      all.recompute = RecomputeMode::kFull;
      if (const ReadJob again = help_.read(form_run(all)))
        if (const auto longer = predict_time(*again))
          std::tie(facts.seconds_again, facts.device_again) =
              std::tuple(micro_batch_seconds(*longer), micro_batch_seconds(*longer, false));
    } catch (const OverflowError&) {
      facts.seconds = facts.seconds_again = 0;
    }
    return facts;
  }

  void order() {
    const Bounds bounds(target_, stages_are_stated());
    std::vector<Open> kept;
    kept.reserve(open_.size());
    for (Open& open : open_) {
      const FormFacts& facts = facts_of_form_[space_.form_of[open.layout]];
      if (!facts.code.empty() && !wish_.everything) {
        refuse(facts.code, facts.words);
        continue;
      }
      open.seconds = bounds.least_seconds(space_.layouts[open.layout], facts);
      kept.push_back(open);
    }
    open_ = std::move(kept);
    if (wish_.first_that_fits) {
      // Most likely to fit first: much computed again, small micro-batches, little held.
      const auto likely = [&](const Open& open) {
        const Layout& layout = space_.layouts[open.layout];
        return std::tuple(layout.recompute != RecomputeMode::kFull, layout.micro_batch,
                          layout.loss == LossKernel::kPlain, open.bytes, open.layout);
      };
      std::sort(open_.begin(), open_.end(),
                [&](const Open& a, const Open& b) { return likely(a) < likely(b); });
      return;
    }
  }

  void refuse(const std::string& code, const std::string& words) {
    ++result_.counts.not_allowed;
    Refusal& refusal = refusals_[code];
    refusal.code = code;
    if (refusal.words.empty()) refusal.words = words;
    ++refusal.layouts;
  }

  // The time above which no layout can be wanted.
  double limit() const {
    if (wish_.everything || wish_.front) return kNever;
    if (wish_.first_that_fits) return best_time_ < kNever ? -1 : kNever;
    if (unlike_.size() < wish_.best) return kNever;
    return std::max(unlike_.back().seconds, best_time_ * (1 + wish_.within));
  }
  // Whether something found is no slower and no larger than this can be.
  bool is_beaten(const Open& open) const {
    if (!wish_.front || wish_.everything) return false;
    return std::any_of(front_.begin(), front_.end(), [&](const auto& point) {
      return point.first < open.seconds && point.second < open.bytes;
    });
  }

  // Layouts that differ only in micro-batch, recomputation, the loss, and how far states are divided. The leanest of
  // them has the smallest micro-batch, everything computed again and divided: where it is too large, all of them are.
  // (More computed again never keeps more, more ranks never hold more, fewer sequences are never larger: the properties
  // that tests/exhaustive holds the predictor to. The judge of this search weighs the others all the same.)
  struct Cell {
    std::uint32_t leanest = 0;
    enum { kUnknown, kOpen, kTooLarge } state = kUnknown;
    WeighedLayout answer;
  };
  static auto leanness(const Layout& layout) {
    return std::tuple(layout.recompute != RecomputeMode::kFull, layout.micro_batch,
                      layout.loss == LossKernel::kPlain, -static_cast<int>(layout.zero_stage),
                      layout.replicate);
  }
  void form_cells() {
    if (wish_.everything || wish_.first_that_fits) return;
    using Key = std::tuple<Engine, Implementation, std::uint8_t, std::int32_t, bool, std::int32_t,
                           ContextMethod, std::int32_t, std::int32_t, std::int32_t, std::int32_t,
                           PipelineSchedule, bool>;
    std::map<Key, std::uint32_t> known;
    cell_of_.resize(open_.size());
    for (std::uint32_t i = 0; i < open_.size(); ++i) {
      const Layout& l = space_.layouts[open_[i].layout];
      // Stages with one data rank are another code path; recomputation must be among the choices to be the leanest.
      const auto [found, fresh] =
          known.try_emplace(Key{l.engine, l.implementation, l.recipe, l.tensor, l.sequence_parallel,
                                l.context, l.context_method, l.expert, l.expert_tensor, l.pipeline,
                                l.chunks, l.schedule, l.zero_stage == 0},
                            static_cast<std::uint32_t>(cells_.size()));
      if (fresh) cells_.push_back({open_[i].layout, Cell::kUnknown, {}});
      Cell& cell = cells_[found->second];
      if (leanness(l) < leanness(space_.layouts[cell.leanest])) cell.leanest = open_[i].layout;
      cell_of_[i] = found->second;
    }
    result_.counts.cells = static_cast<std::int64_t>(cells_.size());
  }
  // Nothing to learn from a layout that is its cell's leanest, or whose leanest keeps all activations as well.
  bool asks_first(std::uint32_t open) const {
    if (cell_of_.empty()) return false;
    const Cell& cell = cells_[cell_of_[open]];
    return cell.state == Cell::kUnknown && cell.leanest != open_[open].layout &&
           space_.layouts[cell.leanest].recompute == RecomputeMode::kFull;
  }
  bool is_dead(std::uint32_t open) const {
    return !cell_of_.empty() && cells_[cell_of_[open]].state == Cell::kTooLarge;
  }
  void bury(const WeighedLayout& leanest) {
    ++result_.counts.certainly_too_large;
    TooLarge& group = too_large_[leanest.binds];
    group.binds = leanest.binds;
    const std::int64_t excess = leanest.bytes - target_.device->capacity.value().value();
    if (group.layouts++ == 0 || excess < group.least_excess) {
      group.least_excess = excess;
      group.nearest = leanest.layout;
    }
  }

  // Layouts with the same form and data ranks, asked for their time together when the first of them has its turn.
  struct Group {
    std::uint32_t first = 0;             // the group's own layout stands for it
    std::vector<std::uint32_t> members;  // of open_
    double seconds = kNever;
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

  void form_groups() {
    std::map<std::tuple<std::uint32_t, std::int32_t, std::uint8_t, std::int32_t, bool>,
             std::uint32_t>
        known;
    for (std::uint32_t i = 0; i < open_.size(); ++i) {
      const Layout& layout = space_.layouts[open_[i].layout];
      if (wish_.first_that_fits) {
        turns_.push({static_cast<double>(i), false, false, i});
        continue;
      }
      const auto [found, fresh] =
          known.try_emplace({space_.form_of[open_[i].layout], layout.data, layout.zero_stage,
                             layout.replicate, is_unusual(layout)},
                            static_cast<std::uint32_t>(groups_.size()));
      if (fresh) groups_.push_back({open_[i].layout, {}, kNever});
      Group& group = groups_[found->second];
      group.members.push_back(i);
      group.seconds = std::min(group.seconds, open_[i].seconds);
    }
    for (std::uint32_t i = 0; i < groups_.size(); ++i)
      turns_.push({groups_[i].seconds, is_unusual(space_.layouts[groups_[i].first]), true, i});
    result_.counts.groups = static_cast<std::int64_t>(groups_.size());
  }

  std::int64_t held_by(const Turn& turn) const {
    return turn.group ? static_cast<std::int64_t>(groups_[turn.at].members.size()) : 1;
  }

  GroupTime time_of_group(const Group& group) const {
    GroupTime time;
    try {
      const Layout& first = space_.layouts[group.first];
      Layout whole = space_.forms[space_.form_of[group.first]];
      whole.data = first.data;
      whole.zero_stage = first.zero_stage;
      whole.replicate = first.replicate;
      const ReadJob read = help_.read(form_run(whole));
      if (!read) return time;  // bounds nothing
      time.alike = read->model->kinds.size() == 1;
      // All of the group have as many micro-batches.
      const std::int64_t rounds = first.accumulation;
      const auto measure = [&](Job job, double& micro, double& device, double& rest) {
        job.training.gradient_accumulation = rounds;
        job.training.global_batch *= rounds;
        const auto answer = predict_time(job);
        if (!answer) return;
        const auto times = static_cast<double>(rounds);
        micro = micro_batch_seconds(*answer) / times;
        device = micro_batch_seconds(*answer, false) / times;
        rest = std::max(0.0, answer->step.value() - micro * times);
        time.rest_beside_data = std::max(0.0, rest - answer->terms[TimeTerm::kData]);
      };
      measure(*read, time.micro, time.device, time.rest);
      time.micro_again = time.micro;
      time.device_again = time.device;
      time.rest_again = time.rest;
      const auto again = [&](std::uint32_t member) {
        const RecomputeMode mode = space_.layouts[open_[member].layout].recompute;
        return mode == RecomputeMode::kFull || mode == RecomputeMode::kEvery ||
               mode == RecomputeMode::kBlock;
      };
      if (std::any_of(group.members.begin(), group.members.end(), again)) {
        Job job = *read;
        job.recompute = {};
        job.recompute.mode = RecomputeMode::kFull;
        measure(std::move(job), time.micro_again, time.device_again, time.rest_again);
      }
    } catch (const OverflowError&) {
      return {};
    }
    return time;
  }

  void weigh_in_batches() {
    form_groups();
    form_cells();
    const Bounds bounds(target_, stages_are_stated());
    std::vector<Turn> batch;
    std::int64_t done = 0;
    while (!turns_.empty()) {
      const double most = limit();
      batch.clear();
      std::vector<Turn> waiting;
      std::vector<std::uint32_t> cells;
      while (!turns_.empty() && batch.size() < kBatch) {
        const Turn turn = turns_.top();
        // No usual layout is left that can be wanted; the others have their turn.
        if (turn.seconds > most && turn.unusual) break;
        turns_.pop();
        if (turn.seconds > most) {
          result_.counts.cannot_be_faster += held_by(turn);
          continue;
        }
        if (!turn.group && is_beaten(open_[turn.at])) {
          ++result_.counts.cannot_be_faster;
          continue;
        }
        if (!turn.group && is_dead(turn.at)) {
          bury(cells_[cell_of_[turn.at]].answer);
          continue;
        }
        if (!turn.group && asks_first(turn.at)) {
          const std::uint32_t cell = cell_of_[turn.at];
          waiting.push_back(turn);
          if (std::find(cells.begin(), cells.end(), cell) == cells.end()) cells.push_back(cell);
          if (cells.size() == kBatch) break;
          continue;
        }
        batch.push_back(turn);
      }
      if (batch.empty() && cells.empty()) break;
      std::vector<Weighing> answers(batch.size()), leanest(cells.size());
      std::vector<GroupTime> times(batch.size());
      help_.share(cells.size(),
                  [&](std::size_t i) { leanest[i] = weigh(cells_[cells[i]].leanest, false); });
      for (std::size_t i = 0; i < cells.size(); ++i) {
        Cell& cell = cells_[cells[i]];
        cell.answer = leanest[i].answer;
        cell.state = cell.answer.fate == Fate::kTooLarge ? Cell::kTooLarge : Cell::kOpen;
      }
      for (const Turn& turn : waiting) turns_.push(turn);
      result_.counts.cells_asked += static_cast<std::int64_t>(cells.size());
      help_.share(batch.size(), [&](std::size_t i) {
        if (batch[i].group)
          times[i] = time_of_group(groups_[batch[i].at]);
        else
          answers[i] = weigh(open_[batch[i].at].layout);
      });
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (!batch[i].group) {
          ++done;
          answers[i].answer.least_seconds = open_[batch[i].at].seconds;
          answers[i].answer.least_bytes = open_[batch[i].at].bytes;
          take(answers[i]);
          continue;
        }
        ++result_.counts.groups_timed;
        Group& group = groups_[batch[i].at];
        for (const std::uint32_t member : group.members) {
          Open& open = open_[member];
          open.seconds =
              std::max(open.seconds, bounds.least_seconds(space_.layouts[open.layout], times[i]));
          turns_.push({open.seconds, batch[i].unusual, false, member});
        }
        group.members.clear();
      }
      if (help_.go_on &&
          !help_.go_on({done, result_.counts.layouts, best_time_ < kNever ? best_time_ : 0})) {
        result_.interrupted = true;
        break;
      }
    }
    for (; !turns_.empty(); turns_.pop())
      (turns_.top().seconds > limit() ? result_.counts.cannot_be_faster
                                      : result_.counts.not_asked) += held_by(turns_.top());
  }

  Weighing weigh(std::uint32_t at, bool timed = true) const {
    Weighing weighing;
    WeighedLayout& answer = weighing.answer;
    answer.layout = at;
    try {
      const ReadJob job = help_.read(run_of(run_, space_.layouts[at], space_, layers()));
      if (!job) {
        answer.fate = Fate::kNotAllowed;
        weighing.code = job.error().front().code;
        weighing.words = job.error().front().message;
        return weighing;
      }
      const Prediction prediction = estimate(*job);
      answer.bytes = prediction.peak.device.value().value();
      answer.high = prediction.peak.high.value().value();
      answer.pipeline = prediction.peak.pipeline;
      const bool fits = prediction.verdict == Verdict::kFits;
      const bool expected = prediction.peak.device <= prediction.usable;
      answer.fate = fits ? Fate::kFits : expected ? Fate::kTight : Fate::kTooLarge;
      for (const RankPrediction& rank : prediction.ranks)
        if (rank.rank == prediction.peak.rank) answer.binds = largest_pile(prediction, rank);
      if (answer.fate == Fate::kTooLarge) return weighing;
      if (!timed || (wish_.first_that_fits && !fits)) return weighing;
      if (const auto time = predict_time(*job)) answer.seconds = time->step.value();
    } catch (const OverflowError& fault) {
      answer.fate = Fate::kNotAllowed;
      weighing.code = "E107";
      weighing.words = fault.what();
    }
    return weighing;
  }

  void take(const Weighing& weighing) {
    const WeighedLayout& answer = weighing.answer;
    switch (answer.fate) {
      case Fate::kNotAllowed:
        refuse(weighing.code, weighing.words);
        return;
      case Fate::kTooLarge: {
        ++result_.counts.too_large;
        TooLarge& group = too_large_[answer.binds];
        group.binds = answer.binds;
        const std::int64_t excess = answer.bytes - target_.device->capacity.value().value();
        if (group.layouts++ == 0 || excess < group.least_excess) {
          group.least_excess = excess;
          group.nearest = answer.layout;
        }
        break;
      }
      case Fate::kTight:
        ++result_.counts.tight;
        break;
      default:
        ++result_.counts.fits;
        found(answer);
    }
    result_.weighed.push_back(answer);
  }

  void found(const WeighedLayout& answer) {
    best_time_ = std::min(best_time_, answer.seconds);
    const auto bytes = static_cast<double>(answer.bytes);
    if (wish_.front) {
      const auto beats = [&](const auto& point) {
        return answer.seconds <= point.first && bytes <= point.second;
      };
      if (std::none_of(front_.begin(), front_.end(), [&](const auto& point) {
            return point.first <= answer.seconds && point.second <= bytes;
          })) {
        front_.erase(std::remove_if(front_.begin(), front_.end(), beats), front_.end());
        front_.emplace_back(answer.seconds, bytes);
      }
    }
    // The best of each group of alike layouts, so many groups as are wanted.
    const Layout& layout = space_.layouts[answer.layout];
    const auto same = std::find_if(unlike_.begin(), unlike_.end(), [&](const WeighedLayout& other) {
      return are_alike(space_.layouts[other.layout], layout);
    });
    if (same != unlike_.end()) {
      if (same->seconds > answer.seconds) *same = answer;
    } else {
      unlike_.push_back(answer);
    }
    std::stable_sort(unlike_.begin(), unlike_.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    if (unlike_.size() > wish_.best) unlike_.resize(wish_.best);
  }

  void close() {
    std::stable_sort(result_.weighed.begin(), result_.weighed.end(),
                     [](const WeighedLayout& a, const WeighedLayout& b) {
                       const auto rank = [](const WeighedLayout& w) {
                         return w.fate == Fate::kFits ? 0 : w.fate == Fate::kTight ? 1 : 2;
                       };
                       return std::tuple(rank(a), a.seconds, a.layout) <
                              std::tuple(rank(b), b.seconds, b.layout);
                     });
    for (auto& [code, refusal] : refusals_) result_.refusals.push_back(refusal);
    std::stable_sort(result_.refusals.begin(), result_.refusals.end(),
                     [](const Refusal& a, const Refusal& b) { return a.layouts > b.layouts; });
    if (certain_.layouts > 0) result_.too_large.push_back(certain_);
    for (auto& [pile, group] : too_large_) result_.too_large.push_back(group);
    std::stable_sort(result_.too_large.begin(), result_.too_large.end(),
                     [](const TooLarge& a, const TooLarge& b) { return a.layouts > b.layouts; });
  }

  const Value& run_;
  const PlanTarget& target_;
  const Space& space_;
  const SearchWish& wish_;
  const SearchHelp& help_;
  SearchResult result_;
  std::vector<Open> open_;
  std::vector<Group> groups_;
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> cell_of_;  // of open_
  std::priority_queue<Turn> turns_;
  std::vector<FormFacts> facts_of_base_, facts_of_form_;
  std::map<std::string, Refusal> refusals_;
  std::map<Pile, TooLarge> too_large_;
  TooLarge certain_;
  double best_time_ = kNever;
  std::vector<WeighedLayout> unlike_;
  std::vector<std::pair<double, double>> front_;  // seconds, bytes
};

}  // namespace

const WeighedLayout* SearchResult::best() const {
  return !weighed.empty() && weighed.front().fate == Fate::kFits ? &weighed.front() : nullptr;
}

Value run_of(const Value& run, const Layout& layout, const Space& space, std::int64_t layers) {
  Value asked = run;
  for (auto& [id, value] : keys_of(layout, layers)) put(asked, id, std::move(value));
  for (const auto& [path, value] : space.recipes[layout.recipe].keys) {
    Place place;
    place.source = "plan";
    set_path(asked, path, value, place);
  }
  return asked;
}

SearchResult search(const Value& run, const PlanTarget& target, const Space& space,
                    const SearchWish& wish, const SearchHelp& help) {
  return Search(run, target, space, wish, help)();
}

std::vector<WeighedLayout> front_of(const SearchResult& result) {
  std::vector<WeighedLayout> front;
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits) break;
    if (front.empty() || weighed.bytes < front.back().bytes) front.push_back(weighed);
  }
  return front;
}

std::vector<WeighedLayout> best_unlike(const SearchResult& result, const Space& space,
                                       std::size_t count) {
  std::vector<WeighedLayout> chosen;
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits || chosen.size() == count) break;
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](const WeighedLayout& other) {
      return are_alike(space.layouts[other.layout], space.layouts[weighed.layout]);
    });
    if (!known) chosen.push_back(weighed);
  }
  return chosen;
}

const WeighedLayout* simplest_within(const SearchResult& result, const Space& space, double share) {
  const WeighedLayout* simplest = nullptr;
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits || weighed.seconds > result.best()->seconds * (1 + share))
      break;
    if (simplest == nullptr || complexity_of(space.layouts[weighed.layout]) <
                                   complexity_of(space.layouts[simplest->layout]))
      simplest = &weighed;
  }
  return simplest;
}

const WeighedLayout* nearest_fit(const SearchResult& result, const Space& space,
                                 const Layout& layout) {
  const WeighedLayout* nearest = nullptr;
  int least = std::numeric_limits<int>::max();
  for (const WeighedLayout& weighed : result.weighed) {
    if (weighed.fate != Fate::kFits) break;
    const int differences = differences_between(layout, space.layouts[weighed.layout]);
    if (differences >= least) continue;
    least = differences;
    nearest = &weighed;
  }
  return nearest;
}

}  // namespace steelyard
