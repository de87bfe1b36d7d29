// global_batch = micro_batch x gradient_accumulation x data (figure 17): any of the first three follows from the others.
#include <fmt/format.h>

#include <string>

#include "job/layout_choice.h"

namespace steelyard {
namespace {

// The product, or the largest count when it is larger still: both are refused below.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) || product > kLargestCount ? kLargestCount + 1
                                                                           : product;
}

// What would fit, when `part` does not divide `global`.
std::string nearest_batches(std::int64_t global, std::int64_t part) {
  const std::int64_t below = global / part * part;
  if (below == 0) return fmt::format("global_batch = {} is the least", part);
  return fmt::format("global_batch = {} or {} fits", below, below + part);
}

std::string smaller_micro_batch(const Job& job, std::int64_t global) {
  for (std::int64_t micro = std::min(job.training.micro_batch - 1, std::int64_t{4096}); micro >= 1;
       --micro)
    if (global % times(micro, job.parallel.data) == 0)
      return fmt::format("; micro_batch = {} keeps {}", micro, global);
  return {};
}

void refuse_equation(Draft& draft, std::int64_t product) {
  const Training& training = draft.job().training;
  const std::int64_t data = draft.job().parallel.data;
  std::string help = fmt::format("global_batch = {} fits", product);
  const std::int64_t part = times(training.micro_batch, data);
  if (training.global_batch % part == 0)
    help += fmt::format("; gradient_accumulation = {} keeps {}", training.global_batch / part,
                        training.global_batch);
  draft.refuse(KeyId::kGlobalBatch, "E211",
               fmt::format("{} x {} x {} = {} is not global_batch {}", training.micro_batch,
                           training.gradient_accumulation, data, product, training.global_batch),
               fmt::format("micro_batch {} · gradient_accumulation {} · data {}",
                           training.micro_batch, training.gradient_accumulation, data),
               help);
}

// Accumulation, or the micro-batch, from the global batch.
void divide_global(Draft& draft, std::int64_t global) {
  Training& training = draft.job().training;
  const std::int64_t data = draft.job().parallel.data;
  const bool micro_given = draft.has(KeyId::kMicroBatch);
  const bool accumulation_given = draft.has(KeyId::kGradientAccumulation);
  training.global_batch = global;
  if (accumulation_given && !micro_given) {
    const std::int64_t part = times(training.gradient_accumulation, data);
    if (global % part != 0) {
      draft.refuse(
          KeyId::kGlobalBatch, "E211",
          fmt::format("{} x {} does not divide global_batch {}", training.gradient_accumulation,
                      data, global),
          fmt::format("gradient_accumulation {} · data {}", training.gradient_accumulation, data),
          nearest_batches(global, part));
      return;
    }
    training.micro_batch = global / part;
    draft.assume(KeyId::kMicroBatch, fmt::format("{}", training.micro_batch),
                 "global_batch / (accumulation x data)");
    return;
  }
  if (accumulation_given) {
    const std::int64_t product =
        times(times(training.micro_batch, training.gradient_accumulation), data);
    if (product != global) refuse_equation(draft, product);
    return;
  }
  if (!micro_given) draft.assume(KeyId::kMicroBatch, "1", "the smallest");
  const std::int64_t part = times(training.micro_batch, data);
  if (global % part != 0) {
    draft.refuse(KeyId::kGlobalBatch, "E211",
                 global < part
                     ? fmt::format("global_batch {} is less than micro_batch {} x data {}", global,
                                   training.micro_batch, data)
                     : fmt::format("{} x {} does not divide global_batch {}", training.micro_batch,
                                   data, global),
                 fmt::format("micro_batch {} · data {}", training.micro_batch, data),
                 nearest_batches(global, part) + smaller_micro_batch(draft.job(), global));
    return;
  }
  training.gradient_accumulation = global / part;
  draft.assume(KeyId::kGradientAccumulation, fmt::format("{}", training.gradient_accumulation),
               "global_batch / (micro_batch x data)");
}

}  // namespace

void choose_batch(Draft& draft) {
  Training& training = draft.job().training;
  const Parallel& parallel = draft.job().parallel;
  training.micro_batch = draft.count_or(KeyId::kMicroBatch, 1);
  training.gradient_accumulation = draft.count_or(KeyId::kGradientAccumulation, 1);
  if (const auto global = draft.settings().count(KeyId::kGlobalBatch)) {
    divide_global(draft, *global);
    return;
  }
  if (!draft.has(KeyId::kMicroBatch)) draft.assume(KeyId::kMicroBatch, "1", "the smallest");
  if (!draft.has(KeyId::kGradientAccumulation)) {
    if (parallel.pipeline > 1) {
      training.gradient_accumulation = parallel.pipeline;
      draft.assume(KeyId::kGradientAccumulation, fmt::format("{}", parallel.pipeline),
                   "as many micro-batches as stages, the fewest that keep all of them busy");
    } else {
      draft.assume(KeyId::kGradientAccumulation, "1", "not given");
    }
  }
  training.global_batch =
      times(times(training.micro_batch, training.gradient_accumulation), parallel.data);
  if (training.global_batch > kLargestCount) {
    draft.refuse(KeyId::kMicroBatch, "E107",
                 fmt::format("global_batch would be more than {}", kLargestCount), "too large");
    training.global_batch = 1;
    return;
  }
  draft.assume(KeyId::kGlobalBatch, fmt::format("{}", training.global_batch),
               "micro_batch x accumulation x data");
}

}  // namespace steelyard
