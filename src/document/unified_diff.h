// Two texts as a unified diff, as `diff -u` prints it: three lines around each change.
//
//   --- qlora.yml
//   +++ qlora.yml, as exported
//   @@ -12,4 +12,4 @@
//   -micro_batch_size: 1
//   +micro_batch_size: 2
#pragma once

#include <string>
#include <string_view>

namespace steelyard {

// Empty where the texts are equal.
std::string unified_diff(std::string_view before, std::string_view after,
                         std::string_view before_name, std::string_view after_name);

}  // namespace steelyard
