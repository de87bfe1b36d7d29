#include "cost/stretch_time.h"

#include <algorithm>
#include <array>

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

Beside beside_of(const Kernel& kernel) {
  if (kernel.kind == Kernel::kAttention) return Beside::kAttention;
  if (kernel.kind != Kernel::kProduct) return Beside::kNothing;
  if (!kernel.backward) return Beside::kProduct;
  return kernel.of_weights ? Beside::kWeightProduct : Beside::kInputProduct;
}

// Exchanges that wait for what they run beside.
struct Waiting {
  TimeTerm term = TimeTerm::kTensor;
  double seconds = 0;
};

// What of `seconds` shows when it runs beside `behind`; each slows the other down.
double shown_beside(double seconds, double behind, double slowdown, TimeTerm term, TimeTerms& terms,
                    TimeTerms& hidden) {
  const double both = std::min(seconds, behind);
  const double shows = seconds - both + slowdown * both;
  terms[term] += shows;
  hidden[term] += both;
  return shows;
}

// Of a way's launches, those that the host makes one by one: so much of the code around them runs, too.
double share_launched(const StretchPassages::OneWay& way) {
  return way.captured > 0 ? way.host / (way.host + way.captured) : 1;
}

// What of the host's time the device does not hide.
double shown_of_host(double seconds, const StretchPassages::OneWay& way) {
  return std::max(0.0, seconds - way.device);
}

// One direction of a stretch, kernel by kernel.
class Passage {
 public:
  Passage(const StretchClock& clock, StretchPassages& all) : clock_(clock), all_(all) {}

  void add(const Kernel& kernel) {
    const auto times = static_cast<double>(kernel.times);
    const double launched = clock_.host_launch * kernel.launches * times;
    (captures(clock_.graphs, kernel.part) ? way_.captured : way_.host) += launched;
    if (kernel.again) all_.again += launched;
    if (kernel.kind == Kernel::kExchange) return exchange(kernel);
    const double seconds = not_yet_moved(kernel, clock_.kernels.device_time(kernel).value());
    way_.terms[kernel.again ? TimeTerm::kRecompute : TimeTerm::kCompute] += seconds;
    way_.device += seconds;
    all_.executed_flops += kernel.flops * times;
    // The half product more of a fused attention's backward makes its scores again: no work of the model.
    const double again = kernel.kind == Kernel::kAttention && kernel.backward ? 0.2 : 0.0;
    if (!kernel.again) all_.model_flops += kernel.flops * times * (1 - again);
    if (const Beside beside = beside_of(kernel); beside != Beside::kNothing) hide(beside, seconds);
  }

  StretchPassages::OneWay end() {
    for (std::size_t beside = 0; beside < waiting_.size(); ++beside)
      hide(static_cast<Beside>(beside), 0);
    // Captured modules of a layer are neighbours, and one graph.
    if (way_.captured > 0 && clock_.graphs.of == CudaGraphs::kModule)
      way_.host += clock_.host.replay * clock_.host_launch;
    return way_;
  }

 private:
  // An all-to-all's kernel reads and writes the memory while it sends: its traffic is no further kernel.
  double not_yet_moved(const Kernel& kernel, double seconds) {
    const bool same = kernel.kind == Kernel::kTraffic && kernel.label == sender_;
    const double left = same ? std::max(0.0, seconds - sent_) : seconds;
    sender_ = nullptr;
    sent_ = 0;
    return left;
  }
  void exchange(const Kernel& kernel) {
    const Exchange& exchange = kernel.exchange;
    if (exchange.kind != ExchangeKind::kSendReceive)  // of the host, as its launch is
      (captures(clock_.graphs, kernel.part) ? way_.captured : way_.host) +=
          clock_.seconds_of_check(clock_.groups.on(exchange.axis));
    const double seconds =
        clock_.exchanges.time(exchange.kind, exchange.bytes, clock_.groups.on(exchange.axis))
            .value();
    if (exchange.beside == Beside::kNothing) {
      if (exchange.kind == ExchangeKind::kAllToAll) {
        sent_ = (kernel.label == sender_ ? sent_ : 0) + seconds;
        sender_ = kernel.label;
      }
      const double paired = exchange.axis == Axis::kExpert ? clock_.paired * seconds : 0;
      way_.beside_other += paired;
      way_.terms[term_of(exchange.axis)] += seconds - paired;
      way_.device += seconds - paired;
      return;
    }
    Waiting& waiting = waiting_[static_cast<std::size_t>(exchange.beside)];
    waiting.term = term_of(exchange.axis);
    const double last = exchange.pieces > 0 ? seconds / exchange.pieces : 0;
    waiting.seconds += seconds - last;
    way_.terms[waiting.term] += last;
    way_.device += last;
  }
  void hide(Beside beside, double behind) {
    Waiting& waiting = waiting_[static_cast<std::size_t>(beside)];
    if (waiting.seconds > 0)
      way_.device += shown_beside(waiting.seconds, behind, clock_.overlap_slowdown, waiting.term,
                                  way_.terms, way_.hidden);
    waiting.seconds = 0;
  }

