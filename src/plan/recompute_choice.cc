#include "plan/recompute_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "job/keys.h"
#include "plan/fewest_recomputed.h"
#include "predict/prediction.h"
#include "predict/prepared_job.h"

namespace steelyard {
namespace {

struct RecomputePolicy {
  RecomputeMode mode = RecomputeMode::kNone;
  std::int64_t amount = 0;  // of kEvery and kBlock
};

std::string words_of(const RecomputePolicy& policy) {
  std::string mode(name_of(policy.mode));
  if (policy.mode == RecomputeMode::kEvery)
    return fmt::format("{}, every = {}", mode, policy.amount);
  if (policy.mode == RecomputeMode::kBlock)
    return fmt::format("{}, layers = {}", mode, policy.amount);
  return mode;
}

class RecomputeChooser {
 public:
  RecomputeChooser(const Value& run, const std::function<ReadJob(const Value&)>& read)
      : run_(run), read_(read) {}

  ReadJob made() {
    ReadJob plain = job_with({RecomputeMode::kNone, 0});
    if (!plain) return plain;
    ask({RecomputeMode::kNone, 0});
    if (best_ && best_->verdict == Verdict::kFits) return chosen();
    ask({RecomputeMode::kSelective, 0});
    ask({RecomputeMode::kFull, 0});
    const std::int64_t layers = plain->model->layers;
    // From every last one down to every second one.
    ask_fewest(RecomputeMode::kEvery, layers - 2, [&](std::int64_t i) { return layers - i; });
    std::int64_t of_stage = layers;
    if (!plain->parallel.stage_layers.empty())
      of_stage =
          std::max_element(plain->parallel.stage_layers.begin(), plain->parallel.stage_layers.end())
              ->value();
    ask_fewest(RecomputeMode::kBlock, of_stage - 2, [](std::int64_t i) { return i + 1; });
    return chosen();
  }

 private:
  struct Weighed {
    RecomputePolicy policy;
    Verdict verdict = Verdict::kDoesNotFit;
    Bytes peak{};
    double seconds = 0;
  };

  ReadJob job_with(const RecomputePolicy& policy) const {
    Value run = run_;
    Place place;
    place.source = "recompute";
    const auto put = [&](KeyId id, Value value) {
      value.set_mark(mark_of(place));
      set_path(run, key_of(id).path, std::move(value), place);
    };
    put(KeyId::kRecomputeMode, Value::string(std::string(name_of(policy.mode))));
    if (policy.mode == RecomputeMode::kEvery)
      put(KeyId::kRecomputeEvery, Value::integer(policy.amount));
    if (policy.mode == RecomputeMode::kBlock)
      put(KeyId::kRecomputeLayers, Value::integer(policy.amount));
    return read_(run);
  }

  std::optional<Weighed> weigh(const RecomputePolicy& policy) {
    const ReadJob job = job_with(policy);
    if (!job) return std::nullopt;  // the engine has no such way
    ++asked_;
    const Prediction prediction = predict_fullest(*job);
    const auto time = expected_time(*job);
    return Weighed{policy, prediction.verdict, prediction.peak.device,
                   time ? time->step.value() : 0};
  }

  void ask(const RecomputePolicy& policy) {
    if (const auto weighed = weigh(policy)) take(*weighed);
  }
  // What fits comes first, then what nearly does; of those the fastest, else the smallest.
  static auto order(const Weighed& weighed) {
    const bool fits = weighed.verdict != Verdict::kDoesNotFit;
    return std::tuple(weighed.verdict, fits ? weighed.seconds : 0, weighed.peak);
  }
  void take(const Weighed& weighed) {
    if (!best_ || order(weighed) < order(*best_)) best_ = weighed;
  }

  // Of policies 0 to `last`, each of which computes more again than the one before, the first that does as well as the
  // leanest: one of the last three, because what runs again needs room, too.
  template <class Amount>
  void ask_fewest(RecomputeMode mode, std::int64_t last, Amount amount) {
    std::optional<Weighed> leanest;
    std::int64_t of_leanest = 0;
    for (std::int64_t at = last; at >= 0 && at > last - 3; --at) {
      const auto weighed = weigh({mode, amount(at)});
      if (!weighed) return;
      if (leanest && weighed->peak >= leanest->peak) break;
      leanest = weighed;
      of_leanest = at;
    }
    if (!leanest) return;
    Weighed fewest = *leanest;
    if (leanest->verdict != Verdict::kDoesNotFit)
      fewest_recomputed(0, static_cast<std::int32_t>(of_leanest), [&](std::int32_t at) {
        const auto weighed = weigh({mode, amount(at)});
        if (!weighed || weighed->verdict > leanest->verdict) return false;
        fewest = *weighed;
        return true;
      });
    take(fewest);
  }

  ReadJob chosen() const {
    ReadJob job = job_with(best_->policy);
    if (job)
      job->assumptions.push_back(
          {key_of(KeyId::kRecomputeMode).path, words_of(best_->policy),
           best_->verdict == Verdict::kDoesNotFit
               ? fmt::format("nothing fits: the smallest of {} that were weighed", asked_)
               : fmt::format("the fastest that fits, of {} that were weighed", asked_)});
    return job;
  }

  const Value& run_;
  const std::function<ReadJob(const Value&)>& read_;
  std::optional<Weighed> best_;
  int asked_ = 0;
};

}  // namespace

bool asks_for_recompute_choice(const Value& run) {
  const Value* mode = run.at(key_of(KeyId::kRecomputeMode).path);
  if (run.at(key_of(KeyId::kRecomputeBudget).path) != nullptr) return false;
  return mode != nullptr && mode->is_string() && mode->as_string() == "budget";
}

ReadJob with_recompute_chosen(const Value& run, const std::function<ReadJob(const Value&)>& read) {
  return RecomputeChooser(run, read).made();
}

}  // namespace steelyard
