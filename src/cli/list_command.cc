#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "document/edit_distance.h"
#include "report/lists.h"
#include "report/prediction_json.h"
#include "report/table.h"

namespace steelyard {

int list_command(const Invocation& invocation) {
  std::vector<std::string_view> names;
  for (const List& list : lists()) names.push_back(list.name);
  if (invocation.words.size() > 1) return refuse_words(invocation, "list takes one word");
  if (invocation.words.empty()) {
    if (invocation.json)
      return refuse_words(invocation, fmt::format("list what: {}", any_of(names)));
    Table table({{"lists"}, {""}});
    for (const List& list : lists()) table.add({std::string(list.name), std::string(list.says)});
    answer(table.text(invocation.style));
    return kDone;
  }
  for (const List& list : lists()) {
    if (list.name != invocation.words.front()) continue;
    if (invocation.json) {
      answer(document_text(list.json()));
    } else {
      const std::string text = list.text(invocation.style);
      answer(invocation.style.ascii ? plain_characters(text) : text);
    }
    return kDone;
  }
  const std::string& word = invocation.words.front();
  Diagnostic problem = command_line_problem("E003", fmt::format("no list is called \"{}\"", word));
  problem.help = did_you_mean("list", nearest_names(word, names));
  if (problem.help.empty()) problem.help = fmt::format("the lists are {}", any_of(names));
  return refuse(invocation, {problem}, "");
}

}  // namespace steelyard
