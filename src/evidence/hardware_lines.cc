// A device that is broken, and kernels that went wrong: no smaller batch helps.
//
//   CUDA error: uncorrectable ECC error encountered · NVRM: Xid (PCI:0000:4e:00): 48, ... · GPU has fallen off the bus
#include <array>

#include "evidence/log_line_readers.h"

namespace steelyard {
namespace {

struct Fault {
  std::string_view words;
  MemoryFailure::Kind kind;
};
constexpr std::array<Fault, 14> kFaults = {
    {{"uncorrectable ECC error", MemoryFailure::Kind::kHardware},
     {"cudaErrorECCUncorrectable", MemoryFailure::Kind::kHardware},
     {"NVRM: Xid", MemoryFailure::Kind::kHardware},
     {"fallen off the bus", MemoryFailure::Kind::kHardware},
     {"Uncorrectable NVLink error", MemoryFailure::Kind::kHardware},
     {"uncorrectable NVLink error", MemoryFailure::Kind::kHardware},
     {"GPU is lost", MemoryFailure::Kind::kHardware},
     {"cudaErrorDevicesUnavailable", MemoryFailure::Kind::kHardware},
     {"all CUDA-capable devices are busy or unavailable", MemoryFailure::Kind::kHardware},
     {"an illegal memory access was encountered", MemoryFailure::Kind::kOther},
     {"device-side assert triggered", MemoryFailure::Kind::kOther},
     {"misaligned address", MemoryFailure::Kind::kOther},
     {"unspecified launch failure", MemoryFailure::Kind::kOther},
     {"OutOfResources: out of resource", MemoryFailure::Kind::kOther}}};

constexpr std::array<std::string_view, 14> kFaultWords = [] {
  std::array<std::string_view, 14> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = kFaults[i].words;
  return words;
}();

bool read_fault(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  for (const Fault& fault : kFaults) {
    const std::size_t at = text.find(fault.words);
    if (at == std::string_view::npos) continue;
    // A bus of the cache line a driver mapped is no fault of a run: "Xid ... 43" is the program's own.
    MemoryFailure failure;
    failure.kind = fault.kind;
    failure.backend = "device";
    failure.message = text.substr(at > 60 ? at - 60 : 0, 300);
    state.add(std::move(failure), line, at);
    return false;
  }
  return false;
}

}  // namespace

const LogLineReader kHardwareLines{"hardware", kFaultWords, read_fault};

}  // namespace steelyard
