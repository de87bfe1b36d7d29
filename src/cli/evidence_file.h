// Files of evidence: mapped into memory, so that a gigabyte costs no copy, and unpacked where gzip packed them.
//
//   auto file = EvidenceFile::open("oom.pickle.gz");
//   read_evidence(file->bytes(), file->name());
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "document/diagnostic.h"
#include "evidence/evidence.h"

namespace steelyard {

class EvidenceFile {
 public:
  // "-" is stdin. E100: it cannot be read; E103: larger than any evidence, packed or not.
  static tl::expected<EvidenceFile, Diagnostic> open(const std::string& path);
  EvidenceFile(EvidenceFile&& other) noexcept;
  EvidenceFile(const EvidenceFile&) = delete;
  EvidenceFile& operator=(const EvidenceFile&) = delete;
  EvidenceFile& operator=(EvidenceFile&&) = delete;
  ~EvidenceFile();

  std::string_view bytes() const {
    return mapped_ != nullptr      ? std::string_view(mapped_, size_)
           : handed_in_ != nullptr ? std::string_view(*handed_in_)
                                   : text_;
  }
  const std::string& name() const { return name_; }  // without folders

 private:
  EvidenceFile() = default;
  std::optional<Diagnostic> map(const std::string& path);
  std::string name_, text_;
  const std::string* handed_in_ = nullptr;  // the caller's own, which outlives the call
  char* mapped_ = nullptr;
  std::size_t size_ = 0;
};

struct GatheredEvidence {
  std::vector<Evidence> evidence;
  std::vector<std::string> runs;  // configurations that lie beside it
  Diagnostics problems;           // of files that were named and are no evidence
};

// Files and folders, as the command line names them. What a folder holds beside evidence is passed over.
GatheredEvidence gather_evidence(const std::vector<std::string>& words);

}  // namespace steelyard
