// What a search asks of a layout, and nothing else: what its fullest device needs, whether it fits, how long a step takes.
//
//   PreparedJob prepared(job, form);
//   prepared.need().device      the bytes of estimate(job).peak.device       prepared.need().fits
//   prepared.step()             the seconds of predict_time(job)->step
//
// A form is drawn once for all jobs that differ only in data ranks, in replicas of shards, in the number of stages and the
// order of their micro-batches, and in how many layers are computed again: their graphs are the same. Stages that are cut
// alike share everything but the order of their micro-batches, which is put together from crests (ledger/crest.h). No
// first step, no bands of time, no words.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "cost/step_time.h"
#include "engine/stage_program.h"
#include "job/job.h"
#include "ledger/pile.h"
#include "machine/runtime.h"
#include "predict/band.h"
#include "predict/host_room.h"

namespace steelyard {

struct LayoutNeed {
  Bytes device{};     // expected, on the fullest device
  Bytes high{};       // the upper end of the band
  bool fits = false;  // the upper end, too, and what is kept on the host
  Bytes host{};       // of the fullest machine
  Verdict on_host = Verdict::kFits;
  std::int64_t pipeline = 0;        // the stage of the peak
  Pile binds = Pile::kActivations;  // the largest pile there
};

// As predict_time(), without the band of its constants.
std::optional<StepTime> expected_time(const Job& job);

class PreparedForm {
 public:
  // Any of the jobs.
  explicit PreparedForm(Job job)
      : job_(std::move(job)), drawn_(StagePrograms<Checked>::drawn(job_)) {}
  const std::shared_ptr<StagePrograms<Checked>>& drawn() const { return drawn_; }

 private:
  const Job job_;
  const std::shared_ptr<StagePrograms<Checked>> drawn_;
};

// One at a time of a form, which outlives this.
class PreparedJob {
 public:
  explicit PreparedJob(const Job& job);
  PreparedJob(const Job& job, const PreparedForm& form);
  // Another job of the form, with as many ranks of every kind, the same states, and one micro-batch or several as this one:
  // the engine's part stays, and so does each chunk of layers that has been looked at.
  void turn_to(const Job& job);
  LayoutNeed need() { return need(false); }
  // Stops at the first stage that needs more than fits for certain, though not more than there is expected to be.
  LayoutNeed need_if_it_fits() { return need(true); }
  // The most that a host is known to have; nothing is too much for one that nobody knows.
  Bytes host_memory() const { return host_room_ && host_room_->most ? *host_room_->most : Bytes(); }
  std::optional<Seconds> step();  // nothing for a device without known rates

 private:
  LayoutNeed need(bool only_if_it_fits);
  void look_at_host(LayoutNeed& need);

  Job job_;
  StagePrograms<Checked> programs_;
  const ErrorBand observed_;
  const RuntimeBytes runtime_;
  const std::optional<HostRoom> host_room_;
};

}  // namespace steelyard
