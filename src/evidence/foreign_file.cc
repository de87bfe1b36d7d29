#include "evidence/foreign_file.h"

#include <algorithm>
#include <array>

namespace steelyard {
namespace {

using std::string_view_literals::operator""sv;

struct Signature {
  std::size_t at;
  std::string_view bytes;
  std::string_view what;
  std::string_view help;
};

constexpr std::array<Signature, 23> kSignatures = {
    {{0, "version https://git-lfs.github.com"sv,
      "is a Git LFS pointer: the file itself was not downloaded", "fetch it with `git lfs pull`"},
     {0, "<!DOCTYPE html"sv, "is an HTML page, not the file that was meant to be downloaded",
      "download the raw file; a page of a login or an error is often saved in its place"},
     {0, "<!doctype html"sv, "is an HTML page, not the file that was meant to be downloaded",
      "download the raw file"},
     {0, "<html"sv, "is an HTML page, not the file that was meant to be downloaded",
      "download the raw file"},
     {0, "<?xml"sv, "is XML, which no reader here knows", ""},
     {0,
      "\x7f"
      "ELF"sv,
      "is a program, a library or a core dump: it says how a process crashed, not what it "
      "allocated",
      "give the log of the run, or its memory snapshot"},
     {0, "PK\x03\x04"sv, "is a zip archive, as torch.save writes checkpoints",
      "unpack it, or give the snapshot itself"},
     {257, "ustar"sv, "is a tar archive", "unpack it and give its folder"},
     {0, "\x1f\x8b"sv, "is compressed with gzip", "unpack it with gunzip"},
     {0, "BZh"sv, "is compressed with bzip2", "unpack it with bunzip2"},
     {0,
      "\xfd"
      "7zXZ"sv,
      "is compressed with xz", "unpack it with unxz"},
     {0, "\x28\xb5\x2f\xfd"sv, "is compressed with zstd", "unpack it with unzstd"},
     {0, "7z\xbc\xaf"sv, "is a 7z archive", "unpack it"},
     {0, "GGUF"sv, "is a model in GGUF, not evidence of a run", ""},
     {0, "\x89HDF"sv, "is an HDF5 file, not evidence of a run", ""},
     {0, "\x93NUMPY"sv, "is a NumPy array, not evidence of a run", ""},
     {0, "SQLite format 3"sv,
      "is an SQLite database, as Nsight Systems exports one: it is not read here",
      "the allocator's blocks are not in it; record a memory snapshot"},
     {0, "\x89PNG"sv, "is a picture", "give the file that the picture was drawn from"},
     {0, "\xff\xd8\xff"sv, "is a picture", "give the file that the picture was drawn from"},
     {0, "%PDF"sv, "is a PDF", "copy the text out of it"},
     {0, "PAR1"sv, "is a Parquet file, not evidence of a run", ""},
     {0, "ARROW1"sv, "is an Arrow file, not evidence of a run", ""},
     {0, "JFIF"sv, "is a picture", ""}}};

// Eight bytes of length, then the header's brace: a safetensors file.
bool is_safetensors(std::string_view head) {
  if (head.size() < 10 || head[8] != '{' || head[9] != '"') return false;
  return head[4] == '\0' && head[5] == '\0' && head[6] == '\0' && head[7] == '\0';
}

// model.safetensors.index.json: {"metadata": {"total_size": 28}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors"}}
bool is_checkpoint_index(std::string_view head) {
  return head.front() == '{' &&
         head.substr(0, 4096).find("\"weight_map\"") != std::string_view::npos;
}

bool is_binary(std::string_view head) {
  const std::string_view front = head.substr(0, 4096);
  const auto count = std::count_if(front.begin(), front.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 9 || (byte > 13 && byte < 27) || (byte > 27 && byte < 32);
  });
  return static_cast<std::size_t>(count) * 20 > front.size();
}

}  // namespace

std::optional<ForeignFile> foreign_file(std::string_view head, std::string_view name) {
  if (head.empty())
    return ForeignFile{
        "is empty: whoever writes it was killed before, or another process has it",
        "a missing or empty file of one rank is itself a sign: that rank ended first"};
  if (head.find("memory timeline") != std::string_view::npos ||
      name.find("memory-timeline") != std::string_view::npos) {
    if (head.starts_with("<html") || head.starts_with("<!DOCTYPE"))
      return ForeignFile{"is a memory timeline as HTML: it holds a picture, no numbers",
                         "export it again with a name that ends in .json or .raw.json.gz"};
  }
  for (const Signature& known : kSignatures)
    if (head.size() >= known.at + known.bytes.size() &&
        head.substr(known.at, known.bytes.size()) == known.bytes)
      return ForeignFile{std::string(known.what), std::string(known.help)};
  if (is_safetensors(head))
    return ForeignFile{"is a safetensors checkpoint: weights, not evidence of a run",
                       "`steelyard compare RUN FILE` holds a run's parameters against it"};
  if (is_checkpoint_index(head))
    return ForeignFile{"is the index of a checkpoint: names of weights, not evidence of a run",
                       "`steelyard compare RUN INDEX` holds a run's parameters against it"};
  if (head.front() != '\x80' && is_binary(head))
    return ForeignFile{"is binary, and of no kind that is read here",
                       "give a log, a snapshot, a trace or a dump"};
  return std::nullopt;
}

}  // namespace steelyard
