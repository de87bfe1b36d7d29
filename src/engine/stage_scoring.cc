// A model that scores beside the trained one: a job of its own, frozen whole, drawn in the same workbook. It is loaded with the
// trained one, and runs forward behind each forward of that; autograd records nothing of it.
//
//   ddp, deepspeed 0 to 2    whole on every rank, in 16 bits under deepspeed
//   fsdp1                    divided, and gathered layer by layer as the trained one is; its root is gathered in the first
//                            forward, and stays: what divides it again is the end of a backward
//   deepspeed 3              divided, and gathered module by module
//   fsdp2                    divided, and one unit: all of it is gathered for a forward, and lies there twice (trl 1.16
//                            models/utils.py, prepare_fsdp: fully_shard of the whole model alone)
#include "engine/stage_scoring.h"

#include <algorithm>

#include "engine/stage_program.h"
#include "job/method_choice.h"

namespace steelyard {

template <class N>
void StagePrograms<N>::draw_scorer(const StagePrograms* drawn) {
  if (job_.scorer == nullptr) return;
  scorer_job_ = std::make_shared<const Job>(job_of_scorer(job_));
  book_.speak_of("reference");
  scorer_.reset(new StagePrograms(*scorer_job_, book_,
                                  drawn ? drawn->graphs_ : std::make_shared<Graphs>(*scorer_job_)));
  scorer_->is_scorer_ = true;
  scorer_->style_.scores = true;
  if (drawn == nullptr) scorer_->draw(false);
  scorer_->make_engine();
  if (gathers_scorer_at_once(job_)) {
    holding_job_ = std::make_shared<const Job>(job_of_divided_scorer(job_));
    StagePrograms& of = *scorer_;
    holding_context_ = std::make_unique<EngineContext<N>>(EngineContext<N>{
        *holding_job_, book_, of.units_, of.trained_units(), of.frozen_units_.get(), of.sizes_,
        of.style_, of.gradients_of_kind_, of.embedding_.gradients, of.head_.gradients});
    holding_ = steelyard::make_engine(*holding_context_);
    const std::int64_t all = count_parameters(*scorer_job_->model).total;
    gathered_at_once_ =
        book_.slot({"model", "all weights, as they come", "fsdp2.reference"}, Pile::kCommunication,
                   Workbook<N>::counted("all weights", all), job_.training.precision.compute);
  }
  book_.speak_of(nullptr);
}

template <class N>
void StagePrograms<N>::load_scorer(std::vector<Event>& events) {
  if (scorer_ == nullptr || job_.training.reference == Reference::kAdapter) return;
  const Stage<N> stage = scorer_->stage_of(0);
  std::vector<Event> buffers;
  scorer_->hold_buffers(stage, buffers);
  EngineModel<N>& holds = holding_ ? *holding_ : *scorer_->engine_;
  holds.load_with_buffers(stage, buffers, events);
}

template <class N>
void StagePrograms<N>::gather_scorer(std::int32_t sign, std::vector<Event>& events) {
  if (holding_ == nullptr) return;
  std::vector<Event> whole = {{gathered_at_once_, 1}};
  scorer_->engine_->load(scorer_->stage_of(0), whole);
  for (const Event& event : whole) events.push_back({event.slot, sign * event.count});
}

// FSDP1 makes the root's flat parameter whole in a forward, and divides it again when a backward ends.
std::vector<Event> root_left_whole(Engine engine, const Program& program) {
  if (engine != Engine::kFsdp1) return {};
  for (SlotId id = 0; id < static_cast<SlotId>(program.slot_count()); ++id) {
    const Slot& slot = program.slot_at(id);
    if (std::string_view(slot.rule) == "fsdp1.whole-parameter" &&
        std::string_view(slot.owner) == "root" &&
        std::string_view(slot.name).ends_with("of the reference"))
      return {{id, 1}};
  }
  return {};
}

// For the log, of whole logits: entropy_from_logits() of TRL before 1.15 copies them all, and works on 128 tokens at a time. It
// comes behind both forwards, before what they gave goes.
template <class N>
void StagePrograms<N>::entropies(std::vector<Event>& events) {
  if (job_.training.log_probabilities != LogProbabilities::kWhole ||
      job_.training.method != Method::kDpo)
    return;
  const ElementType type = style_.autocast ? ElementType::kFloat32 : style_.compute;
  if (entropy_copy_ < 0) {
    const char* rule = "op.log-probabilities.entropy";
    const N some(std::min<std::int64_t>(128, plain(sizes_.tokens)));
    entropy_copy_ = book_.slot({"loss", "logits, copied", rule}, Pile::kTemporary,
                               sizes_.batch * (sizes_.sequence - N(1)) * sizes_.vocabulary, type);
    entropy_part_ = book_.slot({"loss", "probabilities of some tokens", rule}, Pile::kTemporary,
                               some * sizes_.vocabulary, type);
  }
  const std::vector<Event> passing = {
      {entropy_copy_, 1}, {entropy_part_, 3}, {entropy_part_, -3}, {entropy_copy_, -1}};
  events.insert(events.begin(), passing.begin(), passing.end());
}

template <class N>
NodeId StagePrograms<N>::scoring_node() {
  if (job_.training.log_probabilities == LogProbabilities::kNone) return book_.program.empty();
  Program& program = book_.program;
  // What the trainer has a name for until its loss is there.
  std::vector<Event> named;
  for (const SlotId slot : head_.outliving) named.push_back({slot, -1});
  entropies(named);
  const NodeId loss = program.tape(scorer_ ? Phase::kScoring : Phase::kForward, "loss", named);
  if (scorer_ == nullptr) return loss;
  std::vector<Event> gathered;
  gather_scorer(1, gathered);
  const Chunk chunk = scorer_->chunk_at(0, 0);
  const NodeId forward = scorer_->forward_node(scorer_->stage_with(0, {0}), chunk, true);
  const std::vector<std::int64_t> left = net_instances(program, forward);
  const std::vector<Event> whole = root_left_whole(scorer_job_->engine, program);
  std::vector<Event> gone;
  for (std::size_t slot = 0; slot < left.size(); ++slot) {
    const auto id = static_cast<SlotId>(slot);
    if (left[slot] == 0 || (!whole.empty() && whole.front().slot == id)) continue;
    gone.push_back({id, static_cast<std::int32_t>(-left[slot])});
  }
  gather_scorer(-1, gone);
  // What stands whole from the first forward on is not gathered again.
  if (!very_first_)
    for (const Event& event : whole) gathered.push_back({event.slot, -event.count});
  const NodeId gather = program.tape(Phase::kScoring, "", gathered);
  return program.sequence("scoring",
                          {gather, forward, loss, program.tape(Phase::kScoring, "", gone)});
}

template <class N>
NodeId StagePrograms<N>::passage_node(const Stage<N>& stage, const Chunk& chunk, bool first) {
  Program& program = book_.program;
  const NodeId forward = forward_node(stage, chunk, first);
  if (job_.generation.by == Generator::kNone) {
    // The trained model scores with what its own forward has left gathered.
    std::vector<Event> handed_over, handed_back;
    if (job_.training.reference == Reference::kAdapter && scorer_ != nullptr &&
        scorer_job_->engine != Engine::kDdp) {
      const std::vector<std::int64_t> left = net_instances(program, forward);
      for (std::size_t slot = 0; slot < left.size(); ++slot)
        if (left[slot] > 0 &&
            program.slot_at(static_cast<SlotId>(slot)).pile == Pile::kParameters) {
          const auto count = static_cast<std::int32_t>(left[slot]);
          handed_over.push_back({static_cast<SlotId>(slot), -count});
          handed_back.push_back({static_cast<SlotId>(slot), count});
        }
    }
    return program.sequence("", {forward, program.tape(Phase::kScoring, "", handed_over),
                                 scoring_node(), program.tape(Phase::kScoring, "", handed_back)});
  }
  if (!first) return forward;
  // All micro-batches of a step are scored before the first of them is trained on, one after the other.
  const NodeId scoring = scorer_ ? scoring_node() : program.empty();
  return program.sequence("", {program.moment(Phase::kGeneration, "generation"), scoring, forward});
}

template class StagePrograms<Checked>;
template class StagePrograms<Traced>;

}  // namespace steelyard
