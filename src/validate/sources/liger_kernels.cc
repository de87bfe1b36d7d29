// Liger's benchmark table: one kernel at a time, with its inputs. No run, so nothing to weigh.
#include "validate/sources/sources.h"

namespace steelyard {
namespace {

Mapped map(MeasuredRow& row) {
  (void)row;
  return left_out("one kernel by itself: not a run");
}

bool owns(const MeasuredRow& row) { return row.origin() == "linkedin/Liger-Kernel"; }

}  // namespace

constinit const RowSource kLigerKernels = {"liger-kernels", "single kernels: not runs", owns, map};

}  // namespace steelyard
