#include <fmt/format.h>

#include <charconv>

#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/output_file.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "cli/weigh_command.h"
#include "formats/memory_snapshot.h"
#include "predict/timeline.h"
#include "quantity/print.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

// Which of `prediction.ranks` stands for that rank; nothing when the run has none of that number.
std::optional<std::size_t> index_of_rank(const Prediction& prediction, const std::string& text) {
  std::int64_t rank = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  for (std::size_t index = 0; index < prediction.ranks.size(); ++index) {
    const RankPrediction& like = prediction.ranks[index];
    if (rank >= like.rank && rank < like.rank + like.replicas) return index;
  }
  return std::nullopt;
}

int refuse_snapshot(const Invocation& invocation, const std::string& code,
                    const std::string& message, const std::string& help = {}) {
  return refuse(invocation, {command_line_problem(code, message, help)}, "no snapshot written");
}

}  // namespace

std::optional<int> write_snapshot(const Invocation& invocation, const Job& job,
                                  const Prediction& prediction) {
  const std::string* file = invocation.value("snapshot");
  const std::string* rank = invocation.value("rank");
  if (file == nullptr) {
    if (rank == nullptr) return std::nullopt;
    return refuse_snapshot(invocation, "E005", "--rank says whose snapshot, and none is asked for",
                           "--snapshot FILE asks for one; -v lists every rank");
  }
  const auto index =
      rank == nullptr ? peak_rank_index(prediction) : index_of_rank(prediction, *rank);
  if (!index)
    return refuse_snapshot(
        invocation, "E005", fmt::format("--rank {}: the run has no such rank", *rank),
        fmt::format("ranks are numbered 0 to {}", job.cluster.devices.value() - 1));
  const Timeline timeline = timeline_of(job, *index);
  if (timeline.cut)
    remark(fmt::format(
        "{}: the snapshot ends after {} events, before the second step does; fewer "
        "micro-batches make it shorter\n",
        painted(invocation.error_style, Ink::kWarning, "warning"),
        print_count(
            Checked(static_cast<std::int64_t>(timeline.snapshot.devices.front().events.size())))));
  if (const auto problem = write_file(*file, memory_snapshot_pickle(timeline.snapshot)))
    return refuse(invocation, {*problem}, "no snapshot written");
  return std::nullopt;
}

}  // namespace steelyard
