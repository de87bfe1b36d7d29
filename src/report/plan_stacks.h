// The stacks of a plan beside each other, and the recipe in which all of them train.
//
//   stack        tp  pp  dp  zero  mbs  recompute   peak, GiB    step    MFU
//   FSDP2         1   1   4     3    2  full             38.0   5.2 s   44 %
//   ZeRO-3 *      1   1   4     3    1  full             34.1   5.3 s   43 %
//   not    DDP 12.3 GiB too much · nanotron has no qwen3
#pragma once

#include <string>

#include "plan/plan.h"
#include "report/style.h"

namespace steelyard {

std::string stacks_text(const PlanAnswer& answer, const Style& style);
// "not    DDP 12.3 GiB too much · nanotron has no qwen3"
std::string left_out_text(const PlanQuestion& question, const PlanAnswer& answer,
                          const Style& style);
// "bf16 parameters, gradients · fp32 accumulation, master weights, moments": the best row's; a star marks what differs.
std::string recipe_text(const PlanAnswer& answer, const Style& style);
// What drives the answer and was not said: "assume sequence length 131,072 · 64 sequences a step · machine pcie-server".
std::string assumed_text(const PlanQuestion& question, const PlanAnswer& answer,
                         const Style& style);
// A line with its name in front: "best   megatron · tensor 4".
std::string named_line(const Style& style, const std::string& name,
                       const std::vector<std::string>& parts);

}  // namespace steelyard
