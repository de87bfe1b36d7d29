// torch.cuda.memory_summary() in a log, and torch.cuda.list_gpu_processes().
//
//   |                  PyTorch CUDA memory summary, device ID 0                 |
//   |            CUDA OOMs: 1            |        cudaMalloc retries: 2         |
//   |        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
//   | Allocated memory      |  14324 MiB |  15000 MiB |  90000 MiB |  75676 MiB |
//   | GPU reserved memory   |  16000 MiB |  16000 MiB |  16000 MiB |      0 B   |
//
// Units are powers of 1024, also where old versions print KB, MB and GB; numbers are cut to whole units. Source:
// torch/cuda/memory.py.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 7> kSummaryWords = {"memory summary, device ID",
                                                           "cudaMalloc retries: ",
                                                           "| Allocated memory ",
                                                           "| GPU reserved memory ",
                                                           "| Active memory ",
                                                           "| Requested memory ",
                                                           " MB GPU memory"};

MemoryReading& open_summary(LogState& state) {
  if (!state.open_reading) {
    state.open_reading = MemoryReading{};
    state.open_reading->source = "memory_summary";
    state.open_reading->label = "memory_summary";
  }
  return *state.open_reading;
}

// The two cells behind the metric's name: current and peak.
void read_cells(std::string_view text, std::optional<Bytes>& now, std::optional<Bytes>& peak) {
  const std::size_t first = text.find('|', text.find('|') + 1);
  if (first == std::string_view::npos) return;
  std::string_view rest = text.substr(first + 1);
  now = take_printed_size(rest);
  const std::size_t second = rest.find('|');
  if (second == std::string_view::npos) return;
  rest = rest.substr(second + 1);
  peak = take_printed_size(rest);
}

bool read_summary_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (const auto device = integer_behind(text, "memory summary, device ID ")) {
    state.open_reading.reset();
    open_summary(state).device = device;
  } else if (const auto retries = integer_behind(text, "cudaMalloc retries: ")) {
    open_summary(state).retries = retries;
    open_summary(state).ooms = integer_behind(text, "OOMs: ");
  } else if (text.find("| Allocated memory ") != std::string_view::npos) {
    MemoryReading& open = open_summary(state);
    read_cells(text.substr(text.find("| Allocated")), open.allocated, open.max_allocated);
    // A row alone, cut out of its table, is all there is.
    if (!open.device && !open.retries) {
      state.add(std::move(open), line);
      state.open_reading.reset();
    }
  } else if (text.find("| GPU reserved memory ") != std::string_view::npos) {
    MemoryReading& open = open_summary(state);
    read_cells(text.substr(text.find("| GPU reserved")), open.reserved, open.max_reserved);
    state.add(std::move(open), line);
    state.open_reading.reset();
  } else if (text.find(" MB GPU memory") != std::string_view::npos) {
    // "process     1234 uses     1000.000 MB GPU memory": of 2^20 bytes
    MemoryReading reading;
    reading.source = "memory_summary";
    reading.device_used = size_behind(text, " uses ");
    if (const auto pid = integer_behind(text, "process "))
      reading.label = "process " + std::to_string(*pid);
    if (reading.device_used) state.add(std::move(reading), line);
  }
  return false;
}

}  // namespace

const LogLineReader kMemorySummaryLines{"memory_summary", kSummaryWords, read_summary_line};

}  // namespace steelyard
