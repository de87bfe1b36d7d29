#include "evidence/evidence_readers.h"

#include <fmt/format.h>

#include <array>

#include "evidence/flight_recorder.h"
#include "evidence/foreign_file.h"
#include "evidence/log_reader.h"
#include "evidence/memory_timeline.h"
#include "evidence/profiler_trace.h"
#include "evidence/snapshot_reader.h"

namespace steelyard {
namespace {

// Any text may be a log: what no other reader is surer of.
int recognise_log(std::string_view head, std::string_view name) {
  return head.empty() || head.front() == '\x80' || foreign_file(head, name) ? 0 : 10;
}

tl::expected<Evidence, Diagnostics> read_log_file(std::string_view bytes, std::string_view name) {
  return read_log(bytes, name);
}

// One row a kind. Readers of texts come after those of binary files; order does not matter: the surest reads.
constexpr std::array kEvidenceReaders = {
    EvidenceReader{"snapshot", recognise_snapshot, read_snapshot},
    EvidenceReader{"flight recorder", recognise_flight_recorder, read_flight_recorder},
    EvidenceReader{"profiler trace", recognise_profiler_trace, read_profiler_trace},
    EvidenceReader{"memory timeline", recognise_memory_timeline, read_memory_timeline},
    EvidenceReader{"log", recognise_log, read_log_file},
};

}  // namespace

std::span<const EvidenceReader> evidence_readers() { return kEvidenceReaders; }

tl::expected<Evidence, Diagnostics> read_evidence(std::string_view bytes, std::string_view name) {
  const std::string_view head = bytes.substr(0, kEvidenceHead);
  if (const auto foreign = foreign_file(head, name)) {
    Diagnostic other;
    other.code = "E116";
    other.message = fmt::format("{} {}", name, foreign->what);
    other.place.source = std::string(name);
    other.help = foreign->help;
    return tl::unexpected(Diagnostics{other});
  }
  const EvidenceReader* surest = nullptr;
  int how_sure = 0;
  for (const EvidenceReader& reader : evidence_readers()) {
    const int sure = reader.recognise(head, name);
    if (sure <= how_sure) continue;
    surest = &reader;
    how_sure = sure;
  }
  if (surest != nullptr) return surest->read(bytes, name);
  Diagnostic unknown;
  unknown.code = "E115";
  unknown.message = fmt::format("{} is no evidence that is read here", name);
  unknown.place.source = std::string(name);
  return tl::unexpected(Diagnostics{unknown});
}

}  // namespace steelyard
