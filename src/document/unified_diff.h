// Two texts as a unified diff, as `diff -u` prints it: three lines around each change.
//
//   --- qlora.yml
//   +++ qlora.yml, as exported
//   @@ -12,4 +12,4 @@
//   -micro_batch_size: 1
//   +micro_batch_size: 2
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard {

// Empty where the texts are equal.
std::string unified_diff(std::string_view before, std::string_view after,
                         std::string_view before_name, std::string_view after_name);

// A line that differs, without its end. A line that joins has no `before`, one that goes has no `after`.
struct ChangedLine {
  std::int64_t line = 0;  // of the first text; of a line that joins, the one that stands behind it
  std::string before, after;
};
std::vector<ChangedLine> changed_lines(std::string_view before, std::string_view after);

}  // namespace steelyard
