#include "evidence/evidence_readers.h"

#include <fmt/format.h>

#include <array>

#include "evidence/snapshot_reader.h"

namespace steelyard {
namespace {

// One row a kind. Readers of texts come after those of binary files; order does not matter: the surest reads.
constexpr std::array kEvidenceReaders = {
    EvidenceReader{"snapshot", recognise_snapshot, read_snapshot},
};

}  // namespace

std::span<const EvidenceReader> evidence_readers() { return kEvidenceReaders; }

tl::expected<Evidence, Diagnostics> read_evidence(std::string_view bytes, std::string_view name) {
  const EvidenceReader* surest = nullptr;
  int how_sure = 0;
  for (const EvidenceReader& reader : evidence_readers()) {
    const int sure = reader.recognise(bytes.substr(0, kEvidenceHead), name);
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
