// The report of an import: what was recognised, every value with where it was written, what nobody says, what is kept.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "document/printable.h"
#include "formats/launch/launch.h"

namespace steelyard {
namespace {

constexpr std::size_t kWidth = 80;

// A key or a value of others: one line, whatever is in it, and no page.
std::string shown_word(const std::string& word) {
  constexpr std::size_t kLongest = 240;
  if (word.size() <= kLongest) return printable(word);
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(word[cut]) & 0xC0U) == 0x80U) --cut;
  return printable(std::string_view(word).substr(0, cut)) + "...";
}

// Lines of three columns, each as wide as its longest word.
class Columns {
 public:
  void add(const std::string& first, const std::string& second, const std::string& third) {
    rows_.push_back({shown_word(first), shown_word(second), shown_word(third)});
    widths_[0] = std::max(widths_[0], std::min<std::size_t>(rows_.back()[0].size(), 48));
    widths_[1] = std::max(widths_[1], std::min<std::size_t>(rows_.back()[1].size(), 32));
  }
  std::string text() const {
    std::string text;
    for (const auto& [first, second, third] : rows_)
      text += fmt::format("  {:<{}}  {:<{}}  {}\n", first, widths_[0], second, widths_[1], third);
    return text;
  }
  bool empty() const { return rows_.empty(); }

 private:
  std::vector<std::array<std::string, 3>> rows_;
  std::size_t widths_[2] = {0, 0};
};

void add_rows(Columns& columns, const std::string& key, const Value& value) {
  if (value.is_table()) {
    for (const Value::Member& member : value.members())
      add_rows(columns, fmt::format("{}.{}", key, member.key), member.value);
    return;
  }
  const Place place = value.place();
  // A default of the format stands below, with its reason.
  columns.add(key, shown(value),
              place.line > 0                  ? fmt::format("{}:{}", place.source, place.line)
              : place.source.starts_with("<") ? "not said"
                                              : place.source);
}

// Dotted names of what is kept; what a format writes for its own classes (_target_) is not listed.
void collect(std::vector<std::string>& names, const std::string& prefix, const Value& value) {
  for (const Value::Member& member : value.members()) {
    if (member.key == "_target_" || member.key == "_call_" || member.key == "_args_") continue;
    const std::string name = prefix + member.key;
    if (member.value.is_table())
      collect(names, name + ".", member.value);
    else
      names.push_back(name);
  }
}

std::string wrapped(std::string_view title, const std::vector<std::string>& names) {
  std::string text = fmt::format("  {}:", shown_word(std::string(title)));
  std::size_t column = text.size();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string word = shown_word(names[i]) + (i + 1 < names.size() ? "," : "");
    if (column + 1 + word.size() > kWidth && i > 0) {
      text += "\n   ";
      column = 3;
    }
    text += " " + word;
    column += 1 + word.size();
  }
  return text + "\n";
}

}  // namespace

std::string import_report(const Imported& imported) {
  std::string text = "read as ";
  for (std::size_t i = 0; i < imported.formats.size(); ++i)
    text += (i > 0 ? ", " : "") + imported.formats[i];
  if (imported.formats.empty()) text += "nothing that is known";
  text += "\n\n";
  Columns said;
  for (const Value::Member& section : imported.run.members())
    if (section.key != "carried") add_rows(said, section.key, section.value);
  text += said.text();
  const auto add = [&](std::string_view title, const std::vector<Unsaid>& values) {
    Columns columns;
    for (const Unsaid& one : values)
      columns.add(one.key, one.taken.empty() ? "-" : one.taken, one.why);
    if (!columns.empty()) text += fmt::format("\n{}\n{}", title, columns.text());
  };
  add("not said", imported.unsaid);
  add("taken when it is weighed", imported.taken);
  if (const Value* carried = imported.run.find("carried")) {
    std::string kept;
    for (const Value::Member& format : carried->members()) {
      if (!format.value.is_table()) continue;
      std::vector<std::string> names;
      collect(names, "", format.value);
      if (!names.empty()) kept += wrapped(format.key, names);
    }
    if (!kept.empty()) text += "\nkept and not read\n" + kept;
  }
  return text;
}

}  // namespace steelyard
