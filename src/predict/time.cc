#include "machine/machine.h"
#include "predict/prediction.h"

namespace steelyard {

std::optional<StepTime> predict_time(const Job& job) {
  const Machine* machine = usual_machine(*job.cluster.device);
  if (machine == nullptr) return std::nullopt;
  return step_time(job, *machine);
}

std::vector<WhatIf> what_would_help(const Job& job) {
  std::vector<WhatIf> answers;
  const Machine* usual = usual_machine(*job.cluster.device);
  if (usual == nullptr) return answers;
  const Machine& machine = *usual;
  const double before = step_time(job, machine).step.value();
  const auto ask = [&](const char* change, const Job& changed, const Machine& on) {
    const Seconds step = step_time(changed, on).step;
    answers.push_back({change, step, 1 - step.value() / before});
  };
  const auto with = [&](auto edit) {
    Device device = *job.cluster.device;
    edit(device);
    Job changed = job;
    changed.cluster.device = std::make_shared<const Device>(std::move(device));
    return changed;
  };
  ask("links inside a machine 2x faster", with([](Device& device) {
        device.link = BytesPerSecond(device.link.value() * 2);
        device.host_link = BytesPerSecond(device.host_link.value() * 2);
      }),
      machine);
  Machine wider = machine;
  wider.interface_bandwidth = BytesPerSecond(machine.interface_bandwidth.value() * 2);
  ask("network 2x faster", job, wider);
  ask("memory 2x faster", with([](Device& device) {
        device.memory_bandwidth = BytesPerSecond(device.memory_bandwidth.value() * 2);
      }),
      machine);
  ask("arithmetic 2x faster", with([](Device& device) {
        for (auto* rate : {&device.rates.fp32, &device.rates.tf32, &device.rates.fp16,
                           &device.rates.bf16, &device.rates.fp8, &device.rates.int8})
          if (*rate) *rate = FlopsPerSecond((*rate)->value() * 2);
      }),
      machine);
  return answers;
}

}  // namespace steelyard
