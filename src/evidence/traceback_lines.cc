// Python tracebacks in a log: the frames that stand before a failure, and the exceptions that are not about memory.
#include <algorithm>
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"
#include "evidence/traceback.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 6> kTracebackWords = {"Traceback (most recent call last)",
                                                             "File \"",
                                                             "Error: ",
                                                             "Exception: ",
                                                             "Error^^: ",
                                                             "KeyboardInterrupt"};

constexpr std::size_t kMostTracebacks = 256;
constexpr std::size_t kMostTracebackFrames = 200;
constexpr std::int64_t kLinesToSource = 20;
constexpr std::size_t kLongestSource = 160;

// Other readers know these better, or they only pass on what killed a child.
constexpr std::array<std::string_view, 22> kTold = {"out of memory",
                                                    "ChildFailedError",
                                                    "CalledProcessError",
                                                    "OutOfMemory",
                                                    "NVML_SUCCESS",
                                                    "ECC error",
                                                    "NCCL error",
                                                    "ALLOC_FAILED",
                                                    "NOT_INITIALIZED",
                                                    "DataLoader worker",
                                                    "can't allocate memory",
                                                    "not enough memory",
                                                    "would exceed allowed memory",
                                                    "MemoryError",
                                                    "KeyboardInterrupt",
                                                    "unspecified launch failure",
                                                    "illegal memory access",
                                                    "Watchdog caught",
                                                    "Cannot allocate memory",
                                                    "OutOfResources",
                                                    "SignalException",
                                                    "RESOURCE_EXHAUSTED"};

OpenTraceback* traceback_of(const LogLine& line, LogState& state, bool make) {
  const std::int64_t rank = state.rank_of(line).value_or(line.label.value_or(-1));
  const auto found = state.tracebacks.find(rank);
  if (found != state.tracebacks.end()) return &found->second;
  if (!make) return nullptr;
  if (state.tracebacks.size() >= kMostTracebacks) state.tracebacks.clear();
  return &state.tracebacks[rank];
}

// "KeyError: 'input_ids'" or "torch.AcceleratorError: CUDA error: misaligned address" at the front of a line
bool is_exception(std::string_view text) {
  const std::size_t colon = text.find(": ");
  if (colon == std::string_view::npos || colon < 5) return false;
  std::string_view name = text.substr(0, colon);
  while (name.ends_with('^')) name.remove_suffix(1);
  if (!name.ends_with("Error") && !name.ends_with("Exception")) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_printed_word(c) || c == '.'; });
}

void read_exception(std::string_view text, const LogLine& line, LogState& state,
                    OpenTraceback& traceback) {
  traceback.expects_source = false;
  for (const std::string_view told : kTold)
    if (text.find(told) != std::string_view::npos) return;
  MemoryFailure failure;
  failure.kind = MemoryFailure::Kind::kOther;
  failure.message = std::string(text.substr(0, 400));
  state.add(std::move(failure), line);
}

void read_line_of_rank(const LogLine& line, LogState& state, bool called) {
  std::string_view text = without_spaces(line.text);
  while (text.starts_with('^')) text.remove_prefix(1);
  OpenTraceback* traceback = traceback_of(line, state, called);
  if (traceback == nullptr) return;
  if (called && text.find("Traceback (most recent call last)") != std::string_view::npos) {
    // A chained exception goes on below the first: its own frames are what counts.
    *traceback = {};
    traceback->last_line = line.number;
    return;
  }
  if (called) {
    if (auto frame = frame_of_line(text)) {
      if (traceback->ended) *traceback = {};
      if (traceback->frames.size() < kMostTracebackFrames)
        traceback->frames.push_back(std::move(*frame));
      traceback->last_line = line.number;
      traceback->expects_source = true;
      return;
    }
    if (is_exception(text) && !traceback->frames.empty()) {
      read_exception(text, line, state, *traceback);
      return;
    }
  }
  if (traceback->expects_source && !text.empty() && !traceback->frames.empty()) {
    traceback->expects_source = false;
    if (text.find_first_not_of("^~ ") != std::string_view::npos)
      traceback->frames.back() += ": " + std::string(text.substr(0, kLongestSource));
  }
  return;
}

// Other ranks' lines may stand between a frame and its source, a few of them.
bool read_traceback_line(const LogLine& line, LogState& state, bool called) {
  read_line_of_rank(line, state, called);
  bool open = false;
  for (auto& [rank, traceback] : state.tracebacks) {
    (void)rank;
    if (line.number - traceback.last_line > kLinesToSource) traceback.expects_source = false;
    open = open || traceback.expects_source;
  }
  return open;
}

}  // namespace

const LogLineReader kTracebackLines{"traceback", kTracebackWords, read_traceback_line};

}  // namespace steelyard
