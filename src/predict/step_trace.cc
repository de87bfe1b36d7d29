#include "predict/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cost/step_time.h"
#include "engine/stage_program.h"

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
      slices(rank, name_of_passage(passage, job_.parallel.virtual_pipeline), passage.start,
             passage.terms);
      run(Stretch::kPassage, passage.start, passage.end);
    }
    double at = play.end_of_passages;
    for (std::size_t term = 0; term < kTimeTerms; ++term) {
      const double seconds = play.end.seconds[term];
      if (seconds <= 0) continue;
      trace_.slices.push_back(
          {rank, std::string(name_of(static_cast<TimeTerm>(term))), 0, at, seconds});
      at += seconds;
    }
    while (next < stretches.size()) {
      const Stretch::Kind kind = stretches[next].kind;
      run(kind, play.end_of_passages, at);
    }
  }

 private:
  void memory(std::int64_t rank, double time, const Piles& piles) {
    trace_.memory.push_back({rank, time, piles});
  }
  void slices(std::int64_t rank, std::string name, double start, const TimeTerms& terms) {
    trace_.slices.push_back({rank, std::move(name), 0, start, terms.total()});
    double at = start;
    for (std::size_t term = 0; term < kTimeTerms; ++term) {
      const double seconds = terms.seconds[term];
      if (seconds <= 0) continue;
      trace_.slices.push_back(
          {rank, std::string(name_of(static_cast<TimeTerm>(term))), 1, at, seconds});
      at += seconds;
    }
  }

  const Job& job_;
  StepTrace& trace_;
  Piles held_;
};

}  // namespace

StepTrace step_trace(const Job& job) {
  StepTrace trace;
  const Machine* machine = usual_machine(*job.cluster.device);
  if (machine == nullptr) return trace;
  const StepPlay play = StepClock(job).play(*job.cluster.device, *machine);
  Tracer tracer(job, trace);
  for (std::int64_t rank = 0; rank < job.parallel.pipeline; ++rank) tracer.rank(rank, play);
  return trace;
}

}  // namespace steelyard
