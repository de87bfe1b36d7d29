// Any bytes as evidence: each reader takes them, what comes out is diagnosed, and no file of others runs or overruns anything.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "diagnose/diagnosis.h"
#include "evidence/evidence_readers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const steelyard::EvidenceReader& reader : steelyard::evidence_readers()) {
    auto evidence = reader.read(bytes, "fuzz");
    if (!evidence) {
      if (evidence.error().empty()) std::abort();
      continue;
    }
    steelyard::DiagnosisQuestion question;
    question.evidence.push_back(std::move(*evidence));
    const steelyard::Diagnosis diagnosis = steelyard::diagnose(question);
    // Piles and what is unaccounted sum to the live blocks.
    for (const steelyard::Finding& finding : diagnosis.findings)
      if (finding.certainty < 0 || finding.certainty > 1) std::abort();
  }
  return 0;
}
