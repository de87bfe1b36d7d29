// NCCL_DEBUG=INFO: communicators, whose buffers lie outside the allocator, and slow paths.
//
//   node7:71:99 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 19000 - Init COMPLETE
//   node7:71:99 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 2> kNcclWords = {"Init COMPLETE", "] via "};

void count(LogState& state, const std::string& key) {
  std::string& text = state.evidence.clues.arguments[key];
  std::string_view rest = text;
  text = std::to_string(take_printed_integer(rest).value_or(0) + 1);
}

bool read_nccl_line(const LogLine& line, LogState& state, bool called) {
  if (!called) return false;
  const std::string_view text = line.text;
  if (text.find("Init COMPLETE") != std::string_view::npos) {
    if (const auto size = integer_behind(text, "nranks ");
        size && *size > state.evidence.clues.world_size.value_or(0))
      state.evidence.clues.world_size = size;
    // Of rank 0 of each group: how many communicators one process may hold.
    const auto rank = integer_behind(text, " rank ");
    if (rank.value_or(0) == 0) count(state, "nccl communicators of first ranks");
    return false;
  }
  if (text.find("NCCL INFO") == std::string_view::npos) return false;
  if (text.find("] via SHM") != std::string_view::npos) count(state, "nccl channels via SHM");
  if (text.find("] via NET/Socket") != std::string_view::npos)
    count(state, "nccl channels via NET/Socket");
  return false;
}

}  // namespace

const LogLineReader kNcclLines{"nccl", kNcclWords, read_nccl_line};

}  // namespace steelyard
