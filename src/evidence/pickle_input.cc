#include "evidence/pickle_input.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "evidence/pickle.h"
#include "evidence/pickle_opcode.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostProblems = 8;

// What is no pickle, told by its first bytes.
struct OtherFile {
  std::string_view start, what;
};
constexpr std::array<OtherFile, 4> kOtherFiles = {{
    {"\x1f\x8b", "compressed with gzip: unpack it first"},
    {"PK", "a zip archive, as torch.save writes it, not a memory snapshot"},
    {"{", "JSON, not a pickle"},
    {"<", "a page of HTML: the snapshot is inside it, encoded"},
}};

}  // namespace

bool PickleInput::is_pickle() {
  if (bytes_.size() > kMaximumPickleBytes) {
    stop(fmt::format("{} bytes are more than the {} that are read", bytes_.size(),
                     kMaximumPickleBytes));
    return false;
  }
  if (bytes_.size() > 1 && static_cast<unsigned char>(bytes_[0]) == kProto) return true;
  for (const OtherFile& other : kOtherFiles)
    if (bytes_.substr(0, other.start.size()) == other.start) {
      stop(std::string(other.what));
      return false;
    }
  stop("not a pickle of protocol 2 to 5");
  return false;
}

std::string_view PickleInput::line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) {
    stop("the file ends within a name");
    return {};
  }
  const std::string_view taken = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return taken;
}

void PickleInput::report(std::string message, std::string code, std::string help) {
  Diagnostic problem;
  problem.code = std::move(code);
  problem.message = std::move(message);
  problem.place.source = fmt::format("{}, byte {}", source_, start_);
  problem.help = std::move(help);
  problems_.push_back(std::move(problem));
  if (problems_.size() >= kMostProblems) ended_ = true;
}

void PickleInput::stop(std::string message) {
  report(std::move(message), "E113",
         "torch.cuda.memory._dump_snapshot(file) writes a snapshot that can be read");
  ended_ = true;
}

void PickleInput::refuse(const std::string& what) {
  report("the pickle wants to " + what, "E114",
         "values alone are read: nothing of a pickle is ever run");
}

}  // namespace steelyard
