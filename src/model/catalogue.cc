#include "model/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/embedded.h"
#include "document/edit_distance.h"
#include "document/read.h"
#include "model/guess.h"
#include "model/read.h"
#include "model/stored_quantisation.h"

namespace steelyard {
namespace {

constexpr std::string_view kFolder = "models/";
constexpr std::string_view kSuffix = ".json";

std::string_view name_of_file(const EmbeddedFile& file) {
  std::string_view name = file.path;
  name.remove_prefix(kFolder.size());
  name.remove_suffix(kSuffix.size());
  return name;
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_but_for_capitals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

bool starts_with(std::string_view text, std::string_view start) {
  return text.size() >= start.size() && equal_but_for_capitals(text.substr(0, start.size()), start);
}

// The hub id is cut out of the text: parsing every file to find one would cost more than all the
// rest. The files write it as `"hub_id": "..."`; a test compares this with the parsed value.
std::string_view hub_id_in(std::string_view text) {
  constexpr std::string_view kKey = "\"hub_id\": \"";
  const std::size_t at = text.find(kKey);
  if (at == std::string_view::npos) return {};
  const std::size_t start = at + kKey.size();
  return text.substr(start, text.find('"', start) - start);
}

const EmbeddedFile* file_of(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files_in("models"))
    if (equal_but_for_capitals(name_of_file(file), name)) return &file;
  return nullptr;
}

std::string text_at(const Value& value, std::string_view key) {
  const Value* found = value.find(key);
  return found != nullptr && found->is_string() ? found->as_string() : std::string();
}

std::int64_t number_at(const Value& value, std::string_view path) {
  const Value* found = value.at(path);
  return found != nullptr && found->is_integer() ? found->as_integer() : 0;
}

bool is_true(const Value& value, std::string_view key, bool fallback) {
  const Value* found = value.find(key);
  return found != nullptr && found->is_bool() ? found->as_bool() : fallback;
}

// A search asks for the same model thousands of times: the last one of each thread is remembered.
std::optional<FoundModel> read_found(std::string_view name, std::string understood,
                                     Diagnostics& diagnostics) {
  thread_local std::shared_ptr<const Architecture> last;
  if (last != nullptr && last->name == name) return FoundModel{last, std::move(understood)};
  const auto preset = find_preset(name);
  if (!preset) return std::nullopt;
  auto model = read_architecture(preset->config, preset->name, diagnostics);
  if (!model) return std::nullopt;
  model->hub_id = preset->hub_id;
  const bool plain = diagnostics.empty();
  auto found = std::make_shared<const Architecture>(std::move(*model));
  if (plain) last = found;
  return FoundModel{std::move(found), std::move(understood)};
}

// What tuned, quantised and republished checkpoints keep of the name of the one whose shape they have, without its owner:
// "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit" is a llama-3.1-8b.
std::string without_endings(std::string name) {
  constexpr std::array<std::string_view, 14> kEnds = {
      "-bnb-4bit", "-unsloth", "-fp16", "-bf16", "-2507", "-instruct", "-thinking",
      "-chat",     "-it",      "-base", "-hf",   "-pt",   "-deduped",  "-1m"};
  const auto ends = [&](std::string_view end) {
    return name.size() > end.size() && name.ends_with(end);
  };
  for (auto end = kEnds.begin(); end != kEnds.end();) {
    if (!ends(*end)) {
      ++end;
      continue;
    }
    name.resize(name.size() - end->size());
    end = kEnds.begin();
  }
  return name;
}

std::string plain_name(std::string_view written) {
  std::string name(written.substr(written.rfind('/') + 1));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  constexpr std::string_view kOwner = "meta-";
  if (name.starts_with(kOwner)) name.erase(0, kOwner.size());
  // Behind "-gptq" only how it was quantised is said: llama-2-7b-aqlm-2bit-1x16-hf.
  if (const std::size_t at = quantisation_word_in(name); at != std::string::npos && at > 0)
    name.resize(at - 1);
  name = without_endings(std::move(name));
  for (const std::string_view word : {"-instruct-", "-chat-", "-base-"})  // before a version
    if (const std::size_t at = name.find(word); at != std::string::npos)
      name.erase(at, word.size() - 1);
  return name;
}

// Whether the file says that a checkpoint of this plain name has its shape, too: `"same_shape": ["...", "..."]`.
bool shares_shape(std::string_view text, std::string_view plain) {
  text = text.substr(
      0, text.find("\"config\""));  // it stands before the shape itself: a search reads names often
  constexpr std::string_view kKey = "\"same_shape\": [";
  const std::size_t key = text.find(kKey);
  if (key == std::string_view::npos) return false;
  std::string_view list = text.substr(key + kKey.size());
  list = list.substr(0, list.find(']'));
  for (std::size_t at = list.find('"'); at != std::string_view::npos; at = list.find('"')) {
    list.remove_prefix(at + 1);
    const std::string_view id = list.substr(0, list.find('"'));
    list.remove_prefix(id.size() + 1);
    if (plain_name(id) == plain) return true;
  }
  return false;
}

// One preset at the distance of one forgotten separator: llama3-8b is llama-3-8b.
std::optional<std::string_view> preset_but_for_a_dash(std::string_view written) {
  std::optional<std::string_view> found;
  for (const std::string_view name : preset_names()) {
    const auto longer = std::max(name.size(), written.size());
    if (longer - std::min(name.size(), written.size()) > 1) continue;
    if (edit_distance(written, name) > 1) continue;
    if (found) return std::nullopt;
    found = name;
  }
  return found;
}

// Where a checkpoint that nobody knows by name can be read: "owner/name" alone is a hub's.
std::string config_address(std::string_view written) {
  const bool hub = std::count(written.begin(), written.end(), '/') == 1 &&
                   written.find_first_of(" :\\$") == std::string_view::npos &&
                   written.front() != '/' && written.back() != '/' && written.front() != '.';
  return hub ? fmt::format(
                   "its shape is in https://huggingface.co/{}/resolve/main/config.json: save it "
                   "and "
                   "give its path as the model; ",
                   written)
             : std::string();
}

void refuse_name(std::string_view written, const Place& place, Diagnostics& diagnostics) {
  std::vector<std::string_view> names = preset_names();
  const std::size_t presets = names.size();
  if (written.find('/') != std::string_view::npos)
    for (const EmbeddedFile& file : embedded_files_in("models"))
      if (const auto id = hub_id_in(file.text); !id.empty()) names.push_back(id);
  const auto near = nearest_products(written, names, MustKeep::kNumbers);
  std::string help = near.empty() ? std::string() : did_you_mean("model", near) + "; ";
  if (near.empty())
    if (const auto base = preset_named_in(written))
      help = fmt::format("its name has {} in it: --model {} if it is a fine-tune of that shape; ",
                         *base, *base);
  help += config_address(written);
  help += fmt::format(
      "accepted are the {} names of `steelyard list models`, their hub names, a config.json or its "
      "folder, a table of its keys, or a size as in \"7B\"",
      presets);
  diagnostics.push_back({Severity::kError, "E308", fmt::format("no model is named \"{}\"", written),
                         place, "not a known model", std::move(help)});
}

}  // namespace

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const EmbeddedFile& file : embedded_files_in("models")) names.push_back(name_of_file(file));
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<Preset> find_preset(std::string_view name) {
  const EmbeddedFile* file = file_of(name);
  if (file == nullptr) return std::nullopt;
  const auto document = read_json(file->text, std::string("data/") + std::string(file->path));
  if (!document) return std::nullopt;

  Preset preset;
  preset.name = name_of_file(*file);
  preset.hub_id = text_at(*document, "hub_id");
  if (const Value* config = document->find("config")) preset.config = *config;
  preset.parameters = number_at(*document, "parameters");
  preset.published = text_at(*document, "published");
  if (document->at("exact_check.value") != nullptr)
    preset.exact_check = number_at(*document, "exact_check.value");
  preset.disputed = is_true(*document, "disputed", false);
  preset.dispute = text_at(*document, "dispute");
  preset.verified = is_true(*document, "verified", true);
  preset.notes = text_at(*document, "notes");
  if (const Value* source = document->find("source"))
    preset.source = text_at(*source, "repo") + ": " + text_at(*source, "path");
  return preset;
}