  const StretchClock& clock_;
  StretchPassages& all_;
  StretchPassages::OneWay way_;
  std::array<Waiting, kBesides> waiting_{};
  const char* sender_ = nullptr;  // the operator whose exchange came last, and how long it took
  double sent_ = 0;
};

// Exchanges of one way beside what the other way computes, which belongs to another micro-batch.
void pair(StretchPassages& all, double paired, double slowdown) {
  const double forward = all.forward.device * paired, backward = all.backward.device * paired;
  const auto show = [&](StretchPassages::OneWay& way, double behind) {
    if (way.beside_other > 0)
      way.device += shown_beside(way.beside_other, behind, slowdown, TimeTerm::kExpert, way.terms,
                                 way.hidden);
  };
  show(all.forward, backward);
  show(all.backward, forward);
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
    case Axis::kPipeline:
      return pipeline;
    case Axis::kData:
      break;
  }
  return data;
}

bool captures(const GraphCapture& graphs, LayerPart part) {
  if (graphs.of != CudaGraphs::kModule) return graphs.of == CudaGraphs::kIteration;
  switch (part) {
    case LayerPart::kAttention:
      return graphs.attention;
    case LayerPart::kMlp:
      return graphs.mlp;
    case LayerPart::kRouter:
      return graphs.router;
    case LayerPart::kExperts:
    case LayerPart::kNone:
      break;
  }
  return false;
}

RankGroups groups_of(const Job& job) {
  const Parallel& parallel = job.parallel;
  const Ranks per_node = job.cluster.devices_per_node;
  RankGroups groups;
  std::int64_t stride = 1;
  groups.tensor = group_of(parallel.tensor, stride, per_node);
  // Parts of one expert are neighbours, experts follow (megatron/core/parallel_state.py, the order of experts).
  groups.expert = group_of(parallel.expert, parallel.expert_tensor, per_node);
  stride *= parallel.tensor;
  groups.context = group_of(parallel.context, stride, per_node);
  // Context ranks hold the same parameters and share their states and gradients.
  const std::int64_t data = parallel.data * parallel.context;
  groups.data = group_of(Ranks(data), stride, per_node);
  groups.same_experts =
      group_of(Ranks(expert_data_ranks(job)), parallel.expert * parallel.expert_tensor, per_node);
  groups.gather_backward = parallel.secondary_shard > 1
                               ? group_of(parallel.secondary_shard, stride, per_node)
                               : groups.data;
  groups.machine = group_of(groups.data.in_machine, stride, per_node);
  groups.machines = {Ranks(std::max<std::int64_t>(1, data / groups.data.in_machine)), Ranks(1)};
  groups.pipeline = group_of(parallel.pipeline, stride * data, per_node);
  groups.stages_across_machines = stride * data >= per_node;
  return groups;
}

WorkTime& WorkTime::operator+=(const WorkTime& other) {
  forward += other.forward;
  backward += other.backward;
  hidden_forward += other.hidden_forward;
  hidden_backward += other.hidden_backward;
  weight_turn += other.weight_turn;
  model_flops += other.model_flops;
  executed_flops += other.executed_flops;
  return *this;
}

TimeTerms WorkTime::hidden() const {
  TimeTerms both = hidden_forward;
  return both += hidden_backward;
}

