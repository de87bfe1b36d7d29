// A condition that is not known: both of its branches are read, and what they agree about is known.
#include <fmt/format.h>

#include "formats/launch/shell_reader.h"

namespace steelyard {
namespace {

bool same_value(const ShellVariable* one, const ShellVariable* other) {
  if (one == other) return true;
  if (one == nullptr || other == nullptr || one->items.size() != other->items.size()) return false;
  for (std::size_t i = 0; i < one->items.size(); ++i)
    if (one->items[i].text != other->items[i].text) return false;
  return true;
}

// A flag among its words: what is given, and not what one is.
bool holds_flags(const ShellVariable* variable) {
  if (variable == nullptr) return false;
  for (const Letters& item : variable->items)
    for (std::size_t at = item.text.find("-"); at != std::string::npos;
         at = item.text.find("-", at + 1)) {
      const bool begins = at == 0 || item.text[at - 1] == ' ' || item.text[at - 1] == '\n';
      if (begins && at + 1 < item.text.size() &&
          (item.text[at + 1] == '-' || is_name_start(item.text[at + 1])))
        return true;
    }
  return false;
}

// Each name that one of two branches changed, with what each leaves there.
template <class Map, class Visit>
void each_changed(const Map& map, const typename Map::Changes& one,
                  const typename Map::Changes& other, const Visit& visit) {
  std::set<std::string, std::less<>> names;
  for (const auto& [name, value] : one) names.insert(name);
  for (const auto& [name, value] : other) names.insert(name);
  const auto left_by = [&](const typename Map::Changes& changes, const std::string& name) {
    const auto found = changes.find(name);
    return found == changes.end() ? map.find(name) : found->second;
  };
  for (const std::string& name : names) visit(name, left_by(one, name), left_by(other, name));
}

bool is_empty(const ShellVariable* variable) {
  if (variable == nullptr) return true;
  for (const Letters& item : variable->items)
    if (item.text.find_first_not_of(" \t\n\\") != std::string::npos) return false;
  return true;
}

std::string flags_from(const ShellVariable* variable, std::size_t item, std::size_t letter) {
  constexpr std::size_t kMostShown = 120;
  std::string text;
  for (; variable != nullptr && item < variable->items.size(); ++item, letter = 0)
    text += (text.empty() ? "" : " ") +
            variable->items[item].text.substr(std::min(letter, variable->items[item].text.size()));
  std::string shown;
  for (const char c : text)
    if (c != '\\' && !(std::string_view(" \n\t").find(c) != std::string_view::npos &&
                       (shown.empty() || shown.back() == ' ')))
      shown.push_back(c == '\n' || c == '\t' ? ' ' : c);
  while (!shown.empty() && shown.back() == ' ') shown.pop_back();
  if (shown.size() > kMostShown) shown = shown.substr(0, kMostShown) + " ...";
  return shown;
}

}  // namespace

ShellReader::Flow ShellReader::presumably(const Way& one, const Way& other) {
  variables_.begin();
  files_.begin();
  const Flow flow = one();
  const auto files = files_.take_back();
  const auto variables = variables_.take_back();
  // A way that ends the script is a word about its use.
  if (flow == Flow::kExit && !refused_) return other();
  for (const auto& [name, value] : variables) variables_.set(name, value);
  for (const auto& [name, value] : files) files_.set(name, value);
  return flow;
}

ShellReader::Flow ShellReader::either(std::size_t at, const Way& one, const Way& other) {
  const std::string cause = cause_;
  const auto apart = [&](const Way& way, Flow& flow) {
    conditions_.push_back(at);
    variables_.begin();
    files_.begin();
    flow = way();
    conditions_.pop_back();
    auto files = files_.take_back();
    return std::pair(variables_.take_back(), std::move(files));
  };
  Flow first = Flow::kNext;
  Flow second = Flow::kNext;
  auto yes = apart(one, first);
  auto no = apart(other, second);
  if (refused_) return Flow::kExit;
  cause_ = cause;
  const auto take = [&](const auto& changes) {
    for (const auto& [name, value] : changes.first) variables_.set(name, value);
    for (const auto& [name, value] : changes.second) files_.set(name, value);
  };
  // A branch that ends the script is not the one that goes on.
  const bool ends = first == Flow::kExit || first == Flow::kReturn;
  const bool other_ends = second == Flow::kExit || second == Flow::kReturn;
  if (ends != other_ends) {
    take(ends ? no : yes);
    return ends ? second : first;
  }
  merge(at, yes.first, no.first);
  merge_files(yes.second, no.second);
  status_.reset();
  external_ = false;
  presumed_ = false;
  return first == second ? first : Flow::kNext;
}

void ShellReader::merge(std::size_t at, const BranchedMap<ShellVariable>::Changes& one,
                        const BranchedMap<ShellVariable>::Changes& other) {
  each_changed(variables_, one, other, [&](const std::string& name, const auto& a, const auto& b) {
    if (same_value(a.get(), b.get())) {
      variables_.set(name, a);
    } else if (auto common = common_part(at, name, a.get(), b.get())) {
      variables_.set(name, std::make_shared<const ShellVariable>(std::move(*common)));
    } else {
      assign_hole(name, {cause_, "decided by a condition that is not known here"}, at);
    }
  });
}

// Of two lists of flags, what both begin with; the rest is named where the variable is used.
std::optional<ShellVariable> ShellReader::common_part(std::size_t at, const std::string& name,
                                                      const ShellVariable* one,
                                                      const ShellVariable* other) {
  if (!holds_flags(one) && !holds_flags(other)) return std::nullopt;
  if (!(holds_flags(one) || is_empty(one)) || !(holds_flags(other) || is_empty(other)))
    return std::nullopt;
  static const ShellVariable kNone;
  const ShellVariable& a = one == nullptr ? kNone : *one;
  const ShellVariable& b = other == nullptr ? kNone : *other;
  ShellVariable common;
  common.array = a.array || b.array;
  std::size_t item = 0;
  std::size_t letter = 0;
  while (item < a.items.size() && item < b.items.size() && a.items[item].text == b.items[item].text)
    common.items.push_back(a.items[item++]);
  if (item < a.items.size() && item < b.items.size()) {
    const std::string& x = a.items[item].text;
    const std::string& y = b.items[item].text;
    std::size_t same = 0;
    while (same < x.size() && same < y.size() && x[same] == y[same]) ++same;
    // Whole flags: back to where the last of them began, unless one of the two ends there.
    const auto ends = [&](const std::string& text) {
      return same == text.size() || text[same] == ' ' || text[same] == '\n';
    };
    if (!ends(x) || !ends(y)) {
      const std::size_t flag = x.rfind(" -", same);
      same = flag == std::string::npos ? 0 : flag;
    }
    if (!common.array || same > 0) {
      Letters part;
      for (std::size_t i = 0; i < same; ++i)
        part.add(x[i], a.items[item].at[i], a.items[item].quoted[i]);
      common.items.push_back(std::move(part));
    }
    letter = same;
  } else if (common.items.empty() && !common.array) {
    common.items.emplace_back();
  }
  for (const ShellVariable* variable : {&a, &b})
    for (const std::size_t doubt : variable->doubts)
      if (std::find(common.doubts.begin(), common.doubts.end(), doubt) == common.doubts.end())
        common.doubts.push_back(doubt);
  std::string label;
  for (const ShellVariable* variable : {&a, &b})
    if (const std::string more = flags_from(variable, item, letter); !more.empty())
      label += (label.empty() ? "" : ", or ") + more;
  if (!label.empty() && common.doubts.size() < 16) {
    common.doubts.push_back(doubts_.size());
    doubts_.push_back({at, fmt::format("not read, as what it adds to {}: {}", name, label), false});
  }
  spend(common);
  return common;
}

void ShellReader::merge_files(const BranchedMap<Value>::Changes& one,
                              const BranchedMap<Value>::Changes& other) {
  each_changed(files_, one, other, [&](const std::string& name, const auto& a, const auto& b) {
    if (a && b && a->as_string() != b->as_string()) {
      script_.unwritten[name] = "what it holds is decided by a condition that is not known here";
      files_.set(name, nullptr);
    } else {
      files_.set(name, a ? a : b);
    }
  });
}

}  // namespace steelyard
