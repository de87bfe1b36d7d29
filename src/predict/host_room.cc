#include "predict/host_room.h"

#include <fmt/format.h>

#include <algorithm>

#include "machine/machine.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

// How data/machines marks a number that was neither read nor published.
constexpr std::string_view kAssumed = "assumed";

}  // namespace

std::optional<HostRoom> host_room(const Job& job) {
  const Machine* machine = job.cluster.machine.get();
  if (machine == nullptr) return std::nullopt;
  HostRoom room;
  room.machine = machine->name;
  room.said = job.cluster.machine_said;
  room.memory = machine->host_memory;
  room.most = machine->host_memory;
  if (room.said) return room;
  if (machine->host_mark == kAssumed) room.most.reset();
  for (const Machine& other : machines())
    if (room.most && other.is_built_with(*job.cluster.device))
      room.most = std::max(*room.most, other.host_memory);
  return room;
}

Verdict host_verdict(const std::optional<HostRoom>& room, Bytes kept) {
  if (!room || kept <= room->memory) return Verdict::kFits;
  return room->most && kept > *room->most ? Verdict::kDoesNotFit : Verdict::kTight;
}

std::string host_sentence(const Job& job, Bytes kept) {
  const auto room = host_room(job);
  if (host_verdict(room, kept) == Verdict::kFits) return "";
  const std::string amounts = fmt::format("host memory: the run keeps {} on a machine, {} has {}",
                                          print(kept), room->machine, print(room->memory));
  if (room->said) return amounts;
  return amounts +
         ", which is assumed: --machine, or cluster.machine = { host = { memory = \"256 GB\" } }, "
         "says what yours has";
}

Bytes host_of_fullest_machine(const Job& job, const std::vector<Bytes>& of_stage) {
  const std::int64_t devices = job.cluster.devices;
  const std::int64_t in_machine = std::min<std::int64_t>(devices, job.cluster.devices_per_node);
  const std::int64_t of_one_stage = devices / job.parallel.pipeline;
  Bytes fullest{};
  const auto look_at = [&](std::int64_t first) {
    Bytes kept{};
    // Rank by rank would be slow: whole stages, of which the ends may stand on another machine.
    const std::int64_t end = std::min(devices, first + in_machine);
    for (std::int64_t rank = first; rank < end;) {
      const std::int64_t stage = rank / of_one_stage;
      const std::int64_t next = std::min(end, (stage + 1) * of_one_stage);
      kept += of_stage[static_cast<std::size_t>(stage)] * Checked(next - rank);
      rank = next;
    }
    fullest = std::max(fullest, kept);
  };
  // Machines whose ranks are all of one stage are alike: the first of each stage, and those that hold parts of several.
  std::int64_t before = -1;
  for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage)
    for (const std::int64_t rank : {stage * of_one_stage, stage * of_one_stage + in_machine,
                                    (stage + 1) * of_one_stage - 1}) {
      if (rank >= devices) continue;
      const std::int64_t machine = rank / in_machine;
      if (machine <= before) continue;
      before = machine;
      look_at(machine * in_machine);
    }
  return fullest;
}

bool keeps_on_host(const Job& job) {
  const Offload& offload = job.offload;
  return offload.optimizer != OffloadTarget::kNone || offload.parameters != OffloadTarget::kNone ||
         offload.activations != OffloadTarget::kNone || job.training.optimizer.paged;
}

}  // namespace steelyard
