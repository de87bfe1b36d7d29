#include "formats/launch/formats.h"

#include <fmt/format.h>

#include <algorithm>

namespace steelyard {
namespace {

std::int64_t values_in(const Value& value) {
  std::int64_t count = 1;
  if (value.is_table())
    for (const Value::Member& member : value.members()) count += values_in(member.value);
  if (value.is_array())
    for (const Value& item : value.items()) count += values_in(item);
  return count;
}

LaunchSource::Language language_of(std::string_view name) {
  return name.ends_with(".json")   ? LaunchSource::Language::kJson
         : name.ends_with(".toml") ? LaunchSource::Language::kToml
                                   : LaunchSource::Language::kYaml;
}

// Where a file that is named may lie: beside the one that names it, or in a folder above (names are often relative to the
// repository's root), or where the command runs; an absolute name of another machine beside it.
std::vector<std::string> places_of(const std::string& name, const std::string& folder,
                                   const std::vector<std::string>& roots) {
  std::vector<std::string> places;
  if (name.starts_with("/")) {
    places.push_back(name);
    const std::string base = name.substr(name.rfind('/') + 1);
    places.push_back(folder.empty() ? base : fmt::format("{}/{}", folder, base));
    return places;
  }
  std::string above = folder;
  for (int i = 0; i < 8 && !above.empty(); ++i) {
    places.push_back(fmt::format("{}/{}", above, name));
    const std::size_t slash = above.rfind('/');
    above.resize(slash == std::string::npos ? 0 : slash);
  }
  places.push_back(name);
  for (const std::string& root : roots) places.push_back(fmt::format("{}/{}", root, name));
  return places;
}

}  // namespace

bool is_too_large(const Value& document, Imported& into) {
  if (values_in(document) <= kMostLaunchValues) return false;
  into.problems.push_back({Severity::kError,
                           "E103",
                           fmt::format("more than {} values", kMostLaunchValues),
                           document.place(),
                           "no launch configuration is as large",
                           {}});
  return true;
}

std::optional<ShellFile> script_file(Launch& launch, const std::string& name) {
  if (!launch.read_file || name.empty()) return std::nullopt;
  for (const std::string& place : places_of(name, launch.folder, launch.roots))
    if (auto text = launch.read_file(place)) {
      launch.into.sources[place] = {*text, LaunchSource::Language::kShell};
      return ShellFile{place, std::move(*text)};
    }
  return std::nullopt;
}

std::optional<Value> named_file(Launch& launch, const Value& at) {
  const std::string name = word_of(at);
  const auto refuse = [&](std::string_view why) {
    // What it would say is asked for; the rest is read.
    launch.into.problems.push_back({Severity::kWarning,
                                    "E100",
                                    fmt::format("cannot read {}: {}", name, why),
                                    at.place(),
                                    "named here: what it says is not read",
                                    {}});
    ask(launch.into, name, fmt::format("a file that cannot be read: {}", why), at.mark());
    return std::nullopt;
  };
  const std::size_t slash = name.rfind('/');
  for (const auto& [file, text] : launch.files)
    if (file == name || file == name.substr(slash == std::string::npos ? 0 : slash + 1) ||
        file.ends_with("/" + name)) {
      launch.into.sources[text.mark().source->name] = {text.as_string(), language_of(name)};
      return text;
    }
  if (const auto why = launch.unwritten.find(name); why != launch.unwritten.end())
    return refuse(why->second);
  if (has_hole(name)) return refuse(reason_of_hole(name, launch.into));
  if (!launch.read_file) return refuse("other files are not read here");
  if (++launch.depth > 16) return refuse("files that name each other");
  tl::expected<std::string, std::string> text = tl::unexpected(std::string("no such file"));
  std::string path;
  for (const std::string& place : places_of(name, launch.folder, launch.roots)) {
    path = place;
    text = launch.read_file(path);
    if (text) break;
  }
  --launch.depth;
  if (!text) return refuse(text.error());
  launch.into.sources[path] = {*text, language_of(name)};
  Value value = Value::string(std::move(*text));
  Mark mark;
  mark.source = source_of(path, value.as_string());
  mark.line = 1;
  value.set_mark(mark);
  return value;
}

void conclude(Launch& launch) {
  Imported& into = launch.into;
  const Value none = Value::table();
  ConfigReader reading(none, "launch", into);
  if (!launch.hugging_face) return;
  if (!reading.has("engine"))
    reading.take_default("engine", Value::string("ddp"),
                         "Trainer copies the model to every device unless told");
  if (reading.has("training.precision")) return;
  const std::string engine = word_of(*reading.said("engine"));
  // DeepSpeed gives all weights one type, whatever a script loads.
  const bool taken = std::any_of(into.unsaid.begin(), into.unsaid.end(), [](const Unsaid& unsaid) {
    return unsaid.key == "adapter.base" && unsaid.taken == "fp32";
  });
  if (engine == "deepspeed" && taken) {
    remove_path(into.run, "adapter.base");
    std::erase_if(into.unsaid, [](const Unsaid& unsaid) { return unsaid.key == "adapter.base"; });
  }
  if (engine == "megatron") {
    const std::string word = word_of(launch.mixed);
    const std::string precision = word == "bf16"   ? "bf16-mixed-fp32-gradients"
                                  : word == "fp16" ? "fp16-mixed"
                                                   : "fp32";
    if (!launch.mixed.is_null()) reading.say("training.precision", precision, launch.mixed);
    return;
  }
  const std::string mixed = launch.mixed.is_null() ? "no" : word_of(launch.mixed);
  const std::string load = launch.load.is_null() ? "float32" : word_of(launch.load);
  const bool halves = load == "bfloat16" || load == "torch.bfloat16" || load == "bf16";
  const bool whole = engine == "ddp";
  // Without autocast nothing widens them, and no precision of a run file says so.
  if (mixed == "no" && engine != "deepspeed" &&
      (load == "float16" || load == "torch.float16" || load == "fp16"))
    return reading.unweighed(launch.load, "weights in float16 without mixed precision",
                             "they are computed with and stepped as they are");
  // Beside quantised weights PEFT keeps the rest in fp32, and autocast narrows it.
  const bool narrow = halves && !reading.has("adapter.base");
  std::string precision = "fp32";
  if (mixed == "bf16") precision = whole ? (narrow ? "bf16-pure" : "bf16-autocast") : "bf16-mixed";
  if (mixed == "fp16") precision = whole ? "fp16-autocast" : "fp16-mixed";
  if (mixed == "fp8") precision = "fp8-delayed";
  if (mixed == "no" && halves && engine != "deepspeed") precision = "bf16-pure";
  const Value& at = mixed == "no" ? launch.load : launch.mixed;
  const std::string source = at.place().source;  // "<why>" of what a format takes by itself
  if (at.is_null() || (source.starts_with("<") && at.place().line == 0))
    reading.take_default(
        "training.precision", Value::string(precision),
        at.is_null() ? "neither bf16 nor fp16 is said" : source.substr(1, source.size() - 2));
  else
    reading.say("training.precision", precision, at);
}

}  // namespace steelyard
