#include "cli/evidence_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "cli/input_file.h"
#include "cli/read_invocation.h"
#include "evidence/evidence_readers.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostEvidenceBytes = std::size_t{4} << 30;
constexpr InputKind kEvidenceOfPipe = {"evidence", std::size_t{256} << 20};
constexpr std::size_t kMostFilesOfFolder = 4096;
constexpr int kDeepestFolder = 4;

Diagnostic no_evidence(const std::string& path, std::string_view why, std::string code = "E100") {
  return command_line_problem(std::move(code), fmt::format("cannot read {}: {}", path, why));
}

bool is_packed(std::string_view bytes) {
  return bytes.size() > 18 && bytes.substr(0, 2) == "\x1f\x8b";
}

// All members of a gzip file, one after the other; empty where it is damaged or far too large.
bool unpack(std::string_view packed, std::string& text) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return false;
  std::vector<unsigned char> room(std::size_t{1} << 20);
  std::size_t at = 0;
  int status = Z_OK;
  bool well = true;
  while (well && status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const std::size_t next = std::min(packed.size() - at, std::size_t{1} << 30);
      if (next == 0) break;
      // zlib reads only; its field is not const in older versions.
      stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(packed.data() + at));
      stream.avail_in = static_cast<unsigned>(next);
      at += next;
    }
    stream.next_out = room.data();
    stream.avail_out = static_cast<unsigned>(room.size());
    status = inflate(&stream, Z_NO_FLUSH);
    well = status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
    text.append(reinterpret_cast<const char*>(room.data()), room.size() - stream.avail_out);
    if (text.size() > kMostEvidenceBytes) well = false;
    if (status == Z_STREAM_END && (stream.avail_in > 0 || at < packed.size())) {
      status = inflateReset(&stream) == Z_OK ? Z_OK : Z_STREAM_END;
    }
    if (status == Z_BUF_ERROR && stream.avail_in == 0 && at == packed.size())
      break;  // cut: what came is read
  }
  inflateEnd(&stream);
  return well;
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
      mapped_(other.mapped_),
      size_(other.size_) {
  other.mapped_ = nullptr;
}

EvidenceFile::~EvidenceFile() {
  if (mapped_ != nullptr) ::munmap(mapped_, size_);
}

tl::expected<EvidenceFile, Diagnostic> EvidenceFile::open(const std::string& path) {
  EvidenceFile file;
  file.name_ = path == "-" ? "<stdin>" : std::filesystem::path(path).filename().string();
  struct stat facts {};
  const int descriptor = path == "-" ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (path != "-" && descriptor < 0)
    return tl::unexpected(
        no_evidence(path, errno == ENOENT ? "no such file" : std::strerror(errno)));
  const bool plain = descriptor >= 0 && ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  if (plain && static_cast<std::size_t>(facts.st_size) > kMostEvidenceBytes) {
    ::close(descriptor);
    return tl::unexpected(no_evidence(path, "larger than 4 GiB", "E103"));
  }
  if (plain && facts.st_size > 0) {
    void* mapped = ::mmap(nullptr, static_cast<std::size_t>(facts.st_size), PROT_READ, MAP_PRIVATE,
                          descriptor, 0);
    if (mapped != MAP_FAILED) {
      file.mapped_ = static_cast<char*>(mapped);
      file.size_ = static_cast<std::size_t>(facts.st_size);
      ::madvise(mapped, file.size_, MADV_SEQUENTIAL);
    }
  }
  if (descriptor >= 0) ::close(descriptor);
  if (file.mapped_ == nullptr && !(plain && facts.st_size == 0)) {
    auto text = read_input(path, kEvidenceOfPipe);
    if (!text) return tl::unexpected(std::move(text.error()));
    file.text_ = std::move(*text);
  }
  if (is_packed(file.bytes())) {
    std::string text;
    if (!unpack(file.bytes(), text))
      return tl::unexpected(no_evidence(path, "its gzip form is damaged"));
    if (file.mapped_ != nullptr) ::munmap(file.mapped_, file.size_);
    file.mapped_ = nullptr;
    file.text_ = std::move(text);
    if (file.name_.size() > 3 && file.name_.substr(file.name_.size() - 3) == ".gz")
      file.name_.resize(file.name_.size() - 3);
  }
  return file;
}

GatheredEvidence gather_evidence(const std::vector<std::string>& words) {
  namespace fs = std::filesystem;
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
    std::error_code failed;
    if (word == "-" || !fs::is_directory(word, failed)) {
      read_one(word, true);
      continue;
    }
    std::vector<std::string> paths;
    for (auto at = fs::recursive_directory_iterator(
             word, fs::directory_options::skip_permission_denied, failed);
         !failed && at != fs::recursive_directory_iterator() && paths.size() < kMostFilesOfFolder;
         at.increment(failed)) {
      if (at.depth() > kDeepestFolder) at.disable_recursion_pending();
      std::error_code unknown;
      if (at->is_regular_file(unknown)) paths.push_back(at->path().string());
    }
    std::sort(paths.begin(), paths.end());
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
