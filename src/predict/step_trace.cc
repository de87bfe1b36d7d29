#include "predict/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "cost/step_time.h"
#include "engine/stage_program.h"
#include "job/pipeline_shape.h"

namespace steelyard {

namespace {

// What a stretch of the tape does to the piles.
struct Stretch {
  enum Kind : std::uint8_t { kPassage, kReduce, kOptimizer } kind = kPassage;
  Piles highest, change;  // above its start
};

// Passages, and what comes behind them, in the order of the tape.
class Stretches {
 public:
  Stretches(const Program& program, NodeId root) : program_(program) { walk(root); }
  std::vector<Stretch> take() { return std::move(stretches_); }

 private:
  void walk(NodeId id) {
    const Node& node = program_.node(id);
    const std::string_view label = node.label;
    if (label == "forward") return add(id, Stretch::kPassage, Phase::kForward);
    if (label == "lookup" || label == "output layer")
      return add(id, Stretch::kPassage, Phase::kForward);
    if (label == "backward" || label == "weights" || label == "lookup, backward" ||
        label == "output layer, backward")
      return add(id, Stretch::kPassage, Phase::kBackward);
    if (node.kind == NodeKind::kTape) {
      if (node.phase == Phase::kOptimizer) return add(id, Stretch::kOptimizer, node.phase);
      if (node.phase != Phase::kCheckpoint) add(id, Stretch::kReduce, node.phase);
      return;
    }
    for (std::int64_t time = 0; time < node.times; ++time)
      for (const NodeId child : program_.children(node)) walk(child);
  }
  void add(NodeId id, Stretch::Kind kind, Phase phase) {
    if (program_.node(id).kind == NodeKind::kTape && program_.events(program_.node(id)).empty() &&
        kind != Stretch::kPassage)
      return;
    const Span& span = program_.span(id);
    Stretch stretch{kind, {}, span.net};
    if (span.peak[static_cast<std::size_t>(phase)] != kNoPeak)
      stretch.highest = piles_at_peak(program_, id, phase);
    stretches_.push_back(stretch);
  }

  const Program& program_;
  std::vector<Stretch> stretches_;
};

std::string name_of_passage(const StepPlay::Passage& passage, std::int64_t chunks) {
  const char* what = "";
  switch (passage.step.kind) {
    case StepKind::kForward:
      what = "forward";
      break;
    case StepKind::kBackward:
      what = "backward";
      break;
    case StepKind::kInputBackward:
      what = "backward of inputs";
      break;
    case StepKind::kWeightBackward:
      what = "backward of weights";
      break;
    case StepKind::kLookup:
      return fmt::format("lookup {}", passage.micro_batch);
    case StepKind::kLookupBackward:
      return fmt::format("lookup, backward {}", passage.micro_batch);
    case StepKind::kOutput:
      return fmt::format("output layer {}", passage.micro_batch);
    case StepKind::kOutputBackward:
      return fmt::format("output layer, backward {}", passage.micro_batch);
  }
  return chunks > 1 ? fmt::format("{} {}, chunk {}", what, passage.micro_batch, passage.step.chunk)
                    : fmt::format("{} {}", what, passage.micro_batch);
}

// The stream of compute is that of all that is no exchange.
constexpr std::size_t kComputes = 0;
std::size_t stream_of(TimeTerm term) {
  const auto* const found = std::find(kTraceStreams.begin(), kTraceStreams.end(), term);
  return found == kTraceStreams.end() ? kComputes
                                      : static_cast<std::size_t>(found - kTraceStreams.begin());
}

class Tracer {
 public:
  Tracer(const Job& job, StepTrace& trace) : job_(job), trace_(trace) {}

  void rank(std::int64_t rank, const StepPlay& play) {
    StagePrograms<Checked> stages(job_);
    const StageProgram built = stages.build(rank);
    const Program& program = stages.program();
    held_ = program.span(built.root).net;  // a later step ends as it began
    trace_.ranks.push_back(fmt::format("stage {} of {}", rank, job_.parallel.pipeline.value()));
    std::vector<Stretch> stretches = Stretches(program, built.later_step).take();
    std::size_t next = 0;
    memory(rank, 0, held_);
    const auto run = [&](Stretch::Kind kind, double start, double end) {
      if (next == stretches.size() || stretches[next].kind != kind) return;
      const Stretch& stretch = stretches[next++];
      memory(rank, start, held_);
      memory(rank, (start + end) / 2, held_ + stretch.highest);
      held_ += stretch.change;
      memory(rank, end, held_);
    };
    for (const StepPlay::Passage& passage : play.passages) {
      if (passage.rank != rank) continue;
      while (next < stretches.size() && stretches[next].kind == Stretch::kReduce)
        run(Stretch::kReduce, passage.start, passage.start);
      add(rank, passage);
      run(Stretch::kPassage, passage.start, passage.end);
    }
    const double at = add_end(rank, play);
    while (next < stretches.size()) {
      const Stretch::Kind kind = stretches[next].kind;
      run(kind, play.end_of_passages, at);
    }
  }

