#include "report/applied.h"

#include <fmt/format.h>

#include "report/table.h"
#include "report/weighing.h"

namespace steelyard {

std::string applied_text(const Compared& before, const Compared& after,
                         const std::vector<Suggestion>& applied, const Style& style) {
  std::string result = verdict_line(after.prediction, style);
  std::vector<ChangedKey> changed;
  for (const Suggestion& suggestion : applied)
    for (const Suggestion::Edit& edit : suggestion.edits)
      changed.push_back({edit.key, edit.from, edit.to});
  result += "\n" + changed_keys_text(changed);
  result += "\n" + piles_table(before, after, style) + "\n";
  for (const Suggestion& suggestion : applied)
    result +=
        wrapped(style, fmt::format("costs {}: {}", suggestion.moves_cost_to, suggestion.cost), 2) +
        "\n";
  result += step_line(before, after) + batch_line(before, after, style);
  return without_trailing_blanks(result);
}

}  // namespace steelyard
