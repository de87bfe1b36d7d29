// The gate's findings for machines that show them: GitHub's annotations, SARIF, JUnit.
//
//   ::error file=job.sbatch,line=7,title=steelyard: does not fit::needs 141.8 GiB (121.8 to 145.7) on each rtx-4090, usable 23.6
//   {"version": "2.1.0", "runs": [{"tool": ..., "results": [{"ruleId": "does-not-fit", ...}]}]}
//   <testcase classname="steelyard.gate" name="job.sbatch"><failure type="does-not-fit" message="..."/></testcase>
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard {

enum class GateLevel : std::uint8_t { kPassed, kWarning, kRefused, kNotWeighed };

struct GateFinding {
  std::string job;   // the file as it was named
  std::string file;  // where the annotation belongs: the job itself, or a file that it names
  int line = 0;      // 1-based; 0: the file as a whole
  int column = 0;
  std::string
      rule;  // "does-not-fit", "tight", "stops-at-start", "fits"; of a job that is not weighed the code: "E104"
  std::string title;  // of the rule: "does not fit"
  GateLevel level = GateLevel::kPassed;
  std::string message;
};

// Worst first, a line each: a step of GitHub's shows ten of a kind.
std::string github_text(std::vector<GateFinding> findings);
// SARIF 2.1.0: what passed is left out, and the fingerprints stay the same while file and rule do.
std::string sarif_text(const std::vector<GateFinding>& findings);
// A case for each job, as Jenkins and GitLab read them.
std::string junit_text(const std::vector<GateFinding>& findings);

}  // namespace steelyard