 private:
  void memory(std::int64_t rank, double time, const Piles& piles) {
    trace_.memory.push_back({rank, time, piles});
  }
  void add(std::int64_t rank, const StepPlay::Passage& passage) {
    const double end = passage.start + passage.terms.total();
    trace_.slices.push_back({rank, kComputes,
                             name_of_passage(passage, job_.parallel.virtual_pipeline), 0,
                             passage.start, end - passage.start});
    double at = passage.start;
    for (std::size_t term = 0; term < kTimeTerms; ++term) {
      const double seconds = passage.terms.seconds[term], hidden = passage.hidden.seconds[term];
      const double until = seconds > 0 ? at + seconds : end;
      if (seconds > 0) part(rank, static_cast<TimeTerm>(term), 1, at, seconds);
      exchange(rank, static_cast<TimeTerm>(term), std::max(passage.start, until - seconds - hidden),
               until);
      if (seconds > 0) at = until;
    }
  }
  // What comes behind the last passage, one after the other; when it is over.
  double add_end(std::int64_t rank, const StepPlay& play) {
    double at = play.end_of_passages;
    for (std::size_t term = 0; term < kTimeTerms; ++term) {
      const double seconds = play.end.seconds[term];
      if (seconds > 0) part(rank, static_cast<TimeTerm>(term), 0, at, seconds);
      exchange(rank, static_cast<TimeTerm>(term), at - play.hidden_before_end.seconds[term],
               at + seconds);
      at += seconds;
    }
    return at;
  }
  void part(std::int64_t rank, TimeTerm term, std::int64_t depth, double start, double seconds) {
    const std::string name(name_of(term));
    const bool computes = stream_of(term) == kComputes;
    trace_.slices.push_back(
        {rank, kComputes, computes ? name : "waits for " + name, depth, start, seconds});
  }
  // On its own stream, behind what is there already.
  void exchange(std::int64_t rank, TimeTerm term, double start, double end) {
    const std::size_t stream = stream_of(term);
    if (stream == kComputes) return;
    double& last = last_end_[stream];
    start = std::max(start, last);
    if (end <= start) return;
    trace_.slices.push_back({rank, stream, std::string(name_of(term)), 0, start, end - start});
    last = end;
  }

  const Job& job_;
  StepTrace& trace_;
  Piles held_;
  std::array<double, kTraceStreams.size()> last_end_{};
};

// Each passage hands on to the next part of its pipeline, or back to the one before.
void add_sends(const Job& job, const StepPlay& play, StepTrace& trace) {
  const Placement placement = pipeline_order(job).placement;
  const PipelineShape shape = pipeline_shape(job);
  // Which of two pipelines, the part, the micro-batch, backward.
  using Place = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool>;
  std::map<Place, const StepPlay::Passage*> at;
  const auto place_of = [&](const StepPlay::Passage& passage) -> std::optional<Place> {
    const StepKind kind = passage.step.kind;
    const bool forward = kind == StepKind::kForward;
    if (!forward && kind != StepKind::kBackward && kind != StepKind::kInputBackward)
      return std::nullopt;
    const Part part = part_of(placement, shape, passage.rank, passage.step.chunk);
    return Place{part.pipeline, part.index, passage.micro_batch, !forward};
  };
  for (const StepPlay::Passage& passage : play.passages)
    if (const auto place = place_of(passage)) at[*place] = &passage;
  for (const auto& [place, passage] : at) {
    auto [pipeline, part, micro_batch, backward] = place;
    const auto next = at.find({pipeline, part + (backward ? -1 : 1), micro_batch, backward});
    if (next == at.end() || next->second->rank == passage->rank) continue;
    trace.sends.push_back({passage->rank, next->second->rank, passage->end, next->second->start});
  }
}

}  // namespace

std::int64_t trace_passages(const Job& job) {
  const PipelineShape shape = pipeline_shape(job);
  return (Checked(2) * Checked(shape.ranks) * Checked(shape.chunks) * Checked(shape.micro_batches))
      .value();
}

StepTrace step_trace(const Job& job) {
  StepTrace trace;
  const Machine* machine = job.cluster.machine.get();
  if (machine == nullptr) return trace;
  const StepPlay play = StepClock(job).play(*job.cluster.device, *machine);
  for (std::int64_t rank = 0; rank < job.parallel.pipeline; ++rank)
    Tracer(job, trace).rank(rank, play);
  add_sends(job, play, trace);
  return trace;
}

}  // namespace steelyard
