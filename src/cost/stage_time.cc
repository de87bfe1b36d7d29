#include "cost/stage_time.h"

#include <algorithm>

namespace steelyard {

namespace {

TimeTerm term_of(Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return TimeTerm::kTensor;
    case Axis::kContext:
      return TimeTerm::kContext;
    case Axis::kExpert:
      return TimeTerm::kExpert;
    case Axis::kData:
      return TimeTerm::kData;
    case Axis::kPipeline:
      break;
  }
  return TimeTerm::kPipeline;
}

}  // namespace

const Group& RankGroups::on(Axis axis) const {
  switch (axis) {
    case Axis::kTensor:
      return tensor;
    case Axis::kContext:
      return context;
    case Axis::kExpert:
      return expert;
    case Axis::kData:
    case Axis::kPipeline:
      break;
  }
  return data;
}

RankGroups groups_of(const Job& job) {
  const Parallel& parallel = job.parallel;
  const Ranks per_node = job.cluster.devices_per_node;
  RankGroups groups;
  std::int64_t stride = 1;
  groups.tensor = group_of(parallel.tensor, stride, per_node);
  stride *= parallel.tensor;
  groups.context = group_of(parallel.context, stride, per_node);
  groups.expert = group_of(parallel.expert, stride, per_node);
  // Context ranks hold the same parameters and share their states and gradients.
  const std::int64_t data = parallel.data * parallel.context;
  groups.data = group_of(Ranks(data), stride, per_node);
  groups.stages_across_machines = stride * data >= per_node;
  return groups;
}

StageTime stage_time(const Job& job, const StageWork& work, const std::vector<double>& elements,
                     const KernelClock& kernels, const ExchangeClock& exchanges,
                     const DataExchange& data, double overlap_slowdown) {
  const RankGroups groups = groups_of(job);
  StageTime stage;
  const auto run = [&](const Kernels& all, double streamed, double times, TimeTerms& into) {
    TimeTerms terms;
    double device = 0, host = 0;
    for (const Kernel& kernel : all) {
      host += kernels.host_time(kernel).value();
      if (kernel.kind == Kernel::kExchange) {
        const double seconds =
            exchanges
                .time(kernel.exchange.kind, kernel.exchange.bytes, groups.on(kernel.exchange.axis))
                .value();
        terms[term_of(kernel.exchange.axis)] += seconds;
        device += seconds;
        continue;
      }
      const double seconds = kernels.device_time(kernel).value();
      terms[kernel.again ? TimeTerm::kRecompute : TimeTerm::kCompute] += seconds;
      device += seconds;
      stage.executed_flops += kernel.flops * times;
      // The half product more of a fused attention's backward makes its scores again: no work of the model.
      const double again = kernel.kind == Kernel::kAttention && kernel.backward ? 0.2 : 0.0;
      if (!kernel.again) stage.model_flops += kernel.flops * (1 - again) * times;
    }
    terms[TimeTerm::kHost] = std::max(0.0, host - device);
    const double alone = std::max(device, host);
    // What a unit gathers and scatters runs beside it; each slows the other down.
    terms[TimeTerm::kData] +=
        std::max(0.0, streamed - alone) + overlap_slowdown * std::min(streamed, alone);
    stage.hidden[TimeTerm::kData] += std::min(streamed, alone) * times;
    into += terms * times;
  };
  for (const StageWork::Part& part : work.parts) {
    const double bytes = elements[static_cast<std::size_t>(part.unit)];
    const auto gather = [&](double width) {
      return width <= 0
                 ? 0.0
                 : exchanges.time(ExchangeKind::kAllGather, bytes * width, groups.data).value();
    };
    const double scatter =
        data.scatter_backward <= 0
            ? 0.0
            : exchanges
                  .time(ExchangeKind::kReduceScatter, bytes * data.scatter_backward, groups.data)
                  .value();
    const auto times = static_cast<double>(part.times);
    run(part.forward, gather(data.gather_forward), times, stage.forward);
    run(part.backward, gather(data.gather_backward) + scatter, times, stage.backward);
  }
  return stage;
}

}  // namespace steelyard
