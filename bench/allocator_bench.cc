// The caching allocator on the event stream of a training step: how many requests and frees it plays in a second.
//
//   build/release/bench/steelyard_bench --benchmark_filter=allocator
//
// The stream is Llama 3.1 8B's own, as the engine's program says it, forward and backward with every gather and
// reduce. Items are events: one request or one free. In the steady state almost every request meets a cached block.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/plain_allocator.h"
#include "allocator/replay_program.h"
#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"

namespace {

using steelyard::Bytes;
using steelyard::Job;
using steelyard::NodeId;
using steelyard::Program;

// `place` is where the handle lies between request and free.
struct Request {
  bool frees = false;
  std::size_t place = 0;
  Bytes bytes{};
};

// Programs as straight lines of requests: load, then one step that ends as it began.
class Line {
 public:
  explicit Line(const Program& program) : program_(program), live_(program.slot_count()) {}

  std::vector<Request> play(NodeId id) {
    requests_.clear();
    walk(id);
    return requests_;
  }
  std::size_t places() const { return places_; }

 private:
  void walk(NodeId id) {
    const steelyard::Node& node = program_.node(id);
    if (node.kind != steelyard::NodeKind::kTape) {
      for (std::int64_t round = 0; round < node.times; ++round)
        for (NodeId child : program_.children(node)) walk(child);
      return;
    }
    for (const steelyard::Event& event : program_.events(node)) {
      std::vector<std::size_t>& live = live_[static_cast<std::size_t>(event.slot)];
      for (int i = 0; i < event.count; ++i) {
        if (unused_.empty()) unused_.push_back(places_++);
        live.push_back(unused_.back());
        unused_.pop_back();
        requests_.push_back({false, live.back(), program_.slot_at(event.slot).bytes});
      }
      for (int i = 0; i > event.count; --i) {
        requests_.push_back({true, live.back(), Bytes{}});
        unused_.push_back(live.back());
        live.pop_back();
      }
    }
  }

  const Program& program_;
  std::vector<std::vector<std::size_t>> live_;
  std::vector<std::size_t> unused_;
  std::vector<Request> requests_;
  std::size_t places_ = 0;
};

struct Stream {
  std::vector<Request> held, step;
  std::size_t places = 0;
};

Stream stream_of(const std::string& run_file) {
  const auto job = steelyard::read_job(*steelyard::read_json(run_file, "bench"));
  if (!job) throw std::runtime_error(job.error().front().message);
  steelyard::StagePrograms<steelyard::Checked> stages(*job);
  const steelyard::StageProgram built = stages.build(0);
  Line line(stages.program());
  Stream stream;
  stream.held = line.play(built.first_step);
  stream.step = line.play(built.later_step);
  stream.places = line.places();
  return stream;
}

void play(const std::vector<Request>& requests, std::vector<steelyard::BlockIndex>& places,
          steelyard::CachingAllocator& allocator) {
  for (const Request& request : requests)
    if (request.frees)
      allocator.free(places[request.place]);
    else
      places[request.place] = *allocator.allocate(request.bytes);
}

void allocator_steps(benchmark::State& state, const char* run_file, const char* settings) {
  const Stream stream = stream_of(run_file);
  steelyard::CachingAllocator allocator(*steelyard::read_allocator_settings(settings, "bench"));
  std::vector<steelyard::BlockIndex> places(stream.places);
  play(stream.held, places, allocator);
  play(stream.step, places, allocator);
  for (auto _ : state) play(stream.step, places, allocator);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(stream.step.size()));
}

constexpr const char* kSharded =
    R"({"model": "llama-3.1-8b", "engine": "fsdp2", "cluster": {"device": "h100-sxm-80gb", "devices": 8},
        "training": {"sequence_length": 8192}})";
constexpr const char* kReplicated =
    R"({"model": "llama-3.1-8b", "engine": "ddp", "cluster": {"device": "h200", "devices": 8},
        "training": {"sequence_length": 8192, "gradient_accumulation": 4}})";
BENCHMARK_CAPTURE(allocator_steps, fsdp2, kSharded, "");
BENCHMARK_CAPTURE(allocator_steps, ddp, kReplicated, "");
BENCHMARK_CAPTURE(allocator_steps, expandable, kSharded, "expandable_segments:True");

// All that a prediction asks: the program with the tensors of its slots, step after step until nothing changes.
void program_replay(benchmark::State& state, const char* run_file) {
  const auto job = steelyard::read_job(*steelyard::read_json(run_file, "bench"));
  if (!job) throw std::runtime_error(job.error().front().message);
  steelyard::StagePrograms<steelyard::Checked> stages(*job, steelyard::SlotDetail::kTensors);
  const steelyard::StageProgram built = stages.build(0);
  std::int64_t events = 0;
  for (auto _ : state) {
    const auto played = steelyard::replay_in_allocator(
        stages.program(), {{built.first_step}, {built.later_step}}, {}, {}, stages.book().tensors);
    events += played.events;
  }
  state.SetItemsProcessed(events);
}
BENCHMARK_CAPTURE(program_replay, fsdp2, kSharded)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(program_replay, ddp, kReplicated)->Unit(benchmark::kMicrosecond);

// The judge on the same stream, for comparison; it counts everything anew, so it plays little of it.
void allocator_judge(benchmark::State& state) {
  const Stream stream = stream_of(kSharded);
  for (auto _ : state) {
    steelyard::PlainAllocator judge({}, {});
    std::vector<std::int64_t> places(stream.places);
    for (const Request& request : stream.step)
      if (request.frees)
        judge.free(places[request.place]);
      else
        places[request.place] = *judge.allocate(request.bytes.value().value(), 0);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(stream.step.size()));
}
BENCHMARK(allocator_judge)->Unit(benchmark::kMillisecond);

}  // namespace
