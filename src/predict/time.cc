#include <fmt/format.h>

#include <algorithm>

#include "machine/machine.h"
#include "predict/prediction.h"
#include "predict/step_band.h"

namespace steelyard {

namespace {
// Below this part of a step nobody asks about the host.
constexpr double kHostMatters = 0.01;

// Those that it may as well be: a run over several machines which does not say what they are.
std::vector<const Machine*> other_machines(const Cluster& cluster) {
  std::vector<const Machine*> others;
  if (cluster.machine == nullptr || cluster.machine_said || cluster.network_said ||
      cluster.devices <= cluster.devices_per_node)
    return others;
  for (const Machine& machine : machines())
    if (machine.is_built_with(*cluster.device) && machine.name != cluster.machine->name)
      others.push_back(&machine);
  return others;
}

bool can_be_captured(const Job& job) {
  return captures_graphs(job) && job.graphs.of != CudaGraphs::kIteration &&
         job.offload.activations == OffloadTarget::kNone;
}
}  // namespace

std::optional<StepTime> predict_time(const Job& job) {
  const Cluster& cluster = job.cluster;
  if (cluster.machine == nullptr) return std::nullopt;
  const StepClock clock(job);
  StepTime time = clock.read(*cluster.device, *cluster.machine);
  for (const Machine* other : other_machines(cluster)) {
    time.low = std::min(time.low, clock.read(*cluster.device, *other, Outlook::kFast).step);
    time.high = std::max(time.high, clock.read(*cluster.device, *other, Outlook::kSlow).step);
  }
  // The constants' own ends, and what published steps have been off by, whichever reaches further.
  const StepBand observed = step_band(job);
  time.low = std::min(time.low, Seconds(time.step.value() * (1 + observed.low)));
  time.high = std::max(time.high, Seconds(time.step.value() * (1 + observed.high)));
  return time;
}

std::vector<OnMachine> step_on_machines(const Job& job) {
  std::vector<OnMachine> steps;
  if (job.cluster.machine == nullptr) return steps;
  std::vector<const Machine*> machines = {job.cluster.machine.get()};
  for (const Machine* other : other_machines(job.cluster)) machines.push_back(other);
  const StepClock clock(job);
  for (const Machine* machine : machines)
    steps.push_back({machine, clock.read(*job.cluster.device, *machine, Outlook::kExpected).step});
  return steps;
}

const OnMachine& slowest_of(const std::vector<OnMachine>& steps) {
  return *std::max_element(steps.begin(), steps.end(),
                           [](const OnMachine& a, const OnMachine& b) { return a.step < b.step; });
}

std::vector<WhatIf> what_would_help(const Job& job) {
  std::vector<WhatIf> answers;
  if (job.cluster.machine == nullptr) return answers;
  const Machine& machine = *job.cluster.machine;
  const Device& device = *job.cluster.device;
  const StepClock clock(job);
  const StepTime now = clock.read(device, machine, Outlook::kExpected);
  const double before = now.step.value();
  const auto answer = [&](const char* change, Seconds step) {
    answers.push_back({change, step, 1 - step.value() / before});
  };
  const auto ask = [&](const char* change, const Device& changed, const Machine& on) {
    answer(change, clock.read(changed, on, Outlook::kExpected).step);
  };
  const auto ask_job = [&](const char* change, auto edit) {
    Job changed = job;
    edit(changed);
    answer(change, StepClock(changed).read(device, machine, Outlook::kExpected).step);
  };
  const auto with = [&](auto edit) {
    Device changed = device;
    edit(changed);
    return changed;
  };
  ask("links inside a machine 2x faster", with([](Device& changed) {
        changed.link = BytesPerSecond(changed.link.value() * 2);
        changed.host_link = BytesPerSecond(changed.host_link.value() * 2);
      }),
      machine);
  ask("network 2x faster", device, machine.widened(2));
  ask("memory 2x faster", with([](Device& changed) {
        changed.memory_bandwidth = BytesPerSecond(changed.memory_bandwidth.value() * 2);
      }),
      machine);
  ask("arithmetic 2x faster", with([](Device& changed) {
        for (auto* rate : {&changed.rates.fp32, &changed.rates.tf32, &changed.rates.fp16,
                           &changed.rates.bf16, &changed.rates.fp8, &changed.rates.int8})
          if (*rate) *rate = FlopsPerSecond((*rate)->value() * 2);
      }),
      machine);
  if (now.terms[TimeTerm::kHost] > kHostMatters * before) {
    Machine quicker = machine;
    quicker.host_operator = machine.host_operator / 2;
    ask("host 2x faster", device, quicker);
    if (job.checks_collectives)
      ask_job("collectives not checked (TORCH_DISTRIBUTED_DEBUG)",
              [](Job& changed) { changed.checks_collectives = false; });
    if (can_be_captured(job))
      ask_job("cuda_graphs = iteration",
              [](Job& changed) { changed.graphs.of = CudaGraphs::kIteration; });
  }
  if (job.offload.optimizer != OffloadTarget::kNone ||
      job.offload.parameters != OffloadTarget::kNone) {
    Job held = job;
    held.offload = {};
    const Seconds step = StepClock(held).read(device, machine, Outlook::kExpected).step;
    answers.push_back({fmt::format("a device that holds it all: {:.1f}x", before / step.value()),
                       step, 1 - step.value() / before});
  }
  return answers;
}

}  // namespace steelyard
