#include "document/diagnostic.h"

#include <algorithm>
#include <utility>

namespace steelyard {

bool is_full(const Diagnostics& problems, Severity severity) {
  if (problems.size() < kProblemsShown) return false;
  const auto described = std::count_if(
      problems.begin(), problems.end(),
      [&](const Diagnostic& problem) { return problem.severity == severity && problem.more == 0; });
  return static_cast<std::size_t>(described) >= kProblemsShown;
}

void add_problem(Diagnostics& problems, Diagnostic problem) {
  if (problem.more == 0 && !is_full(problems, problem.severity))
    problems.push_back(std::move(problem));
  else
    count_problem(problems, problem.severity, std::max<std::int64_t>(problem.more, 1));
}

void count_problem(Diagnostics& problems, Severity severity, std::int64_t more) {
  const auto counted = std::find_if(problems.begin(), problems.end(), [&](const Diagnostic& one) {
    return one.severity == severity && one.more > 0;
  });
  if (counted != problems.end()) {
    counted->more += more;
    return;
  }
  Diagnostic rest;
  rest.severity = severity;
  rest.more = more;
  problems.push_back(std::move(rest));
}

}  // namespace steelyard
