#include "report/plan_unfinished.h"

#include <fmt/format.h>

#include "quantity/print.h"

namespace steelyard {

std::string unfinished_words(const SearchCounts& counts, bool more, bool by_thumb) {
  constexpr std::int64_t kMany = 1'000'000;
  const std::string of = more ? "at least " : "";
  const auto millions = [](std::int64_t count) {
    return static_cast<double>(count) / static_cast<double>(kMany);
  };
  const std::string asked =
      counts.layouts < kMany ? fmt::format("{} of {}{} layouts", print_count(counts.asked()), of,
                                           print_count(counts.layouts))
                             : fmt::format("{:.1f} of {}{:.1f} million layouts",
                                           millions(counts.asked()), of, millions(counts.layouts));
  const char* found = counts.fits > 0 ? "the best so far; those left may be faster"
                      : by_thumb      ? "the layout shown is the rule of thumb's"
                                      : "none of them fits yet";
  if (counts.layouts == 0) return "not finished: no layout asked; --seconds N searches for longer";
  return fmt::format("not finished: {} asked, {}; --seconds N searches for longer", asked, found);
}

}  // namespace steelyard
