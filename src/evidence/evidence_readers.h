// The readers of evidence: one row each. The best of those that recognise a file reads it.
//
//   const auto evidence = read_evidence(bytes, "oom.pickle");
//   if (!evidence) ...        E1xx: "oom.pickle is a Git LFS pointer: the file itself was not downloaded"
//
// To support another kind of file: a file with `recognise_` and `read_` of its own, a row in evidence_readers.cc and a fuzz
// target.
#pragma once

#include <span>
#include <string_view>
#include <tl/expected.hpp>

#include "evidence/evidence.h"

namespace steelyard {

struct EvidenceReader {
  std::string_view kind;  // "snapshot"
  // How sure it is, from the first 64 KiB and the name without folders: 0 not at all; 100 certain, as by a magic number.
  int (*recognise)(std::string_view head, std::string_view name) = nullptr;
  tl::expected<Evidence, Diagnostics> (*read)(std::string_view bytes,
                                              std::string_view name) = nullptr;
};

constexpr std::size_t kEvidenceHead = std::size_t{64} << 10;

std::span<const EvidenceReader> evidence_readers();

// `bytes` are unpacked already (gzip is the face's); they need not outlive the answer.
tl::expected<Evidence, Diagnostics> read_evidence(std::string_view bytes, std::string_view name);

}  // namespace steelyard
