// The answer to "which layout?": the fastest that fit, the simplest that is nearly as fast, what a rule of thumb would have
// taken, and why the others are not there.
//
//   PlanAnswer answer = plan(*question_of(document, help), wish, help);
//   answer.rows.front().time.step
//
//   tight  1.2 s  71.0-84.1   faster than what is sure, and as far as we know within the device: worth a try
//   1      1.3 s       66.0   sure to fit, which is the answer: the fastest, or where nobody says what the machines are
//                             the one that draws with it and loses least (predict/draw.h)
//
// Rows that are shown are weighed by predict(), with the allocator simulated; the search itself estimates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/first_question.h"
#include "plan/question.h"

namespace steelyard {

struct PlanRow {
  Layout layout;
  std::string recipe;  // empty: as asked
  Value run;           // the run file that says it
  Job job;
  Prediction prediction;
  StepTime time;
};

// Figure 25 of the course: one machine: checkpointing and ZeRO-2, then 3; a cluster: tensor inside the machine until it
// fits, then pipeline, ZeRO-1 on the rest. Of experts: their ranks inside the fast links first, whole experts, pipeline next,
// and tensor for attention alone (NVIDIA/Megatron-LM megatron/core/transformer/moe/README.md).
struct RuleOfThumb {
  PlanRow row;
  bool fits = false;
};

// What one more of something would buy.
struct Sensitivity {
  std::string change;
  double step = 0, gain = 0;
};

// Why the first row is not the fastest: what it takes where the fastest loses most to it, and what the fastest does.
struct Steadiness {
  Seconds fastest{};  // on the machine assumed
  OnMachine there;
  Seconds fastest_there{};
};

// A change of the recipe with which something fits, when nothing does.
struct WayOut {
  std::string change, cost;
  std::optional<PlanRow> row;  // its fastest; none: nothing fits either
};

// The fastest layout of a stack, or why there is none.
struct StackAnswer {
  const Stack* stack = nullptr;
  std::optional<PlanRow> row;
  std::string reason;
};

struct PlanAnswer {
  Space space;
  SearchResult result;
  std::vector<PlanRow> rows;             // sure to fit: the answer, then fastest first
  std::vector<PlanRow> tight;            // expected to fit and faster than those, fastest first
  std::optional<Steadiness> steadiness;  // absent: the answer is the fastest
  std::vector<PlanRow> front;            // when it was asked for
  std::optional<PlanRow> simplest;
  std::optional<RuleOfThumb> rule_of_thumb;
  std::optional<FirstQuestion> first_question;
  std::vector<Sensitivity> sensitivity;
  std::vector<WayOut> ways_out;
  std::vector<StackAnswer> stacks;  // side by side, where several are searched
  std::string launch_fault;         // why export refuses the answer of an engine that the run names
  std::vector<std::string> notes;
  bool batch_differs = false;
  // No layout divides the devices, or the readers refuse all that do.
  bool allows_nothing() const { return result.counts.not_allowed == result.counts.layouts; }
};

struct PlanWish {
  SearchWish search;
  bool explain = true;  // with rule of thumb, first question and sensitivity
  bool steady = true;   // false: the fastest on the machine assumed, whatever it takes on others
};

PlanAnswer plan(const PlanQuestion& question, const PlanWish& wish, const SearchHelp& help);

// One layout of a space, weighed fully; nothing when the readers refuse it.
std::optional<PlanRow> row_of(const PlanQuestion& question, const Space& space,
                              const Layout& layout, const SearchHelp& help);
// The same of what surely fits, else nothing: in less time.
std::optional<PlanRow> fitting_row_of(const PlanQuestion& question, const Space& space,
                                      const Layout& layout, const SearchHelp& help);

// Terms of `slower` less those of `faster`, largest first: "recompute +4.1 s".
std::vector<std::pair<TimeTerm, double>> term_differences(const StepTime& faster,
                                                          const StepTime& slower);

}  // namespace steelyard
