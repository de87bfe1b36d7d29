#include "schedule/orders.h"

#include "schedule/orders/orders.h"

namespace steelyard {

namespace {

std::string no_fault(const PipelineShape&) { return ""; }

}  // namespace

const std::array<PipelineOrder, kPipelineSchedules>& pipeline_orders() {
  static const std::array<PipelineOrder, kPipelineSchedules> kOrders = {{
#define ORDER(schedule, name, rank_order, fault, placement, fewest, most, splits, from_last, \
              run_by, meaning, in_flight, source)                                            \
  {PipelineSchedule::schedule,                                                               \
   name,                                                                                     \
   meaning,                                                                                  \
   in_flight,                                                                                \
   source,                                                                                   \
   Placement::placement,                                                                     \
   fewest,                                                                                   \
   most,                                                                                     \
   splits,                                                                                   \
   from_last,                                                                                \
   rank_order,                                                                               \
   fault},
#include "schedule/orders.def"
#undef ORDER
  }};
  return kOrders;
}

const PipelineOrder& order_of(PipelineSchedule schedule) {
  return pipeline_orders()[static_cast<std::size_t>(schedule)];
}

}  // namespace steelyard
