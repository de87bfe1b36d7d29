// The time of a group of layouts: the same form with the same data ranks, cut into any stages.
//
//   time.none.micro                                  38 ms   one micro-batch through all layers, nothing computed again
//   least_seconds_of_stages(layout, ...)             3.2 s   of a layout's own stages
//
// A form knows the units of its micro-batches alone, a group also what streams beside them and comes behind them.
//
// The seconds of stages are the cost model's own sum (cost/step_time.cc): kernels and exchanges of a unit of the model, the embedding, a
// layer of each kind or the head, are the same on whatever stage it stands, so a stage is the sum of its units and of what
// it sends; the order puts stages together by the cost model's closed form where it has one (breadth first included, whatever
// the stages); and what data ranks exchange once, and the optimizer, follow from the slowest and the heaviest rank. It is
// below the step in two cases. An order that is played takes no less than its ranks do (cost/pipeline_time.h). And of
// a range of layers that may be computed again those that need not be take the shorter of both times, and exchanges hide as
// well as ever they could: each only takes away from a sum and from a maximum of sums that grow with every stage.
#pragma once

#include <optional>
#include <vector>

#include "cost/step_time.h"
#include "model/architecture.h"
#include "plan/layout.h"

namespace steelyard {

// One micro-batch by unit of the model; empty where units differ from layout to layout.
struct UnitTimes {
  std::vector<StepClock::OnUnit> none, all;  // layers computed again
};

struct GroupTime {
  struct Again {
    double micro = 0;               // of one micro-batch
    double device = 0;              // of that, on the device
    double rest = 0;                // of the step: what data ranks exchange, and the optimizer
    double forward = 0, input = 0;  // of one micro-batch on the device, where backward is split
  };
  Again none, all;              // layers computed again
  double rest_beside_data = 0;  // of the rest, what is no exchange
  bool alike = true;
  // Where there are stages: backward whole and in two parts, from one stage to the next, and behind the last micro-batch.
  UnitTimes units, split_units;
  double send = 0;
  std::optional<StepEnd> end;
};

// How many layers of each kind stand before a layer of the model.
class LayerCounts {
 public:
  explicit LayerCounts(const Architecture& model);
  std::size_t kinds() const { return kinds_; }
  int kind_of(std::int64_t layer) const { return kind_[static_cast<std::size_t>(layer)]; }
  double between(std::int64_t from, std::int64_t to, std::size_t kind) const {
    return before_[static_cast<std::size_t>(to) * kinds_ + kind] -
           before_[static_cast<std::size_t>(from) * kinds_ + kind];
  }

 private:
  std::size_t kinds_;
  std::vector<int> kind_;       // by layer
  std::vector<double> before_;  // by layer, then by kind
};

// A layout's own stages. `starts`: the first layer of each part, and the end.
struct Stages {
  const Layout& layout;
  const PipelineShape shape;
  const std::vector<std::int64_t>& starts;
  const LayerCounts& layers;
};
double least_seconds_of_stages(const Stages& stages, const GroupTime& time);
// With what is known of each sequence, or whatever `times` of which are a micro-batch.
double least_seconds_of_stages(const Stages& stages, const UnitTimes& units, double times);

}  // namespace steelyard