std::optional<std::string_view> preset_of_hub_id(std::string_view hub_id) {
  for (const EmbeddedFile& file : embedded_files_in("models"))
    if (const auto id = hub_id_in(file.text); !id.empty() && equal_but_for_capitals(id, hub_id))
      return name_of_file(file);
  return std::nullopt;
}

std::optional<std::string_view> preset_like(std::string_view written) {
  if (std::count(written.begin(), written.end(), '/') > 1) return std::nullopt;
  // A search reads the same name thousands of times.
  thread_local std::pair<std::string, std::string_view> last;
  if (!last.second.empty() && last.first == written) return last.second;
  const auto found = [&](const EmbeddedFile& file) {
    last = {std::string(written), name_of_file(file)};
    return last.second;
  };
  const std::string plain = plain_name(written);
  for (const EmbeddedFile& file : embedded_files_in("models")) {
    if (shares_shape(file.text, plain)) return found(file);
    if (equal_but_for_capitals(name_of_file(file), plain)) return found(file);
    const std::string_view id = hub_id_in(file.text);
    if (!id.empty() && plain_name(id) == plain) return found(file);
  }
  return std::nullopt;
}

std::optional<std::string_view> preset_named_in(std::string_view written) {
  while (written.ends_with("/")) written.remove_suffix(1);
  if (written.ends_with("/config.json"))
    written.remove_suffix(std::string_view("/config.json").size());
  if (const auto whole = preset_like(written.substr(written.rfind('/') + 1))) return whole;
  std::string name(written.substr(written.rfind('/') + 1));
  std::transform(name.begin(), name.end(), name.begin(), lower);
  const auto ends_a_word = [&](std::size_t at) {
    return at >= name.size() || name[at] == '-' || name[at] == '_';
  };
  std::optional<std::string_view> longest;
  for (const std::string_view preset : preset_names())
    for (std::size_t at = name.find(preset); at != std::string::npos;
         at = name.find(preset, at + 1))
      if ((at == 0 || ends_a_word(at - 1)) && ends_a_word(at + preset.size()) &&
          (!longest || preset.size() > longest->size()))
        longest = preset;
  return longest;
}

