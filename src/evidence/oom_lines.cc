// Failed allocations of device allocators in a log, wrapped or not, and the warnings that are none.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/oom_text.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 6> kOomWords = {
    " out of memory. T",           " out of memory.",
    "MPS backend out of memory",   "emory allocation failed with OOM",
    "would exceed allowed memory", "RESOURCE_EXHAUSTED"};

// A sentence of a thousand characters in a box of forty.
constexpr std::size_t kMostPieces = 30;

// What begins another message: a wrapped sentence does not go on there.
bool begins_another(const LogLine& line) {
  const std::string_view text = without_spaces(line.text);
  if (text.empty() && !line.boxed) return true;
  for (const std::string_view beginning :
       {"File \"", "Traceback", "=====", "-----", "During handling", "[20"})
    if (text.starts_with(beginning)) return true;
  return line.text.find(" | INFO") != std::string::npos;
}

// The joined sentence: with a space at each end of a line, or, where a terminal cut within words, without.
OomText joined(const WrappedMessage& wrapped) {
  std::string spaced, glued;
  for (const std::string& piece : wrapped.pieces) {
    if (!spaced.empty()) spaced += ' ';
    spaced += without_spaces(piece);
    glued += piece;
  }
  const auto with_spaces = find_oom_text(spaced);
  const auto without = find_oom_text(glued);
  if (without && (!with_spaces || without->fields > with_spaces->fields)) return *without;
  return with_spaces.value_or(OomText{});
}

void close_wrapped(LogState& state) {
  if (!state.wrapped) return;
  const WrappedMessage wrapped = std::move(*state.wrapped);
  state.wrapped.reset();
  OomText text = joined(wrapped);
  const std::string& first = wrapped.pieces.front();
  const bool is_exception = first.find("Error: ") != std::string::npos;
  if (text.fields == 0 && !is_exception) return;
  if (text.fields == 0) {
    const auto bare = find_oom_text(first);
    if (!bare) return;
    text = *bare;
  }
  const auto begin = find_oom_text(first);
  state.add(std::move(text.failure), wrapped.line, begin ? begin->begin : 0);
}

// "memory allocation failed with OOM on device 0 while trying to allocate 512 bytes (free: 0, total: 1)": the allocator
// then empties its cache and asks again. The same request twice, one right after the other, has failed for good.
void read_warning(const LogLine& line, LogState& state) {
  const std::size_t at = line.text.find("emory allocation failed with OOM");
  if (at == std::string::npos) return;
  const std::string_view rest = std::string_view(line.text).substr(at);
  MemoryFailure failure;
  failure.kind = MemoryFailure::Kind::kDeviceAllocator;
  failure.backend = "cuda";
  failure.era = "2.12+";
  failure.device = integer_behind(rest, "on device ");
  failure.tried = size_behind(rest, "trying to allocate ");
  failure.free = size_behind(rest, "free: ", 1.0);
  failure.capacity = size_behind(rest, "total: ", 1.0);
  failure.message = "m" + std::string(rest.substr(0, 300));
  failure.fatal = false;
  auto& failures = state.evidence.failures;
  if (failure.tried && !failures.empty() && failures.back().era == failure.era &&
      failures.back().tried == failure.tried && failures.back().device == failure.device) {
    failures.back().fatal = true;
    return;
  }
  state.add(std::move(failure), line, at);
}

// cudaMallocAsync: "Allocation on device 0 would exceed allowed memory. (out of memory)", then lines with its numbers.
bool read_async(const LogLine& line, LogState& state, bool called) {
  if (called && line.text.find("would exceed allowed memory") != std::string::npos) {
    MemoryFailure failure;
    failure.kind = MemoryFailure::Kind::kDeviceAllocator;
    failure.backend = "cuda";
    failure.era = "cudaMallocAsync";
    failure.device = integer_behind(line.text, "Allocation on device ");
    failure.message = line.text.substr(0, 300);
    state.add(std::move(failure), line);
    state.table = "cudaMallocAsync";
    return true;
  }
  if (state.table != "cudaMallocAsync" || state.evidence.failures.empty()) return false;
  MemoryFailure& failure = state.evidence.failures.back();
  auto colon = behind(line.text, ": ");
  const auto size = colon ? take_printed_size(*colon) : std::nullopt;
  if (!size) {
    // "PyTorch limit (set by user-supplied memory fraction)": its number stands in the next line
    if (line.text.find("PyTorch limit") != std::string::npos) return true;
    state.table.clear();
    return false;
  }
  const std::string_view text = line.text;
  if (text.find("Currently allocated") != std::string_view::npos)
    failure.allocated = size;
  else if (text.find("Requested") != std::string_view::npos)
    failure.tried = size;
  else if (text.find("Device limit") != std::string_view::npos)
    failure.capacity = size;
  else if (text.find("Free (according") != std::string_view::npos)
    failure.free = size;
  else if (text.starts_with(" "))
    failure.allowed = size;
  return true;
}

// JAX and TensorFlow: "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1073741824 bytes."
void read_exhausted(const LogLine& line, LogState& state) {
  const auto rest = behind(line.text, "RESOURCE_EXHAUSTED");
  if (!rest || rest->find("trying to allocate ") == std::string_view::npos) return;
  MemoryFailure failure;
  failure.kind = MemoryFailure::Kind::kDeviceAllocator;
  failure.backend = "xla";
  failure.tried = size_behind(*rest, "trying to allocate ");
  failure.message = "RESOURCE_EXHAUSTED" + std::string(rest->substr(0, 300));
  state.add(std::move(failure), line);
}

bool read_oom_line(const LogLine& line, LogState& state, bool called) {
  bool open = read_async(line, state, called);
  if (called) {
    read_warning(line, state);
    read_exhausted(line, state);
  }
  auto found = called ? find_oom_text(line.text) : std::nullopt;
  if (state.wrapped && !found) {
    const LogLine& first = state.wrapped->line;
    // Another rank's line came between two of ours.
    if (line.rank != first.rank && (line.rank || !first.rank) && line.number != 0 && line.rank)
      return true;
    if (begins_another(line)) {
      close_wrapped(state);
    } else {
      state.wrapped->pieces.push_back(line.text);
      if (joined(*state.wrapped).whole || state.wrapped->pieces.size() >= kMostPieces)
        close_wrapped(state);
    }
    return open || state.wrapped.has_value();
  }
  while (found) {
    close_wrapped(state);
    const std::size_t begin = found->begin;
    const auto next = find_oom_text(line.text, begin + 16);
    if (found->whole || next) {
      state.add(std::move(found->failure), line, begin);
    } else {
      state.wrapped = WrappedMessage{{line.text}, line};
      state.wrapped->pieces.front() = line.text.substr(begin >= 24 ? begin - 24 : 0);
    }
    found = next;
  }
  return open || state.wrapped.has_value();
}

}  // namespace

const LogLineReader kOomLines{"oom", kOomWords, read_oom_line};

}  // namespace steelyard
