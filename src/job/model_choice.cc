#include "job/model_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "document/read.h"
#include "job/file_path.h"
#include "model/catalogue.h"
#include "model/read.h"

namespace steelyard {
namespace {

// In the spelling of each family; a config with none of them leaves dropout to whoever trains.
bool states_dropout(const Value& config) {
  constexpr std::array<std::string_view, 10> kKeys = {"resid_pdrop",
                                                      "attn_pdrop",
                                                      "hidden_dropout",
                                                      "attention_dropout",
                                                      "dropout",
                                                      "residual_dropout",
                                                      "dropout_rate",
                                                      "hidden_dropout_prob",
                                                      "attention_probs_dropout_prob",
                                                      "embd_pdrop"};
  return std::any_of(kKeys.begin(), kKeys.end(),
                     [&](std::string_view key) { return config.find(key) != nullptr; });
}

// The last part of a path that names something: "my-model" of "./my-model/config.json".
std::string name_in(std::string_view path) {
  while (path.ends_with("/")) path.remove_suffix(1);
  if (path.ends_with("/config.json")) path.remove_suffix(12);
  const std::string_view last = path.substr(path.rfind('/') + 1);
  return last.empty() || last == "." || last == ".." ? std::string("config.json")
                                                     : std::string(last);
}

// A folder of somebody's machine often ends in the model's public name.
std::string suggestion_of(std::string_view path) {
  const auto preset = preset_named_in(path);
  return preset
             ? fmt::format("its last part names {}: --model {} weighs that one", *preset, *preset)
             : std::string();
}

std::optional<ModelChoice> read_config(const Value& config, std::string name,
                                       Diagnostics& problems) {
  auto architecture = read_architecture(config, std::move(name), problems);
  if (!architecture) return std::nullopt;
  ModelChoice choice;
  choice.architecture = std::make_shared<const Architecture>(std::move(*architecture));
  choice.states_dropout = states_dropout(config);
  choice.stored = stored_quantisation(config);
  return choice;
}

struct ConfigFile {
  std::string path, text;
};
// The file, or config.json in the folder of that name.
tl::expected<ConfigFile, std::string> find_config(const std::string& path,
                                                  const ReadFile& read_file) {
  auto text = read_file(path);
  if (text) return ConfigFile{path, std::move(*text)};
  if (path.ends_with(".json")) return tl::unexpected(text.error());
  const std::string inside = path.ends_with("/") ? path + "config.json" : path + "/config.json";
  auto within = read_file(inside);
  if (within) return ConfigFile{inside, std::move(*within)};
  return tl::unexpected(text.error());
}

// A folder of another machine that ends in a public checkpoint's name, ${HOME}/models/Qwen2.5-7B-Instruct, has its shape: said as
// a warning, because what lies there may have been changed.
std::optional<ModelChoice> by_last_part(const Value& value, Diagnostics& problems) {
  std::string_view path = value.as_string();
  while (path.ends_with("/")) path.remove_suffix(1);
  if (path.find('/') == std::string_view::npos || path.ends_with(".json")) return std::nullopt;
  const std::string_view last = path.substr(path.rfind('/') + 1);
  const auto preset = preset_like(last);
  if (!preset) return std::nullopt;
  Diagnostics ignored;
  auto found = find_model(*preset, value.place(), ignored);
  if (!found) return std::nullopt;
  problems.push_back(
      {Severity::kWarning, "E308", fmt::format("{}: this folder is not here", path.substr(0, 200)),
       value.place(), fmt::format("weighed as {}, which its last part names", *preset),
       "--model says another: a name, a config.json or its folder"});
  return ModelChoice{std::move(found->architecture),
                     fmt::format("{} (by the folder's name)", *preset), true,
                     quantisation_in_name(last)};
}

std::optional<ModelChoice> read_file_config(const Value& value, const ReadFile& read_file,
                                            const std::string& folder, Diagnostics& problems) {
  const std::string path = path_from(folder, value);
  auto file = find_config(path, read_file);
  if (!file) {
    if (auto choice = by_last_part(value, problems)) return choice;
    problems.push_back({Severity::kError, "E100", fmt::format("{}: {}", path, file.error()),
                        value.place(), "expected a config.json or the folder that holds it",
                        suggestion_of(value.as_string())});
    return std::nullopt;
  }
  auto config = read_json(file->text, file->path);
  if (!config) {
    problems.insert(problems.end(), config.error().begin(), config.error().end());
    return std::nullopt;
  }
  auto choice = read_config(*config, name_in(file->path), problems);
  if (choice) choice->understood = fmt::format("read from {}", file->path);
  return choice;
}

}  // namespace

std::optional<ModelChoice> choose_model(const Value& value, const ReadFile& read_file,
                                        const std::string& folder, Diagnostics& problems) {
  if (value.is_table()) return read_config(value, "model", problems);
  const std::string& written = value.as_string();
  // A link to a config.json ends like a path and is none.
  const bool link = (written.find("://") != std::string::npos ||
                     written.starts_with("huggingface.co/") || written.starts_with("hf.co/")) &&
                    hub_id_of_link(written);
  if (read_file && looks_like_path(written) && !link)
    return read_file_config(value, read_file, folder, problems);
  if (looks_like_path(written) && !link) {
    problems.push_back({Severity::kError,
                        "E100",
                        fmt::format("{}: files are not read here", written.substr(0, 200)),
                        value.place(),
                        "expected a preset or a table of config.json's keys",
                        {}});
    return std::nullopt;
  }

  // A variable that nobody set: a folder of somebody's machine.
  const bool hole = written.find("${") != std::string::npos;
  if (hole)
    if (auto choice = by_last_part(value, problems)) return choice;
  Diagnostics unknown;
  if (auto found = find_model(written, value.place(), unknown)) {
    problems.insert(problems.end(), unknown.begin(), unknown.end());
    return ModelChoice{std::move(found->architecture), std::move(found->understood), true,
                       quantisation_in_name(written)};
  }
  // No name of ours; it may be a folder.
  if (read_file) {
    if (find_config(path_from(folder, value), read_file))
      return read_file_config(value, read_file, folder, problems);
    // Two parts are a hub's name.
    const bool path = std::count(written.begin(), written.end(), '/') > 1;
    if (path)
      if (auto choice = by_last_part(value, problems)) return choice;
  }
  problems.insert(problems.end(), unknown.begin(), unknown.end());
  return std::nullopt;
}

}  // namespace steelyard
