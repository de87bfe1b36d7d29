// Any bytes as a log: read whole, line by line, and joined with itself as the log of another rank.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "evidence/incident.h"
#include "evidence/log_reader.h"

namespace {

void look_at(const steelyard::Evidence& evidence) {
  if (evidence.kind.empty() || evidence.file.empty()) std::abort();
  for (const steelyard::MemoryFailure& failure : evidence.failures)
    if (failure.place.at.empty() || failure.message.empty()) std::abort();
  for (const steelyard::MemoryReading& reading : evidence.readings)
    if (reading.place.at.empty() || reading.source.empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<steelyard::Evidence> evidence;
  evidence.push_back(steelyard::read_log(text, "rank0.log"));
  look_at(evidence.back());
  evidence.push_back(steelyard::read_log(text.substr(size / 2), "rank1.log"));
  const steelyard::Incident incident = steelyard::join_incident(evidence);
  for (const steelyard::IncidentFailure& failure : incident.order)
    if (failure.evidence >= evidence.size() ||
        failure.failure >= evidence[failure.evidence].failures.size())
      std::abort();
  return 0;
}
