#include "diagnose/expected_requests.h"

#include <cstdlib>
#include <unordered_map>

#include "allocator/request_sizes.h"
#include "diagnose/known_sizes.h"
#include "predict/timeline.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMostRequests = 150'000;
constexpr std::int64_t kLargerWorkspace = kCublasWorkspaceOfHopper - kCublasWorkspace;

// What the frames of the timeline's stacks say of step and phase.
struct RequestPlace {
  bool known = false, first_step = false;
  Phase phase = Phase::kForward;
};

RequestPlace place_of_stack(const MemorySnapshot& snapshot, StackId stack) {
  RequestPlace place;
  for (const FrameId number : snapshot.stacks[static_cast<std::size_t>(stack)]) {
    const StackFrame& frame = snapshot.frames[static_cast<std::size_t>(number)];
    if (frame.filename == "step") place.first_step = frame.line == 1;
    if (frame.filename != "phase" && frame.filename != "micro-batch") continue;
    for (int phase = 0; phase < kPhaseCount; ++phase)
      if (frame.name == name_of(static_cast<Phase>(phase))) {
        place.phase = static_cast<Phase>(phase);
        place.known = true;
      }
  }
  return place;
}

}  // namespace

std::vector<ExpectedRequest> expected_requests(const Job& job, std::size_t rank_index) {
  const Timeline timeline = timeline_of(job, rank_index, kMostRequests);
  const MemorySnapshot& snapshot = timeline.snapshot;
  const DeviceSnapshot& device = snapshot.devices.front();
  std::vector<RequestPlace> places;
  places.reserve(snapshot.stacks.size());
  for (std::size_t stack = 0; stack < snapshot.stacks.size(); ++stack)
    places.push_back(place_of_stack(snapshot, static_cast<StackId>(stack)));
  std::vector<ExpectedRequest> requests;
  std::int64_t live = 0;
  std::unordered_map<std::int64_t, std::int64_t> sizes;
  for (std::size_t index = 0; index < device.events.size(); ++index) {
    const HistoryEvent& event = device.events[index];
    if (event.action == HistoryAction::kFreeRequested) {
      const auto known = sizes.find(event.address);
      if (known == sizes.end()) continue;
      live -= known->second;
      sizes.erase(known);
    }
    if (event.action != HistoryAction::kAlloc) continue;
    const std::int64_t asked = event.size.value().value();
    if (asked <= 0) continue;
    const std::int64_t size = rounded_request(asked, snapshot.settings);
    const RequestPlace& place = places[static_cast<std::size_t>(device.notes[index].stack)];
    if (place.known)
      requests.push_back(
          {place.first_step, place.phase, live, size, segment_for(size, snapshot.settings)});
    live += size;
    sizes[event.address] = size;
  }
  return requests;
}

std::optional<RequestMatch> nearest_request(const std::vector<ExpectedRequest>& requests,
                                            std::optional<Phase> phase, SizeRange segment,
                                            std::int64_t allocated,
                                            std::optional<bool> first_step) {
  std::optional<RequestMatch> nearest;
  for (const ExpectedRequest& request : requests) {
    if (phase && request.phase != *phase) continue;
    if (first_step && request.first_step != *first_step) continue;
    if (request.segment < segment.low || request.segment > segment.high) continue;
    // Of a device that is known by its memory alone cuBLAS's workspaces may be the larger ones: one for the thread of
    // forward, one for that of backward once it has run.
    const bool alone = request.first_step && request.phase == Phase::kForward;
    for (const std::int64_t more : {std::int64_t{0}, kLargerWorkspace * (alone ? 1 : 2)}) {
      const std::int64_t beyond = allocated - request.live - more;
      if (!nearest || std::abs(beyond) < std::abs(nearest->beyond)) nearest = {request, beyond};
    }
  }
  return nearest;
}

}  // namespace steelyard
