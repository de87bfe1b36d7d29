#include "validate/ranking.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "predict/draw.h"

namespace steelyard {
namespace {

constexpr std::int64_t kFewestLayouts = 3;
constexpr std::array<double, 7> kGaps = {0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5};

using Rows = std::vector<const JudgedRow*>;

bool died(const JudgedRow& row) { return row.out_of_memory.value_or(false); }
double predicted(const JudgedRow* row) { return row->contest->predicted(); }

// Nearest rank.
double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

// Those that are `wanted`, fastest first, and of those that a person would call the same the fastest.
template <class Wanted>
Rows fastest_of(Rows rows, Wanted wanted) {
  rows.erase(
      std::remove_if(rows.begin(), rows.end(), [&](const JudgedRow* row) { return !wanted(*row); }),
      rows.end());
  std::stable_sort(rows.begin(), rows.end(), [](const JudgedRow* a, const JudgedRow* b) {
    return predicted(a) < predicted(b);
  });
  Rows unlike;
  for (const JudgedRow* row : rows)
    if (std::none_of(unlike.begin(), unlike.end(), [&](const JudgedRow* other) {
          return other->contest->shape == row->contest->shape;
        }))
      unlike.push_back(row);
  return unlike;
}

// From one; 0: there is none.
template <class Sought>
std::int64_t place_of(const Rows& rows, Sought sought) {
  const auto at = std::find_if(rows.begin(), rows.end(), sought);
  return at == rows.end() ? 0 : at - rows.begin() + 1;
}
bool in_top(std::int64_t place) { return place > 0 && place <= kTop; }

bool is_sure(const JudgedRow& row) { return row.verdict == Verdict::kFits; }

Rows those_sure(const Rows& rows) {
  Rows sure;
  for (const JudgedRow* row : rows)
    if (is_sure(*row)) sure.push_back(row);
  std::stable_sort(sure.begin(), sure.end(), [](const JudgedRow* a, const JudgedRow* b) {
    return predicted(a) < predicted(b);
  });
  return sure;
}

// Of sure rows, fastest first.
const JudgedRow* planned(const Rows& sure) {
  std::vector<std::vector<double>> steps;
  for (const JudgedRow* row : sure) {
    // Where some say what their machine is, no other is meant.
    if (row->contest->steps.size() != sure.front()->contest->steps.size()) return sure.front();
    steps.push_back(row->contest->steps);
  }
  return sure[steadiest_first(steps).front()];
}

// What was measured to the same digit is one measurement, read twice.
void count_pairs(const Rows& sure, std::vector<PairOrder>& orders) {
  for (std::size_t a = 0; a < sure.size(); ++a)
    for (std::size_t b = a + 1; b < sure.size(); ++b) {
      const JudgedRow &faster = *sure[a], &slower = *sure[b];
      if (!faster.step || !slower.step || died(faster) || died(slower)) continue;
      const double first = faster.step->seconds.measured, second = slower.step->seconds.measured;
      if (first == second) continue;
      const double gap = predicted(&slower) / predicted(&faster) - 1;
      const auto order = std::find_if(orders.begin(), orders.end(),
                                      [&](const PairOrder& one) { return gap <= one.gap; });
      if (order == orders.end()) continue;
      ++order->pairs;
      order->in_order += first < second ? 1 : 0;
    }
}

std::optional<RankedGroup> ranked(const std::string& name, const Rows& rows) {
  RankedGroup group;
  group.name = name;
  group.layouts = static_cast<std::int64_t>(rows.size());
  for (const JudgedRow* row : rows) {
    if (!row->step || died(*row)) continue;
    ++group.ran;
    if (group.measured_best == nullptr ||
        row->step->seconds.measured < group.measured_best->step->seconds.measured)
      group.measured_best = row;
  }
  if (group.ran < kFewestLayouts) return std::nullopt;
  const Rows sure = fastest_of(rows, is_sure);
  Rows offered = fastest_of(rows, [&](const JudgedRow& row) {
    return row.verdict == Verdict::kTight && row.spare >= 0 &&
           (sure.empty() || predicted(&row) < predicted(sure.front()));
  });
  group.sure = static_cast<std::int64_t>(sure.size());
  group.tight = static_cast<std::int64_t>(offered.size());
  offered.insert(offered.end(), sure.begin(), sure.end());
  if (offered.empty()) return group;
  group.predicted_best = sure.empty() ? offered.front() : planned(those_sure(rows));
  group.died = died(*group.predicted_best);
  group.place = place_of(offered, [&](const JudgedRow* row) {
    return row->contest->shape == group.measured_best->contest->shape;
  });
  group.place_to_the_letter =
      place_of(offered, [&](const JudgedRow* row) { return row == group.measured_best; });
  if (!group.died)
    group.lost = 100 * (group.predicted_best->step->seconds.measured /
                            group.measured_best->step->seconds.measured -
                        1);
  return group;
}

// Counts what its groups came to.
void sum_up(SourceRanking& ranking) {
  std::vector<double> lost;
  for (const RankedGroup& group : ranking.groups) {
    ranking.in_top += in_top(group.place) ? 1 : 0;
    ranking.in_top_to_the_letter += in_top(group.place_to_the_letter) ? 1 : 0;
    ranking.died += group.died ? 1 : 0;
    if (group.lost) lost.push_back(*group.lost);
  }
  ranking.median_lost = percentile(lost, 0.5);
  ranking.percentile_95_lost = percentile(lost, 0.95);
}

// The groups of one source, or of what of it is judged apart.
SourceRanking ranking_of(std::string source, const std::map<std::string, Rows>& by_group) {
  SourceRanking ranking;
  ranking.source = std::move(source);
  for (const double gap : kGaps) ranking.orders.push_back({gap, 0, 0});
  for (const auto& [name, rows] : by_group) {
    auto group = ranked(name, rows);
    if (!group) continue;
    count_pairs(those_sure(rows), ranking.orders);
    ranking.groups.push_back(std::move(*group));
  }
  sum_up(ranking);
  return ranking;
}

}  // namespace

SourceRanking sweeps_together(const std::vector<SourceRanking>& rankings) {
  SourceRanking together;
  together.source = "sweeps of layouts, together";
  for (const SourceRanking& ranking : rankings)
    if (ranking.sweeps_layouts)
      together.groups.insert(together.groups.end(), ranking.groups.begin(), ranking.groups.end());
  sum_up(together);
  return together;
}

std::vector<SourceRanking> rankings_of(const std::vector<SourceResult>& results) {
  std::vector<SourceRanking> rankings;
  for (const SourceResult& result : results) {
    std::map<std::string, std::map<std::string, Rows>> by_circumstance;
    for (const JudgedRow* row : result.judged)
      if (row->weighed() && row->contest && (row->step || died(*row)))
        by_circumstance[row->contest->apart][row->contest->group].push_back(row);
    for (const auto& [apart, by_group] : by_circumstance) {
      SourceRanking ranking =
          ranking_of(result.name + (apart.empty() ? "" : ", " + apart), by_group);
      ranking.sweeps_layouts = result.sweeps_layouts;
      if (!ranking.groups.empty()) rankings.push_back(std::move(ranking));
    }
  }
  return rankings;
}

}  // namespace steelyard
