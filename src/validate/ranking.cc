#include "validate/ranking.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>

namespace steelyard {
namespace {

constexpr std::int64_t kFewestLayouts = 3;

using Rows = std::vector<const JudgedRow*>;

bool died(const JudgedRow& row) { return row.out_of_memory.value_or(false); }
double predicted(const JudgedRow* row) { return row->contest->predicted; }

// Nearest rank.
double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::max<std::size_t>(rank, 1) - 1];
}

Rows fastest_of(const Rows& rows, std::initializer_list<Verdict> wanted) {
  Rows chosen;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(chosen), [&](const JudgedRow* row) {
    return std::find(wanted.begin(), wanted.end(), row->verdict) != wanted.end();
  });
  std::stable_sort(chosen.begin(), chosen.end(), [](const JudgedRow* a, const JudgedRow* b) {
    return predicted(a) < predicted(b);
  });
  return chosen;
}

// From one; 0: it is not there.
std::int64_t place_of(const JudgedRow* row, const Rows& rows) {
  const auto at = std::find(rows.begin(), rows.end(), row);
  return at == rows.end() ? 0 : at - rows.begin() + 1;
}
bool in_top(std::int64_t place) { return place > 0 && place <= kTop; }

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
  Rows offered = fastest_of(rows, {Verdict::kFits});
  if (offered.empty()) offered = fastest_of(rows, {Verdict::kTight});
  group.place_with_tight =
      place_of(group.measured_best, fastest_of(rows, {Verdict::kFits, Verdict::kTight}));
  group.offered = static_cast<std::int64_t>(offered.size());
  if (offered.empty()) return group;
  group.predicted_best = offered.front();
  group.died = died(*group.predicted_best);
  group.place = place_of(group.measured_best, offered);
  if (!group.died)
    group.lost = 100 * (group.predicted_best->step->seconds.measured /
                            group.measured_best->step->seconds.measured -
                        1);
  return group;
}

}  // namespace

std::vector<SourceRanking> rankings_of(const std::vector<SourceResult>& results) {
  std::vector<SourceRanking> rankings;
  for (const SourceResult& result : results) {
    std::map<std::string, Rows> by_group;
    for (const JudgedRow* row : result.judged)
      if (row->weighed() && row->contest && (row->step || died(*row)))
        by_group[row->contest->group].push_back(row);
    SourceRanking ranking;
    ranking.source = result.name;
    std::vector<double> lost;
    for (const auto& [name, rows] : by_group) {
      const auto group = ranked(name, rows);
      if (!group) continue;
      ranking.in_top += in_top(group->place) ? 1 : 0;
      ranking.in_top_with_tight += in_top(group->place_with_tight) ? 1 : 0;
      ranking.died += group->died ? 1 : 0;
      if (group->lost) lost.push_back(*group->lost);
      ranking.groups.push_back(*group);
    }
    if (ranking.groups.empty()) continue;
    ranking.median_lost = percentile(lost, 0.5);
    ranking.percentile_95_lost = percentile(lost, 0.95);
    rankings.push_back(std::move(ranking));
  }
  return rankings;
}

}  // namespace steelyard
