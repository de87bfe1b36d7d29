// Who holds a collective up: all ranks' flight recorder dumps together.
//
// Groups are matched by their description and ranks, since numbers repeat after a split. In each, the first sequence that
// does not end decides: a rank that never began it while others wait in it has not come; where all that left entries began
// it, those that are still in collectives which the others have ended are behind.
#include <algorithm>
#include <map>
#include <set>

#include "evidence/flight_recorder.h"

namespace steelyard {
namespace {

struct RankInGroup {
  std::int64_t first_open = -1;  // lowest sequence that has not ended
  std::int64_t last_seen = -1;
  const CollectiveState* entry = nullptr;  // of first_open
};
struct DumpedGroup {
  std::vector<std::int64_t> ranks;
  std::string name;
  std::map<std::int64_t, RankInGroup> of_rank;
};

bool is_pair(std::string_view operation) {
  return operation.starts_with("send") || operation.starts_with("recv");
}

bool is_entry(const CollectiveState& state) {
  return state.rank && state.sequence && state.state != "last enqueued" &&
         state.state != "last completed" && !state.ranks.empty() && !is_pair(state.operation);
}

class Culprits {
 public:
  explicit Culprits(std::span<const Evidence* const> dumps) {
    for (const Evidence* dump : dumps) {
      if (dump == nullptr || dump->kind != "flight recorder" || !dump->rank) continue;
      dumped_.insert(*dump->rank);
      for (const CollectiveState& state : dump->collectives) {
        if (state.state == "scheduled" || state.state == "started") ++outstanding_[*dump->rank];
        if (is_entry(state)) note(state);
      }
    }
  }

  std::vector<CollectiveCulprit> find() {
    for (auto& [key, group] : groups_) {
      (void)key;
      judge(group);
    }
    // Who waits in one group for another rank is a victim in all others.
    std::vector<CollectiveCulprit> found;
    const auto has = [this](CollectiveCulprit::How how) {
      return std::any_of(named_.begin(), named_.end(),
                         [how](const CollectiveCulprit& culprit) { return culprit.how == how; });
    };
    using How = CollectiveCulprit::How;
    for (const How how : {How::kNoDump, How::kNothingBegun, How::kBehind, How::kNotJoined}) {
      if (!has(how)) continue;
      for (const CollectiveCulprit& culprit : named_)
        if (culprit.how == how) found.push_back(culprit);
      if (how != How::kNoDump) break;
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.rank < b.rank; });
    // The same rank may be missed in several groups: the one where most wait tells most.
    std::vector<CollectiveCulprit> once;
    for (CollectiveCulprit& culprit : found) {
      if (!once.empty() && once.back().rank == culprit.rank) {
        if (culprit.waiting.size() > once.back().waiting.size()) once.back() = std::move(culprit);
        continue;
      }
      once.push_back(std::move(culprit));
    }
    return once;
  }

 private:
  void note(const CollectiveState& state) {
    std::string key = state.group.substr(0, state.group.find(" ("));
    for (const std::int64_t rank : state.ranks) key += ',' + std::to_string(rank);
    DumpedGroup& group = groups_[key];
    group.ranks = state.ranks;
    group.name = state.group;
    RankInGroup& rank = group.of_rank[*state.rank];
    rank.last_seen = std::max(rank.last_seen, *state.sequence);
    if (state.state == "completed") return;
    if (rank.first_open >= 0 && rank.first_open <= *state.sequence) return;
    rank.first_open = *state.sequence;
    rank.entry = &state;
  }

  void name_culprit(std::int64_t rank, CollectiveCulprit::How how, const DumpedGroup& group,
                    std::int64_t sequence) {
    CollectiveCulprit culprit;
    culprit.rank = rank;
    culprit.how = how;
    culprit.group = group.name;
    culprit.sequence = sequence;
    for (const auto& [other, state] : group.of_rank) {
      if (state.first_open < 0 || other == rank) continue;
      culprit.waiting.push_back(other);
      if (culprit.operation.empty() && state.entry != nullptr) {
        culprit.operation = state.entry->operation;
        culprit.place = state.entry->place;
      }
    }
    if (how == CollectiveCulprit::How::kBehind) {
      const RankInGroup& own = group.of_rank.at(rank);
      culprit.operation = own.entry->operation;
      culprit.place = own.entry->place;
    }
    named_.push_back(std::move(culprit));
  }

  void judge(const DumpedGroup& group) {
    using How = CollectiveCulprit::How;
    std::int64_t lowest = -1, highest = -1;
    for (const auto& [rank, state] : group.of_rank) {
      (void)rank;
      if (state.first_open < 0) continue;
      lowest = lowest < 0 ? state.first_open : std::min(lowest, state.first_open);
      highest = std::max(highest, state.first_open);
    }
    if (lowest < 0 || group.ranks.size() < 2) return;
    bool missing = false;
    for (const std::int64_t rank : group.ranks) {
      const auto own = group.of_rank.find(rank);
      if (own != group.of_rank.end() && own->second.last_seen >= lowest) continue;
      missing = true;
      if (!dumped_.contains(rank))
        name_culprit(rank, How::kNoDump, group, lowest);
      else
        name_culprit(rank, outstanding_[rank] == 0 ? How::kNothingBegun : How::kNotJoined, group,
                     lowest);
    }
    // All have begun it; those that others have overtaken are stuck in it.
    if (missing || lowest == highest) return;
    for (const auto& [rank, state] : group.of_rank)
      if (state.first_open == lowest) name_culprit(rank, How::kBehind, group, lowest);
  }

  std::set<std::int64_t> dumped_;
  std::map<std::int64_t, std::int64_t> outstanding_;
  std::map<std::string, DumpedGroup> groups_;
  std::vector<CollectiveCulprit> named_;
};

}  // namespace

std::vector<CollectiveCulprit> find_collective_culprits(std::span<const Evidence* const> dumps) {
  return Culprits(dumps).find();
}

}  // namespace steelyard
