#include "predict/varied_lengths.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace steelyard {
namespace {

// Distinct lengths, and micro-batches that are played: as many as a prediction can wait for, not as many as it would take.
// From 64 to 512 lengths what Qwen 7B reserves still grows by a tenth at 2,048 tokens and by a third at 4,096 and 8,192.
constexpr std::size_t kLengths = 64;
constexpr std::size_t kMicroBatches = 64;

double normal_share(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

// The inverse, by halving: x with that share below it.
double normal_quantile(double share) {
  double low = -8, high = 8;
  for (int round = 0; round < 60; ++round) {
    const double middle = (low + high) / 2;
    (normal_share(middle) < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

// splitmix64 (Steele, Lea, Flood 2014): every bit of a counter spread over the word.
std::uint64_t scrambled(std::uint64_t counter) {
  std::uint64_t word = counter * 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}

struct LogNormal {
  double middle = 0, width = 0;
  explicit LogNormal(const SampleLengths& samples) {
    const double variance = std::log1p(std::pow(samples.deviation / samples.mean, 2));
    width = std::sqrt(variance);
    middle = std::log(samples.mean) - variance / 2;
  }
  // Of samples that have at most so many tokens.
  double share_up_to(std::int64_t tokens) const {
    return normal_share((std::log(static_cast<double>(tokens)) - middle) / width);
  }
};

// Those of one epoch, or as many as are played.
std::size_t micro_batches_of(const Training& training) {
  const SampleLengths& samples = *training.lengths;
  if (samples.samples == 0) return kMicroBatches;
  double left = static_cast<double>(samples.samples);
  if (samples.drops_long) left *= LogNormal(samples).share_up_to(training.sequence_length);
  const double batches = left / static_cast<double>(training.micro_batch);
  return static_cast<std::size_t>(std::clamp(batches, 1.0, static_cast<double>(kMicroBatches)));
}

bool have_the_same_shape(const Program& a, const Program& b) {
  if (a.slot_count() != b.slot_count() || a.node_count() != b.node_count()) return false;
  for (std::size_t id = 0; id < a.node_count(); ++id) {
    const Node& one = a.node(static_cast<NodeId>(id));
    const Node& other = b.node(static_cast<NodeId>(id));
    if (one.kind != other.kind || one.times != other.times ||
        one.end - one.begin != other.end - other.begin)
      return false;
  }
  return true;
}

}  // namespace

std::int64_t padded_length(const SampleLengths& samples, std::int64_t most,
                           std::int64_t micro_batch, double share) {
  const LogNormal spread(samples);
  if (spread.width == 0)
    return std::min(most, static_cast<std::int64_t>(std::llround(samples.mean)));
  double of_one = std::pow(share, 1.0 / static_cast<double>(micro_batch));
  if (samples.drops_long) of_one *= spread.share_up_to(most);
  const double tokens = std::exp(spread.middle + spread.width * normal_quantile(of_one));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::llround(std::min(tokens, 1e15))),
                                  1, most);
}

VariedLengths::VariedLengths(const Job& job, std::int64_t stage, const Program& longest) {
  if (!job.training.lengths) return;
  for (std::size_t index = 0; index < kLengths; ++index) {
    auto one = std::make_unique<OfLength>();
    one->job = job;
    const double share = (static_cast<double>(index) + 0.5) / static_cast<double>(kLengths);
    one->job.training.sequence_length = Tokens(padded_length(
        *job.training.lengths, job.training.sequence_length, job.training.micro_batch, share));
    one->stages = std::make_unique<StagePrograms<Checked>>(one->job, SlotDetail::kTensors);
    one->stages->build(stage);
    if (!have_the_same_shape(longest, one->stages->program())) continue;
    of_length_.push_back({&one->stages->program(), &one->stages->book().tensors});
    programs_.push_back(std::move(one));
  }
  if (of_length_.empty()) return;
  micro_batches_ = micro_batches_of(job.training);
  const auto of_step = std::max<std::int64_t>(1, job.training.gradient_accumulation);
  steps_ = static_cast<int>((static_cast<std::int64_t>(micro_batches_) + of_step - 1) / of_step);
}

// Every length once before one comes again.
MicroBatchLengths VariedLengths::ordered(int order) const {
  MicroBatchLengths lengths{of_length_, {}};
  if (of_length_.empty()) return lengths;
  std::vector<std::size_t> left(of_length_.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::uint64_t counter = static_cast<std::uint64_t>(order) << 32;
  for (std::size_t drawn = left.size(); drawn > 1; --drawn)
    std::swap(left[drawn - 1], left[scrambled(++counter) % drawn]);
  left.resize(std::min(left.size(), micro_batches_));
  lengths.order = std::move(left);
  return lengths;
}

}  // namespace steelyard
