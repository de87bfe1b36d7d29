// Seconds of one micro-batch on one stretch of the model (embedding, a layer, head), term by term.
//
//   device   products, attention, reads and writes, exchanges that nothing hides
//   host     launches of all of them, and hooks, or of the graphs that replay them; the stretch takes the longer of both
//   beside   gathers and scatters of parameters; exchanges that run beside a product: what is longer, and the slowdown
//            that both have from each other
#pragma once

#include "cost/collective_time.h"
#include "cost/data_exchange.h"
#include "cost/held_parameters.h"
#include "cost/host_work.h"
#include "cost/kernel_time.h"
#include "cost/time_terms.h"
#include "engine/stage_program.h"

namespace steelyard {

// The groups that a rank belongs to, by axis: tensor ranks are neighbours, then context, then data; stages stand furthest
// apart (Megatron-LM core/parallel_state.py; torch's device meshes name them in the same order).
struct RankGroups {
  Group tensor, context, expert, data, pipeline;
  Group same_experts;       // data ranks, as experts have them
  Group gather_backward;    // data, or the ranks of a second copy
  Group machine, machines;  // data ranks of one machine; those in the same place of all machines
  bool stages_across_machines = false;
  const Group& on(Axis axis) const;
};
RankGroups groups_of(const Job& job);

struct WorkTime {
  TimeTerms forward, backward;
  TimeTerms
      weight_turn;  // of backward, where it is split: the gradients of weights, for which nobody waits
  TimeTerms hidden_forward, hidden_backward;  // exchanges behind compute
  double model_flops = 0, executed_flops = 0;
  TimeTerms hidden() const;
  double seconds() const { return forward.total() + backward.total(); }
  WorkTime& operator+=(const WorkTime& other);
  friend WorkTime operator*(WorkTime work, double times);
};

// A stretch before anything streams beside it: the same however many data ranks there are.
struct StretchPassages {
  struct OneWay {
    TimeTerms terms, hidden;  // but for what shows of the host
    double device = 0, host = 0;
    double captured = 0;      // of the host, but for a graph that is replayed
    double beside_other = 0;  // exchanges that wait for nothing of their own micro-batch
  };
  OneWay forward, backward;
  OneWay weights;  // of backward, where it is split
  double model_flops = 0, executed_flops = 0;
  double again = 0;  // the share of forward's launches that backward repeats
};

// Whether CUDA graphs replay what an operator launches.
bool captures(const GraphCapture& graphs, LayerPart part);

// What each stretch is timed with.
struct StretchClock {
  const KernelClock& kernels;
  const ExchangeClock& exchanges;
  const RankGroups& groups;
  DataExchange data;
  double overlap_slowdown = 0;
  double host_link = 0;  // bytes a second, where parameters come from the host; 0: they do not
  double data_ranks = 1;
  HostWork host;
  GraphCapture graphs;
  double host_launch = 0;        // seconds of the host for an operator
  bool splits_backward = false;  // the gradients of weights have a turn of their own
  // Of a step's passages, those whose expert exchanges run beside another micro-batch's computing the other way
  // (overlap.expert).
  double paired = 0;

  // What the hosts of a group take to check a collective, where they do.
  double seconds_of_check(const Group& group) const { return host.check_of(group) * host_launch; }
  StretchPassages passages(const PipelineWork::Stretch& stretch) const;
  // `held`: parameters of the stretch on this rank.
  WorkTime time(const StretchPassages& passages, const HeldParameters& held) const;
};

}  // namespace steelyard
