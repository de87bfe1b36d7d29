// A plan for people, on one screen: what was assumed, the best layout, the stacks beside it, what a rule of thumb takes, what
// better hardware buys, and what to ask next. How the search went stands behind -v.
//
//   assume 64 sequences a step · in hgx-h100
//   best   megatron · tensor 4 · pipeline 4 · data 4 · zero 1 · micro-batch 1 · no recompute
//          59.7 s a step · 1,098 tokens/s a device · 47 % MFU · fits: 63.1 GiB of 79.1 on stage 0
#pragma once

#include <string>

#include "plan/plan.h"
#include "report/style.h"

namespace steelyard {

std::string plan_text(const PlanQuestion& question, const PlanAnswer& answer, double seconds,
                      const std::string& arguments, bool verbose, const Style& style);
}  // namespace steelyard
