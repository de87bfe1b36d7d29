#include "formats/launch/patch_launcher.h"

#include <algorithm>

#include "formats/launch/config_text.h"
#include "formats/launch/patch_check.h"

namespace steelyard {
namespace {

// --gres=gpu:h100:8 · -N 2 · --gpus-per-node=8: the last number of the option.
std::optional<TextEdit> count_replaced(const LaunchSource& source, const Value& value,
                                       std::int64_t count) {
  const auto at = offset_of(source, value.mark());
  if (!at) return std::nullopt;
  const std::string_view text = source.text;
  std::size_t end = *at;
  int words = 0;
  while (end < text.size() && text[end] != '\n' && text[end] != '#') {
    if (text[end] == ' ' &&
        (text.substr(*at, end - *at).find('=') != std::string_view::npos || ++words > 1))
      break;
    ++end;
  }
  std::size_t upto = end;
  while (upto > *at && (text[upto - 1] < '0' || text[upto - 1] > '9')) --upto;
  std::size_t from = upto;
  while (from > *at && text[from - 1] >= '0' && text[from - 1] <= '9') --from;
  if (from == upto) return std::nullopt;
  return TextEdit{from, upto - from, std::to_string(count)};
}

// # steelyard: cluster.device = "h100-sxm-80gb"
std::optional<TextEdit> remark_replaced(const LaunchSource& source, const Value& said,
                                        const Value& value) {
  const auto at = offset_of(source, said.mark());
  if (!at) return std::nullopt;
  const std::string_view line =
      std::string_view(source.text).substr(*at, line_end(source.text, *at) - *at);
  const std::size_t sign = line.find(" = ");
  if (!line.starts_with("# steelyard: ") || sign == std::string_view::npos || value.is_table())
    return std::nullopt;
  Value one = Value::table();
  one.members().push_back({"k", Mark(), value});
  std::string word = toml_text(one).substr(4);
  word.pop_back();
  return TextEdit{*at + sign + 3, line.size() - sign - 3, std::move(word)};
}

}  // namespace

std::vector<PlacedEdit> launcher_edits(const Imported& imported, const Value& wanted,
                                       const std::set<std::string>& changed) {
  std::vector<PlacedEdit> edits;
  const auto add = [&](const Value& at, std::optional<TextEdit> edit) {
    if (edit) edits.push_back({at.mark().source->name, std::move(*edit)});
  };
  const Value* all = wanted.at("cluster.devices");
  const Value* own = wanted.at("cluster.devices_per_node");
  const std::int64_t devices = all == nullptr ? 0 : count_of(*all).value_or(0);
  const std::int64_t said_each = own == nullptr ? 0 : count_of(*own).value_or(0);
  const std::int64_t each = said_each > 0 ? std::min(said_each, devices) : devices;
  if (devices > 0 && each > 0 && devices % each == 0 &&
      (changed.count("cluster.devices") > 0 || changed.count("cluster.devices_per_node") > 0))
    for (const LaunchDocument& document : imported.documents) {
      const auto put = [&](const char* key, std::int64_t count) {
        const Value::Member* member = document.theirs.member(key);
        const LaunchSource* source =
            member == nullptr ? nullptr : source_of(imported, member->value.mark());
        if (source == nullptr) return;
        add(member->value, document.format == "sbatch"
                               ? count_replaced(*source, member->value, count)
                               : replaced(*source, *member, Value::integer(count)));
      };
      if (document.format == "launcher") {
        const bool has_nodes = document.theirs.member("nodes") != nullptr;
        put("nodes", devices / each);
        put("each", has_nodes ? each : devices);
      } else if (document.format == "sbatch") {
        put("nodes", devices / each);
        for (const char* key : {"gpus_per_node", "gres"}) put(key, each);
        put("gpus", devices);
      }
    }
  for (const std::string& key : changed) {
    const Value* said = imported.run.at(key);
    const Value* value = wanted.at(key);
    const LaunchSource* source = said == nullptr ? nullptr : source_of(imported, said->mark());
    if (source == nullptr || value == nullptr || source->language != LaunchSource::Language::kShell)
      continue;
    if (auto remark = remark_replaced(*source, *said, *value))
      add(*said, std::move(remark));
    else if (key.starts_with("environment.")) {
      const Value::Member member{key, said->mark(), *said};
      add(*said, replaced(*source, member, *value));
    }
  }
  return edits;
}

}  // namespace steelyard
