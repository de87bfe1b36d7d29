#include "predict/band.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/embedded.h"

namespace steelyard {
namespace {

constexpr std::string_view kAny = "any";

double real(Bytes bytes) { return static_cast<double>(bytes.value().value()); }

const ObservedError* find(std::string_view engine, std::string_view implementation,
                          std::string_view term, std::string_view layout) {
  for (const ObservedError& error : observed_errors())
    if (error.engine == engine && error.implementation == implementation && error.term == term &&
        error.layout == layout)
      return &error;
  return nullptr;
}

}  // namespace

const std::vector<ObservedError>& observed_errors() {
  static const std::vector<ObservedError> all = [] {
    std::vector<ObservedError> read;
    for (const EmbeddedFile& file : embedded_files()) {
      if (file.path != "bands.json") continue;
      const nlohmann::json document = nlohmann::json::parse(file.text);
      for (const nlohmann::json& row : document.at("errors"))
        read.push_back({row.at("engine").get<std::string>(),
                        row.at("implementation").get<std::string>(),
                        row.at("layout").get<std::string>(), row.at("term").get<std::string>(),
                        row.at("low").get<double>(), row.at("high").get<double>(),
                        row.at("source").get<std::string>()});
    }
    return read;
  }();
  return all;
}

const ObservedError& observed_error(std::string_view engine, std::string_view implementation,
                                    std::string_view term, std::string_view layout) {
  if (const ObservedError* own = find(engine, implementation, term, layout)) return *own;
  if (const ObservedError* own = find(engine, implementation, term, kAny)) return *own;
  if (const ObservedError* any = find(kAny, kAny, term, kAny)) return *any;
  throw std::logic_error("data/bands.json has no error of any engine for " + std::string(term));
}

namespace {

// As truth/bands.py tells them apart.
constexpr std::string_view kOneRank = "one rank", kTensor = "tensor",
                           kTensorAndStages = "tensor, stages";
std::string_view layout_of(const Job& job) {
  if (job.parallel.tensor == 1) return kOneRank;
  return job.parallel.pipeline == 1 ? kTensor : kTensorAndStages;
}

// Recordings say how far off a run of the recorded versions is, and published runs of an engine how far off it was as they ran
// it. Versions that nobody recorded may be as far off as any published run of any engine.
ObservedError error_of(const Job& job, std::string_view layout, std::string_view term) {
  const ObservedError& own =
      observed_error(name_of(job.engine), name_of(job.implementation), term, layout);
  if (!job.older_libraries) return own;
  ObservedError wide = observed_error(kAny, kAny, term);
  wide.low = std::min(wide.low, own.low);
  wide.high = std::max(wide.high, own.high);
  return wide;
}

// Megatron's runs were measured in 16 bits: how far off is what Transformer Engine keeps in 8, they do not say.
ObservedError error_of_working(const Job& job, std::string_view layout) {
  constexpr std::string_view kWorking = "working";
  if (job.implementation == Implementation::kMegatron &&
      multiplies_in_8_bits(job.training.precision))
    return observed_error(kAny, kAny, kWorking);
  return error_of(job, layout, kWorking);
}

}  // namespace

ErrorBand::ErrorBand(const Job& job) : ErrorBand(job, layout_of(job)) {}

ErrorBand::ErrorBand(const Job& job, std::string_view layout)
    : states_(error_of(job, layout, "states")),
      working_(error_of_working(job, layout)),
      slack_(error_of(job, layout, "slack")),
      slack_comes_back_(job.allocator.expandable_segments) {}

double ErrorBand::least_above(const Job& job) {
  if (job.parallel.tensor == 1) return ErrorBand(job).least_above();
  return std::min(ErrorBand(job, kTensor).least_above(),
                  ErrorBand(job, kTensorAndStages).least_above());
}

Band ErrorBand::widened(const Band& predicted, const BandTerms& terms) const {
  const Piles& piles = terms.piles;
  const double allocated = real(piles.total());
  const double working =
      real(piles[Pile::kActivations] + piles[Pile::kTemporary] + piles[Pile::kCommunication]);
  double below = 0, above = 0;
  const auto add = [&](double low, double high) {
    below -= low;
    above += high;
  };
  add((allocated - working) * states_.low, (allocated - working) * states_.high);
  add(working * working_.low, working * working_.high);
  if (terms.slack) add(allocated * slack_.low, allocated * slack_.high);
  if (terms.runtime != nullptr)
    add(real(terms.runtime->low - terms.runtime->expected),
        real(terms.runtime->high - terms.runtime->expected));
  return {predicted.low - std::min(predicted.low, Bytes(std::llround(below))),
          predicted.high + Bytes(std::llround(above))};
}

}  // namespace steelyard
