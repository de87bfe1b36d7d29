#include "cli/evidence_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "cli/gzip.h"
#include "cli/input_file.h"
#include "cli/read_invocation.h"
#include "evidence/evidence_readers.h"
#include "world/world.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostEvidenceBytes = std::size_t{4} << 30;
constexpr InputKind kEvidenceOfPipe = {"evidence", std::size_t{256} << 20};
constexpr std::size_t kMostFilesOfFolder = 4096;
constexpr int kDeepestFolder = 4;

Diagnostic no_evidence(const std::string& path, std::string_view why, std::string code = "E100") {
  return command_line_problem(std::move(code), fmt::format("cannot read {}: {}", path, why));
}

bool is_configuration(const std::filesystem::path& path) {
  const std::string end = path.extension().string();
  const std::string name = path.filename().string();
  if (name == "truth.json") return false;
  return end == ".toml" || end == ".yaml" || end == ".yml" || end == ".sbatch" || end == ".sh" ||
         (end == ".json" &&
          (name.find("config") != std::string::npos || name.find("run") != std::string::npos));
}

}  // namespace

EvidenceFile::EvidenceFile(EvidenceFile&& other) noexcept
    : name_(std::move(other.name_)),
      text_(std::move(other.text_)),
      handed_in_(other.handed_in_),
      mapped_(other.mapped_),
      size_(other.size_) {
  other.mapped_ = nullptr;
}

EvidenceFile::~EvidenceFile() {
  if (mapped_ != nullptr) ::munmap(mapped_, size_);
}

std::optional<Diagnostic> EvidenceFile::map(const std::string& path) {
  struct stat facts {};
  const int descriptor = path == "-" ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (path != "-" && descriptor < 0)
    return no_evidence(path, errno == ENOENT ? "no such file" : std::strerror(errno));
  const bool plain = descriptor >= 0 && ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  if (plain && static_cast<std::size_t>(facts.st_size) > kMostEvidenceBytes) {
    ::close(descriptor);
    return no_evidence(path, "larger than 4 GiB", "E103");
  }
  if (plain && facts.st_size > 0) {
    void* mapped = ::mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE,
                          descriptor, 0);
    if (mapped != MAP_FAILED) {
      mapped_ = static_cast<char*>(mapped);
      size_ = static_cast<std::size_t>(facts.st_size);
      ::madvise(mapped, size_, MADV_SEQUENTIAL);
    }
  }
  if (descriptor >= 0) ::close(descriptor);
  if (mapped_ == nullptr && !(plain && facts.st_size == 0)) {
    auto text = read_input(path, kEvidenceOfPipe);
    if (!text) return std::move(text.error());
    text_ = std::move(*text);
  }
  return std::nullopt;
}

tl::expected<EvidenceFile, Diagnostic> EvidenceFile::open(const std::string& path) {
  EvidenceFile file;
  file.name_ = path == "-" ? "<stdin>" : std::filesystem::path(path).filename().string();
  const std::string* handed_in = world().text_in_memory(path);
  if (handed_in == nullptr && !world().has_machine())
    return tl::unexpected(no_evidence(path, "no such file"));
  if (handed_in != nullptr)
    file.handed_in_ = handed_in;
  else if (auto problem = file.map(path))
    return tl::unexpected(std::move(*problem));
  if (is_packed(file.bytes())) {
    std::string text;
    if (!unpack(file.bytes(), kMostEvidenceBytes, text))
      return tl::unexpected(no_evidence(path, "its gzip form is damaged"));
    if (file.mapped_ != nullptr) ::munmap(file.mapped_, file.size_);
    file.mapped_ = nullptr;
    file.handed_in_ = nullptr;
    file.text_ = std::move(text);
    if (file.name_.size() > 3 && file.name_.substr(file.name_.size() - 3) == ".gz")
      file.name_.resize(file.name_.size() - 3);
  }
  return file;
}

GatheredEvidence gather_evidence(const std::vector<std::string>& words) {
  GatheredEvidence gathered;
  const auto read_one = [&](const std::string& path, bool named) {
    auto file = EvidenceFile::open(path);
    if (!file) {
      if (named) gathered.problems.push_back(std::move(file.error()));
      return;
    }
    auto evidence = read_evidence(file->bytes(), file->name());
    if (evidence)
      gathered.evidence.push_back(std::move(*evidence));
    else if (named)
      gathered.problems.insert(gathered.problems.end(), evidence.error().begin(),
                               evidence.error().end());
  };
  for (const std::string& word : words) {
    const PathKind kind = word == "-" ? PathKind::kOther : world().kind_of(word);
    if (kind != PathKind::kFolder && kind != PathKind::kEmptyFolder) {
      read_one(word, true);
      continue;
    }
    const auto paths = world().files_below(word, kDeepestFolder, kMostFilesOfFolder);
    for (const std::string& path : paths) {
      if (is_configuration(path))
        gathered.runs.push_back(path);
      else
        read_one(path, false);
    }
  }
  return gathered;
}

}  // namespace steelyard
