#include "plan/curve.h"

#include <algorithm>

namespace steelyard {

tl::expected<Curve, Diagnostics> curve_of(const Value& document,
                                          const std::vector<std::int64_t>& devices,
                                          std::optional<Wanted> wanted, const SearchHelp& help) {
  Curve curve;
  curve.wanted = wanted;
  const auto on = [](const Value& run, std::int64_t count) {
    return with_key(run, KeyId::kDevices, Value::integer(count));
  };
  const auto largest =
      question_of(on(document, *std::max_element(devices.begin(), devices.end())), help);
  if (!largest) return tl::unexpected(largest.error());
  curve.global_batch = largest->target.global_batch;
  const Value kept =
      with_key(document, KeyId::kGlobalBatch, Value::integer(largest->target.global_batch));
  for (const std::int64_t count : devices) {
    CurvePoint& point = curve.points.emplace_back();
    point.devices = count;
    if (wanted) {
      auto answer = extreme_of(*wanted, on(kept, count), {}, help);
      if (!answer) return tl::unexpected(answer.error());
      point.unfinished = answer->unfinished;
      if (answer->answers.empty()) continue;
      point.value = answer->answers.front().value;
      point.row = std::move(answer->answers.front().row);
      continue;
    }
    const auto question = question_of(on(kept, count), help);
    if (!question) return tl::unexpected(question.error());
    PlanWish wish;
    wish.search.best = 1;
    wish.search.within = 0;
    wish.explain = false;
    wish.steady = false;
    PlanAnswer answer = plan(*question, wish, help);
    point.unfinished = answer.result.interrupted;
    if (!answer.rows.empty()) point.row = std::move(answer.rows.front());
  }
  return curve;
}

}  // namespace steelyard
