// Aceso's runs in the results of Mist (Dazz993/Mist): GPT on A10G, L4 and A100 in pipelines that are cut between operators and
// recompute single operators. The plan of a run stands in a file beside its log (parallel.flexpipe_config), not in the row, so
// no row says which layers its stage holds and what they keep.
#include "sources/sources.h"

namespace steelyard {
namespace {

Mapped map(MeasuredRow& row) {
  if (row.says("train.recompute", "recomputes 0 of"))
    return left_out("which operators its stage holds stands in a file of the run");
  return left_out("recomputes some of its operators; which, stands in a file of the run");
}

bool owns(const MeasuredRow& row) { return row.origin() == "Dazz993/Mist"; }

}  // namespace

constinit const RowSource kMistAceso = {
    "mist-aceso", "Aceso's operator-level pipelines on A10G, L4, A100", owns, map};

}  // namespace steelyard
