#include "report/ranking.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "report/amount.h"
#include "report/table.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

std::string share_words(std::int64_t groups, const SourceRanking& ranking) {
  return fmt::format(
      "{:.0f} %", 100.0 * static_cast<double>(groups) / static_cast<double>(ranking.groups.size()));
}

std::string id_of(const JudgedRow* row) { return row == nullptr ? "-" : row->id; }

std::string place_words(const RankedGroup& group) {
  if (group.place == 0) return "not offered";
  // Another micro-batch of it is what is offered.
  return fmt::format("{}{}", group.place, group.place_to_the_letter == 0 ? " alike" : "");
}

std::string lost_words(const RankedGroup& group) {
  if (group.died) return "died";
  return group.lost ? fmt::format("{:.1f}", *group.lost) : std::string("-");
}

// How far apart two layouts must be predicted for their order to mean something; of all sources.
std::string orders_text(const std::vector<SourceRanking>& rankings, const Style& style) {
  std::vector<PairOrder> all;
  for (const SourceRanking& ranking : rankings) {
    if (all.empty()) all.resize(ranking.orders.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].gap = ranking.orders[i].gap;
      all[i].pairs += ranking.orders[i].pairs;
      all[i].in_order += ranking.orders[i].in_order;
    }
  }
  Table table({{"predicted apart, up to"}, {"pairs", true}, {"measured in that order", true}});
  for (const PairOrder& order : all)
    if (order.pairs > 0)
      table.add({fmt::format("  {:.0f} %", 100 * order.gap), print_count(order.pairs),
                 fmt::format("{:.0f} %", 100.0 * static_cast<double>(order.in_order) /
                                             static_cast<double>(order.pairs))});
  return table.rows() == 0 ? "" : "\n" + table.text(style);
}

}  // namespace

std::string ranking_text(const std::vector<SourceRanking>& rankings, bool every_group,
                         const Style& style) {
  Table table({{"choice"},
               {"groups", true},
               {"best in top 3", true},
               {"to the letter", true},
               {"lost, %: median", true},
               {"95 %", true},
               {"died", true}});
  const auto add = [&](const SourceRanking& ranking) {
    table.add({ranking.source, fmt::format("{}", ranking.groups.size()),
               share_words(ranking.in_top, ranking),
               share_words(ranking.in_top_to_the_letter, ranking),
               fmt::format("{:.1f}", ranking.median_lost),
               fmt::format("{:.1f}", ranking.percentile_95_lost), fmt::format("{}", ranking.died)});
  };
  for (const SourceRanking& ranking : rankings) add(ranking);
  const SourceRanking together = sweeps_together(rankings);
  if (!together.groups.empty() && rankings.size() > 1) add(together);
  std::string text = table.text(style) + orders_text(rankings, style);
  if (!every_group) return text;
  Table groups({{"group"},
                {"ran", true},
                {"sure", true},
                {"tight", true},
                {"place", true},
                {"lost, %", true},
                {"measured best"},
                {"predicted best"}});
  for (const SourceRanking& ranking : rankings)
    for (const RankedGroup& group : ranking.groups)
      groups.add({group.name, fmt::format("{}", group.ran), fmt::format("{}", group.sure),
                  fmt::format("{}", group.tight), place_words(group), lost_words(group),
                  id_of(group.measured_best), id_of(group.predicted_best)});
  return text + "\n" + groups.text(style);
}

Json json_of(const std::vector<SourceRanking>& rankings) {
  Json list = Json::array();
  for (const SourceRanking& ranking : rankings) {
    Json groups = Json::array();
    for (const RankedGroup& group : ranking.groups) {
      Json one = {{"group", group.name},
                  {"layouts", group.layouts},
                  {"ran", group.ran},
                  {"sure", group.sure},
                  {"tight", group.tight},
                  {"place_of_measured_best", group.place},
                  {"place_to_the_letter", group.place_to_the_letter},
                  {"died", group.died},
                  {"measured_best", id_of(group.measured_best)},
                  {"predicted_best", id_of(group.predicted_best)}};
      if (group.lost) one["lost_percent"] = *group.lost;
      groups.push_back(std::move(one));
    }
    Json orders = Json::array();
    for (const PairOrder& order : ranking.orders)
      orders.push_back(
          {{"apart_up_to", order.gap}, {"pairs", order.pairs}, {"in_order", order.in_order}});
    list.push_back({{"source", ranking.source},
                    {"in_top_3", ranking.in_top},
                    {"in_top_3_to_the_letter", ranking.in_top_to_the_letter},
                    {"median_lost_percent", ranking.median_lost},
                    {"percentile_95_lost_percent", ranking.percentile_95_lost},
                    {"died", ranking.died},
                    {"orders", std::move(orders)},
                    {"groups", std::move(groups)}});
  }
  return list;
}

Json sweeps_json(const std::vector<SourceRanking>& rankings) {
  const SourceRanking together = sweeps_together(rankings);
  return {{"groups", together.groups.size()},
          {"in_top_3", together.in_top},
          {"in_top_3_to_the_letter", together.in_top_to_the_letter},
          {"median_lost_percent", together.median_lost},
          {"percentile_95_lost_percent", together.percentile_95_lost},
          {"died", together.died}};
}

}  // namespace steelyard