WorkTime operator*(WorkTime work, double times) {
  work.forward = work.forward * times;
  work.backward = work.backward * times;
  work.hidden_forward = work.hidden_forward * times;
  work.hidden_backward = work.hidden_backward * times;
  work.weight_turn = work.weight_turn * times;
  work.model_flops *= times;
  work.executed_flops *= times;
  return work;
}

StretchPassages StretchClock::passages(const PipelineWork::Stretch& stretch) const {
  StretchPassages all;
  Passage forward(*this, all);
  for (const Kernel& kernel : stretch.forward) forward.add(kernel);
  all.forward = forward.end();
  Passage backward(*this, all), weights(*this, all);
  for (const Kernel& kernel : stretch.backward)
    (splits_backward && kernel.of_weights ? weights : backward).add(kernel);
  all.backward = backward.end();
  if (splits_backward) all.weights = weights.end();
  const double launched = all.forward.host + all.forward.captured;
  all.again = launched > 0 ? std::min(1.0, all.again / launched) : 0;
  if (paired > 0) pair(all, paired, overlap_slowdown);
  return all;
}

WorkTime StretchClock::time(const StretchPassages& passages, const HeldParameters& held) const {
  const double elements = held.whole.all(), trained = held.trained.all();
  const auto on_device = [&](double read_and_written) {
    Kernel kernel;
    kernel.bytes = read_and_written;
    return kernel.bytes > 0 ? kernels.device_time(kernel).value() : 0.0;
  };
  const auto gather = [&](double width, const Group& group) {
    if (width <= 0) return 0.0;
    const double among = exchanges.time(ExchangeKind::kAllGather, elements * width, group).value() +
                         on_device(elements * data.traffic_of_gather);
    // From the host each rank brings its own share first.
    const double up = host_link > 0 ? elements * width / data_ranks / host_link : 0.0;
    return std::max(among, up);
  };
  // Everything is sent inside the machine; of the sums each rank has its part, and sends that to the other machines.
  const auto all_to_all = [&](double bytes, const Group& group) {
    return exchanges
        .time(ExchangeKind::kAllToAll, bytes * static_cast<double>(group.ranks.value()), group)
        .value();
  };
  const double codes = trained * data.exchange_backward;
  const double scatter =
      exchanges.time(ExchangeKind::kReduceScatter, trained * data.scatter_backward, groups.data)
          .value() +
      all_to_all(codes, groups.machine) +
      all_to_all(codes / static_cast<double>(groups.machine.ranks.value()), groups.machines) +
      on_device(trained * data.traffic_of_scatter);
  const TimeTerm term = host_link > 0 ? TimeTerm::kOffload : TimeTerm::kData;
  WorkTime work{passages.forward.terms,  passages.backward.terms,  passages.weights.terms,
                passages.forward.hidden, passages.backward.hidden, passages.model_flops,
                passages.executed_flops};
  work.hidden_backward += passages.weights.hidden;
  // `hooks`: operators of the host beside those that are launched. `checks`: seconds of it for what data ranks exchange.
  const auto stream = [&](double seconds, const StretchPassages::OneWay& way, double hooks,
                          double checks, TimeTerms& terms, TimeTerms& hidden) {
    const double on_host = way.host + hooks * host_launch * share_launched(way) + checks;
    terms[TimeTerm::kHost] = shown_of_host(on_host, way);
    shown_beside(seconds, std::max(way.device, on_host), overlap_slowdown, term, terms, hidden);
  };
  const double forward = host.forward.of(held);
  const double backward = host.backward.of(held) + passages.again * host.again.of(held);
  const auto check = [&](double width, const Group& group) {
    return width > 0 ? seconds_of_check(group) : 0;
  };
  stream(gather(data.gather_forward, groups.data), passages.forward, forward,
         check(data.gather_forward, groups.data), work.forward, work.hidden_forward);
  stream(gather(data.gather_backward, groups.gather_backward) + scatter, passages.backward,
         backward,
         check(data.gather_backward, groups.gather_backward) +
             check(data.scatter_backward + data.exchange_backward, groups.data),
         work.backward, work.hidden_backward);
  work.weight_turn[TimeTerm::kHost] = shown_of_host(passages.weights.host, passages.weights);
  if (splits_backward) work.backward += work.weight_turn;
  return work;
}

}  // namespace steelyard
