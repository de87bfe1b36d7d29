#include "predict/step_band.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/embedded.h"
#include "machine/device.h"

namespace steelyard {
namespace {

// How the devices of one machine reach each other.
bool has_switch_or_mesh(const Device& device) {
  return device.fabric == Fabric::kNvswitch || device.fabric == Fabric::kNvlinkMesh ||
         device.fabric == Fabric::kInfinity;
}

// The same way to its peers, where there are any.
bool is_linked_alike(const ObservedStepError& error, const Device& observed, const Job& job) {
  const bool several = job.cluster.devices > 1;
  return error.several == several &&
         (!several || has_switch_or_mesh(observed) == has_switch_or_mesh(*job.cluster.device));
}

// Of those that `is_asked` takes; false: of none.
template <class Asked>
bool widen_by(StepBand& band, const Asked& is_asked) {
  bool any = false;
  for (const ObservedStepError& error : observed_step_errors()) {
    const Device* observed = find_device(error.device).device;
    if (observed == nullptr || !is_asked(error, *observed)) continue;
    any = true;
    band.low = std::min(band.low, error.low);
    band.high = std::max(band.high, error.high);
  }
  return any;
}

}  // namespace

const std::vector<ObservedStepError>& observed_step_errors() {
  static const std::vector<ObservedStepError> all = [] {
    std::vector<ObservedStepError> read;
    for (const EmbeddedFile& file : embedded_files()) {
      if (file.path != "bands.json") continue;
      const nlohmann::json document = nlohmann::json::parse(file.text);
      for (const nlohmann::json& row : document.at("steps"))
        read.push_back({row.at("device").get<std::string>(), row.at("engine").get<std::string>(),
                        row.at("implementation").get<std::string>(), row.at("devices") == "several",
                        row.at("low").get<double>(), row.at("high").get<double>(),
                        row.at("source").get<std::string>()});
    }
    return read;
  }();
  return all;
}

namespace {

// Rows of one source share a cluster, a version and a person who measured: another's steps lie further out. By so much wider the
// bands hold nine in ten of the steps of sources that none was made from (docs/validation.md, judges).
constexpr double kOfOthers = 1.2;

StepBand observed_band(const Job& job) {
  const Device& device = *job.cluster.device;
  const std::string_view engine = name_of(job.engine), code = name_of(job.implementation);
  const bool several = job.cluster.devices > 1;
  StepBand band;
  for (const ObservedStepError& error : observed_step_errors())
    if (error.device == device.name && error.engine == engine && error.implementation == code &&
        error.several == several)
      return {error.low, error.high, true, error.source};
  const std::string none = fmt::format("no published step of {} with {} on {} {}", engine, code,
                                       several ? "several" : "one", device.name);
  const char* links = !several                     ? "single devices"
                      : has_switch_or_mesh(device) ? "devices with a switch or direct links"
                                                   : "devices on PCIe";
  if (widen_by(band, [&](const ObservedStepError& error, const Device& observed) {
        return is_linked_alike(error, observed, job) &&
               observed.architecture == device.architecture;
      })) {
    band.says = fmt::format("{}; the widest of {} of {}", none, links, device.architecture);
  } else {
    widen_by(band, [&](const ObservedStepError& error, const Device& observed) {
      return is_linked_alike(error, observed, job);
    });
    band.says = fmt::format("{}; the widest of {}", none, links);
  }
  return band;
}

}  // namespace

StepBand step_band(const Job& job) {
  StepBand band = observed_band(job);
  band.low *= kOfOthers;
  band.high *= kOfOthers;
  return band;
}

}  // namespace steelyard