std::optional<std::string> hub_id_of_link(std::string_view link) {
  for (const std::string_view scheme : {"https://", "http://"})
    if (starts_with(link, scheme)) link.remove_prefix(scheme.size());
  bool is_hub = false;
  for (const std::string_view host :
       {"huggingface.co/", "www.huggingface.co/", "hf.co/", "hf://", "hf-mirror.com/"}) {
    if (!starts_with(link, host)) continue;
    link.remove_prefix(host.size());
    is_hub = true;
    break;
  }
  if (!is_hub) return std::nullopt;
  for (const std::string_view part : {"api/models/", "models/"})
    if (starts_with(link, part)) link.remove_prefix(part.size());
  link = link.substr(0, link.find_first_of("?#"));
  const std::size_t slash = link.find('/');
  if (slash == std::string_view::npos || slash == 0) return std::nullopt;
  const std::string_view id = link.substr(0, link.find('/', slash + 1));
  if (id.size() == slash + 1) return std::nullopt;
  return std::string(id);
}

std::optional<FoundModel> find_model(std::string_view written, const Place& place,
                                     Diagnostics& diagnostics) {
  if (const EmbeddedFile* file = file_of(written)) {
    const std::string_view name = name_of_file(*file);
    return read_found(name, name == written ? std::string() : std::string(name), diagnostics);
  }
  const std::string name = hub_id_of_link(written).value_or(std::string(written));
  auto preset = preset_of_hub_id(name);
  if (preset) return read_found(*preset, fmt::format("{} ({})", *preset, name), diagnostics);
  if (parameters_written(name)) {
    auto model = guess_architecture(name, place, diagnostics);
    if (!model) return std::nullopt;
    std::string rule = model->guess_rule;
    return FoundModel{std::make_shared<const Architecture>(std::move(*model)), std::move(rule)};
  }
  preset = preset_like(name);
  if (preset)
    return read_found(*preset, fmt::format("{} (the shape of {})", *preset, name), diagnostics);
  preset = preset_but_for_a_dash(name);
  if (preset) return read_found(*preset, std::string(*preset), diagnostics);
  refuse_name(written, place, diagnostics);
  return std::nullopt;
}

}  // namespace steelyard
