#include "report/host_need.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "predict/host_room.h"
#include "quantity/print.h"
#include "report/table.h"

namespace steelyard {

std::optional<Bytes> lacking_host_memory(const Job& job, const Prediction& prediction) {
  const auto room = host_room(job);
  if (!room || prediction.host_verdict == Verdict::kFits) return std::nullopt;
  return room->memory;
}

std::vector<std::string> with_host(std::vector<std::string> known, const Job& job,
                                   const Prediction& prediction, const Style& style) {
  if (prediction.holdings.empty()) return known;
  const auto amount = [&](Bytes bytes) { return print(bytes, style.units); };
  std::string text = fmt::format("host {} a machine", amount(prediction.host_of_node));
  if (prediction.pinned > Bytes())
    text += fmt::format(", {} a rank pinned", amount(prediction.pinned));
  if (prediction.nvme > Bytes()) text += fmt::format(", NVMe {} a rank", amount(prediction.nvme));
  if (const auto has = lacking_host_memory(job, prediction))
    text += fmt::format(": {} has {}", job.cluster.machine->name, amount(*has));
  known.push_back(std::move(text));
  return known;
}

std::string host_table(const Prediction& prediction, const Style& style) {
  if (prediction.holdings.empty()) return "";
  std::string result =
      fmt::format("\nbeside the device, per rank: host {} ({} of it pinned; {} a node), NVMe {}\n",
                  print(prediction.host, style.units), print(prediction.pinned, style.units),
                  print(prediction.host_of_node, style.units), print(prediction.nvme, style.units));
  Table table({{"beside the device"}, {""}, {"", true}, {"rule"}});
  std::vector<HostHolding> rows;
  for (const HostHolding& holding : prediction.holdings) {
    const auto same = std::find_if(rows.begin(), rows.end(), [&](const HostHolding& row) {
      return std::string_view(row.name) == holding.name && row.place == holding.place;
    });
    if (same == rows.end())
      rows.push_back(holding);
    else
      same->bytes += holding.bytes;
  }
  for (const HostHolding& row : rows)
    table.add({row.name, std::string(name_of(row.place)), print(row.bytes, style.units), row.rule});
  return result + table.text(style);
}

}  // namespace steelyard
