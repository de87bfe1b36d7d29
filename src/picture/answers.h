// The picture of each command's answer.
//
//   plan_svg(question, answer, frame)      layouts by time and memory, the front, the answer
//   sweep_svg(axes, points, frame)         the need against the first axis, with its band
//   largest_models_svg(answer, frame)      a line for each way of sharing the states
//   diagnosis_svg(diagnosis, frame)        what was alive, beside what should have been
//   comparison_svg(before, after, frame)   pile by pile
//
// Empty where there is nothing to draw; the face says so.
#pragma once

#include <string>
#include <vector>

#include "diagnose/diagnosis.h"
#include "picture/svg.h"
#include "plan/largest_model.h"
#include "plan/plan.h"
#include "plan/sweep.h"
#include "report/comparison.h"
#include "report/measured_comparison.h"

namespace steelyard {

std::string plan_svg(const PlanAnswer& answer, const Frame& frame);
std::string sweep_svg(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points,
                      const Frame& frame);
std::string largest_models_svg(const LargestModelAnswer& answer, const Frame& frame);
std::string diagnosis_svg(const Diagnosis& diagnosis, const Frame& frame);
std::string comparison_svg(const Compared& before, const Compared& after, const Frame& frame);
std::string comparison_svg(const ComparedMemory& before, const ComparedMemory& after,
                           const Frame& frame);

}  // namespace steelyard
