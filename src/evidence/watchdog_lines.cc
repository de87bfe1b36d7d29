// The watchdog of torch's process groups: a collective that never ended, and how far each rank had come.
//
//   [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=91, OpType=ALLREDUCE, NumelIn=1, NumelOut=1,
//     Timeout(ms)=600000) ran for 600042 milliseconds before timing out.
//   [PG ID 2 PG GUID 5(tensor) Rank 3] Timeout at NCCL work: 91, last enqueued NCCL work: 93, last completed NCCL work: 90.
//
// A rank that says nothing, or whose last enqueued work is behind the others', is where to look.
#include <array>
#include <cctype>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 7> kWatchdogWords = {
    "Watchdog caught collective operation timeout",
    "last enqueued NCCL work",
    "last enqueued work",
    "watchdog got stuck",
    "NCCL error in: ",
    "Monitored barrier",
    "Detected mismatch between collectives"};

// ALLREDUCE, _ALLGATHER_BASE -> all_reduce, all_gather
std::string operation_named(std::string_view type) {
  std::string name;
  for (const char c : type) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::array<std::string_view, 2>, 9> kNames = {
      {{"reduce_scatter", "reduce_scatter"},
       {"allreduce", "all_reduce"},
       {"allgather", "all_gather"},
       {"alltoall", "all_to_all"},
       {"broadcast", "broadcast"},
       {"barrier", "barrier"},
       {"send", "send"},
       {"recv", "recv"},
       {"coalesced", "coalesced"}}};
  for (const auto& known : kNames)
    if (name.find(known[0]) != std::string::npos) return std::string(known[1]);
  return name;
}

void read_timeout(std::string_view text, std::size_t at, const LogLine& line, LogState& state) {
  const std::string_view rest = text.substr(at);
  CollectiveState work;
  work.rank = rank_before(text, at);
  work.sequence = integer_behind(rest, "SeqNum=");
  if (const auto type = behind(rest, "OpType="))
    work.operation = operation_named(type->substr(0, type->find_first_of(",)")));
  work.elements_in = integer_behind(rest, "NumelIn=");
  work.elements_out = integer_behind(rest, "NumelOut=");
  if (const auto ms = number_behind(rest, "ran for ")) work.seconds = *ms / 1000.0;
  work.state = "timed out";
  MemoryFailure failure;
  failure.kind = MemoryFailure::Kind::kCollectiveTimeout;
  failure.backend = "nccl";
  failure.rank = work.rank;
  failure.message = std::string(rest.substr(0, 300));
  state.add(std::move(work), line);
  state.add(std::move(failure), line, at);
}

// "[PG ID 2 PG GUID 5(tensor) Rank 3] ... last enqueued NCCL work: 93, last completed NCCL work: 90."
void read_progress(std::string_view text, const LogLine& line, LogState& state) {
  CollectiveState work;
  const std::size_t at = text.find("last enqueued ");
  work.rank = rank_before(text, at);
  if (const auto group = behind(text, "[PG ")) {
    const std::size_t open = group->find('('), close = group->find(')');
    if (open != std::string_view::npos && close != std::string_view::npos && open < close)
      work.group = std::string(group->substr(open + 1, close - open - 1));
  }
  std::string_view rest = text.substr(at);
  if (auto number = behind(rest, "work: ")) work.sequence = take_printed_integer(*number);
  work.state = "last enqueued";
  CollectiveState completed = work;
  if (const auto last = behind(rest, "last completed "))
    if (auto number = behind(*last, "work: ")) completed.sequence = take_printed_integer(*number);
  completed.state = "last completed";
  state.add(std::move(work), line);
  state.add(std::move(completed), line);
}

bool read_watchdog_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  const std::size_t caught = text.find("Watchdog caught collective operation timeout");
  if (caught != std::string_view::npos) {
    read_timeout(text, caught, line, state);
    return false;
  }
  if (text.find("last enqueued ") != std::string_view::npos) {
    read_progress(text, line, state);
    return false;
  }
  for (const std::string_view words : {"watchdog got stuck", "NCCL error in: ", "Monitored barrier",
                                       "Detected mismatch between collectives"}) {
    const std::size_t at = text.find(words);
    if (at == std::string_view::npos) continue;
    MemoryFailure failure;
    // A wrong pair of collectives is a bug of the program, told before anything hangs.
    const bool timeout = words == "watchdog got stuck" || words == "Monitored barrier";
    failure.kind = timeout ? MemoryFailure::Kind::kCollectiveTimeout : MemoryFailure::Kind::kOther;
    failure.backend = "nccl";
    failure.message = std::string(text.substr(at, 300));
    state.add(std::move(failure), line, at);
    return false;
  }
  return false;
}

}  // namespace

const LogLineReader kWatchdogLines{"watchdog", kWatchdogWords, read_watchdog_line};

}  // namespace steelyard
