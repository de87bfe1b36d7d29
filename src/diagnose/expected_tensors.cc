#include "diagnose/expected_tensors.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "predict/prediction.h"

namespace steelyard {

std::vector<ExpectedTensor> expected_tensors(const Job& job, std::size_t rank_index) {
  std::map<std::tuple<std::int64_t, Pile, std::string, std::string>, std::int64_t> counts;
  for (int phase = 0; phase < kPhaseCount; ++phase)
    for (const Holding& holding : phase_moment(job, rank_index, static_cast<Phase>(phase)).alive) {
      std::int64_t& count =
          counts[{holding.each.value().value(), holding.pile, holding.owner, holding.name}];
      count = std::max(count, holding.count);
    }
  std::vector<ExpectedTensor> tensors;
  tensors.reserve(counts.size());
  for (const auto& [key, count] : counts)
    tensors.push_back(
        {std::get<0>(key), count, std::get<1>(key), std::get<2>(key), std::get<3>(key)});
  std::stable_sort(
      tensors.begin(), tensors.end(),
      [](const ExpectedTensor& a, const ExpectedTensor& b) { return a.size > b.size; });
  return tensors;
}

}  // namespace steelyard
