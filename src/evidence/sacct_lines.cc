// sacct's table, padded or separated by "|": the largest resident memory of each step, what was asked for, and how it ended.
//
//   JobID|State|ExitCode|MaxRSS|ReqMem
//   71.0|OUT_OF_MEMORY|0:125|63001248K|64Gn
//
// Columns are read by their names. MaxRSS is sampled twice a minute: it may stay far below the limit of a job that died of it.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 2> kSacctWords = {"JobID", "OUT_OF_ME"};
constexpr std::string_view kTable = "sacct";
constexpr std::size_t kMostColumns = 128;

std::vector<std::string_view> cells_of(std::string_view text) {
  std::vector<std::string_view> cells;
  const bool barred = text.find('|') != std::string_view::npos;
  while (!text.empty() && cells.size() < kMostColumns) {
    if (!barred) {
      const std::size_t begin = text.find_first_not_of(' ');
      if (begin == std::string_view::npos) break;
      text.remove_prefix(begin);
    }
    const std::size_t end = text.find(barred ? '|' : ' ');
    cells.push_back(without_spaces(text.substr(0, end)));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return cells;
}

// "63001248K", "64Gn", "1024": without a suffix bytes
std::optional<Bytes> sacct_size(std::string_view cell) {
  if (cell.ends_with('n') || cell.ends_with('c')) cell.remove_suffix(1);
  std::string_view rest = cell;
  if (const auto size = take_printed_size(rest)) return size;
  rest = cell;
  const auto number = take_printed_number(rest);
  return number && rest.empty() ? printed_bytes(*number, 1.0) : std::nullopt;
}

// Padded cells may be empty: the rule below the header, "----- --------", says where each stands.
std::vector<std::string_view> padded_cells(std::string_view text, const LogState& state) {
  std::vector<std::string_view> cells;
  std::size_t begin = 0;
  for (const std::size_t end : state.column_ends) {
    cells.push_back(begin < text.size() ? without_spaces(text.substr(begin, end - begin))
                                        : std::string_view());
    begin = end;
  }
  return cells;
}

void read_rule(std::string_view text, LogState& state) {
  state.column_ends.clear();
  for (std::size_t at = 0; at < text.size(); ++at)
    if (text[at] == '-' && (at + 1 == text.size() || text[at + 1] == ' '))
      state.column_ends.push_back(at + 1);
}

void read_row(const LogLine& line, LogState& state) {
  const std::string_view text = line.text;
  const bool padded = text.find('|') == std::string_view::npos && !state.column_ends.empty();
  const std::vector<std::string_view> cells = padded ? padded_cells(text, state) : cells_of(text);
  MemoryReading reading;
  reading.source = "slurm";
  const bool out_of_memory = text.find("OUT_OF_ME") != std::string_view::npos;
  std::optional<Bytes> requested;
  for (std::size_t i = 0; i < cells.size() && i < state.columns.size(); ++i) {
    const std::string_view name = state.columns[i];
    if (name.starts_with("JobID") && reading.label.empty()) reading.label = std::string(cells[i]);
    if (name == "MaxRSS") reading.host_used = sacct_size(cells[i]);
    if (name == "ReqMem") requested = sacct_size(cells[i]);
    if (name == "ReqTRES" || name == "AllocTRES")
      if (const auto mem = behind(cells[i], "mem="))
        requested = sacct_size(mem->substr(0, mem->find(',')));
  }
  if (out_of_memory) {
    MemoryFailure failure;
    failure.kind = MemoryFailure::Kind::kHost;
    failure.backend = "slurm";
    failure.allocated = reading.host_used;
    failure.capacity = requested;
    failure.message = std::string(without_spaces(text).substr(0, 300));
    auto& failures = state.evidence.failures;
    // One row for the job and one for each of its steps.
    if (failures.empty() || failures.back().era != kTable) {
      failure.era = std::string(kTable);
      state.add(std::move(failure), line);
    } else {
      if (!failures.back().allocated) failures.back().allocated = failure.allocated;
      if (!failures.back().capacity) failures.back().capacity = failure.capacity;
    }
  }
  if (reading.host_used) state.add(std::move(reading), line);
}

bool read_sacct_line(const LogLine& line, LogState& state, bool called) {
  const std::string_view text = line.text;
  if (called && text.find("JobID") != std::string_view::npos &&
      text.find("State") != std::string_view::npos) {
    state.columns.clear();
    state.column_ends.clear();
    for (const std::string_view cell : cells_of(text)) state.columns.emplace_back(cell);
    state.table = std::string(kTable);
    return true;
  }
  if (state.table != kTable) return false;
  if (without_spaces(text).empty()) {
    state.table.clear();
    return false;
  }
  if (text.find("-----") == std::string_view::npos)
    read_row(line, state);
  else
    read_rule(text, state);
  return true;
}

}  // namespace

const LogLineReader kSacctLines{"sacct", kSacctWords, read_sacct_line};

}  // namespace steelyard
