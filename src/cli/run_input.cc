#include "cli/run_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "cli/input_file.h"
#include "cli/read_invocation.h"
#include "document/printable.h"
#include "document/quoting.h"
#include "document/read.h"
#include "formats/launch/other_files.h"
#include "job/file_path.h"
#include "job/said_value.h"
#include "machine/machine.h"
#include "model/catalogue.h"
#include "picture/report_page.h"
#include "plan/recompute_choice.h"
#include "quantity/parse.h"
#include "world/world.h"

namespace steelyard {
namespace {

// A name that can only be a file: a typo in it should not be looked for among the models.
bool is_path(std::string_view word) {
  if (word.find("://") != std::string_view::npos || word.substr(0, 15) == "huggingface.co/")
    return false;
  return word.ends_with(".toml") || word.ends_with(".json") || word.ends_with("/") ||
         word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".sh") ||
         word.ends_with(".sbatch") || word.substr(0, 1) == "/" || word.substr(0, 2) == "./" ||
         word.substr(0, 3) == "../" || word.substr(0, 1) == "~";
}

// A config.json says what the model is in its own keys; a run file has `model`.
bool is_model_config(const Value& document) {
  if (document.find("model") != nullptr) return false;
  for (const char* key :
       {"model_type", "architectures", "hidden_size", "n_embd", "text_config", "num_hidden_layers"})
    if (document.find(key) != nullptr) return true;
  return false;
}

RunInput model_input(const std::string& word) {
  RunInput input;
  input.word = word;
  input.name = printable(word);
  input.document = Value::table();
  Value model = Value::string(word);
  Place place;
  place.source = word;
  model.set_mark(mark_of(place));
  set_path(input.document, "model", std::move(model), place);
  return input;
}

tl::unexpected<Diagnostics> no_run(const std::string& word, std::string_view why) {
  // A folder of somebody's machine often ends in the model's public name.
  const auto model = preset_named_in(word);
  return tl::unexpected(Diagnostics{command_line_problem(
      "E100", fmt::format("cannot read {}: {}", word, why),
      model ? fmt::format("its last part names {}, which is known by that name", *model) : "")});
}

tl::expected<std::string, std::string> read_file_for_core(const std::string& path) {
  const PathKind kind = world().kind_of(path);
  if (kind == PathKind::kFolder || kind == PathKind::kEmptyFolder)
    return tl::unexpected(std::string("a folder without a config.json"));
  if (kind == PathKind::kNothing) return tl::unexpected(std::string("no such file"));
  auto text = read_input(path, kConfigurationFile);
  if (text) return std::move(*text);
  return tl::unexpected(text.error().code == "E103"
                            ? fmt::format("larger than {} MiB", kConfigurationFile.most >> 20U)
                            : std::string("cannot be read"));
}

// A file that a launch file names: below its folder, below the folder where the command was started, or where --root
// points; neither above them nor a device, a fifo or a link that leads out.
tl::expected<std::string, std::string> read_named_file(const std::string& path,
                                                       const std::vector<std::string>& roots) {
  const PathKind kind = world().kind_of(path);
  if (kind == PathKind::kNothing) return tl::unexpected(std::string("no such file"));
  if (!world().is_below(path, roots))
    return tl::unexpected(
        std::string("it is outside of the folders that are read: --root FOLDER names its own"));
  if (kind != PathKind::kFile) return tl::unexpected(std::string("it is no file"));
  return read_file_for_core(path);
}

// Where the "x" of "8 x H100" stands; nothing in front of "h100". A count below nothing is still a count, and refused as one.
std::size_t sign_of_count(std::string_view device) {
  std::size_t at = device.starts_with('-') ? 1 : 0;
  const std::size_t first = at;
  while (at < device.size() && std::isdigit(static_cast<unsigned char>(device[at])) != 0) ++at;
  const std::size_t digits = at;
  while (at < device.size() && device[at] == ' ') ++at;
  return digits > first && at < device.size() && device[at] == 'x' ? at : std::string_view::npos;
}

std::string count_before_device(std::string_view device) {
  const std::size_t sign = sign_of_count(device);
  if (sign == std::string_view::npos) return "";
  return std::string(device.substr(0, device.find_first_not_of("-0123456789")));
}

std::string device_after_count(std::string_view device) {
  const std::size_t sign = sign_of_count(device);
  if (sign == std::string_view::npos) return std::string(device);
  device.remove_prefix(sign + 1);
  device.remove_prefix(std::min(device.find_first_not_of(' '), device.size()));
  return std::string(device);
}

// More is refused, as a number of devices.
constexpr std::int64_t kMostMachines = 1'000'000'000;

// Words of the command line; of a flag the caret stands under its value.
Place place_of(std::string_view source, std::string_view text) {
  Place place;
  place.source = std::string(source);
  if (source.substr(0, 2) == "--") {
    place.text = fmt::format("{} {}", source, text);
    place.column = static_cast<int>(source.size()) + 2;
    place.length = static_cast<int>(text.size());
  }
  return place;
}

KeyEdit placed_edit(std::string_view key, std::string_view text, const Place& place) {
  const Key* known = find_key_by_path(key);
  Value value =
      known == nullptr ? Value::string(std::string(text)) : said_value(*known, text, place);
  value.set_mark(mark_of(place));
  return {known == nullptr ? std::string(key) : known->path, std::move(value)};
}

}  // namespace

tl::expected<std::string, Diagnostics> configuration_text(const std::string& word) {
  if (is_launch_command(word) && world().kind_of(word) == PathKind::kNothing) return word + "\n";
  auto text = read_input(word, kConfigurationFile);
  if (!text) return tl::unexpected(Diagnostics{std::move(text.error())});
  // A report carries the run that it answers for.
  if (auto run = run_in_report(*text)) return std::move(*run);
  if (auto other = other_kind_of_file(*text, source_name_of(word)))
    return tl::unexpected(Diagnostics{std::move(*other)});
  return std::move(*text);
}

tl::expected<ForScripts, Diagnostics> for_scripts(const Invocation& invocation) {
  ForScripts given;
  Diagnostics problems;
  const auto say = [&](std::string_view line, const std::string& where) {
    if (line.starts_with("export ")) line.remove_prefix(7);
    const std::size_t sign = line.find('=');
    const std::string name(line.substr(0, sign));
    if (sign == std::string_view::npos || name.empty() ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") !=
            std::string::npos) {
      problems.push_back(command_line_problem(
          "E005", fmt::format("{}: \"{}\" is no variable", where, printable(line)),
          "NAME=VALUE is one"));
      return;
    }
    std::string_view value = line.substr(sign + 1);
    if (value.size() > 1 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front())
      value = value.substr(1, value.size() - 2);
    given.environment.insert_or_assign(name, Value::string(std::string(value)));
  };
  const auto all_of = [&](const char* flag) {
    const auto found = invocation.flags.find(flag);
    return found == invocation.flags.end() ? std::vector<std::string>{} : found->second;
  };
  for (const std::string& file : all_of("env-file")) {
    const auto text = read_input(file, kConfigurationFile);
    if (!text) {
      problems.push_back(text.error());
      continue;
    }
    std::string_view rest = *text;
    while (!rest.empty()) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
      while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
      if (!line.empty() && line.front() != '#') say(line, file);
      if (problems.size() > 8) break;
    }
  }
  for (const std::string& one : all_of("env")) say(one, "--env");
  given.roots = all_of("root");
  given.arguments = invocation.behind;
  if (!problems.empty()) return tl::unexpected(std::move(problems));
  return given;
}

LaunchContext launch_context_of(const std::string& word, const ForScripts& given) {
  const std::string path = is_launch_command(word) ? "" : word;
  LaunchContext context;
  std::vector<std::string> roots = given.roots;
  roots.emplace_back(".");
  if (path != "-" && !path.empty())
    roots.push_back(std::filesystem::path(path).parent_path().string());
  context.read_file = [roots](const std::string& name) { return read_named_file(name, roots); };
  context.environment = given.environment;
  context.arguments = given.arguments;
  context.roots = given.roots;
  context.folder = path == "-" ? "" : std::filesystem::path(path).parent_path().string();
  return context;
}

std::string source_name_of(const std::string& path) {
  return path == "-" ? "<stdin>" : is_launch_command(path) ? "<command>" : path;
}

Imported import_file(const std::string& path, std::string_view text, const ForScripts& given) {
  return import_launch(text, source_name_of(path), launch_context_of(path, given));
}

tl::expected<RunInput, Diagnostics> read_run(const std::string& word,
                                             const Invocation& invocation) {
  const auto given = for_scripts(invocation);
  if (!given) return tl::unexpected(given.error());
  return read_run(word, *given);
}

tl::expected<RunInput, Diagnostics> read_run(const std::string& word, const ForScripts& given) {
  namespace fs = std::filesystem;
  const bool standard_input = word == "-";
  const PathKind kind = standard_input ? PathKind::kOther : world().kind_of(word);
  if (kind == PathKind::kEmptyFolder)
    return no_run(word, "the folder is empty; a model's folder holds its config.json");
  if (kind == PathKind::kFolder) {
    // A folder may have the name of a model that is known.
    Diagnostics ignored;
    if (world().kind_of((fs::path(word) / "config.json").string()) == PathKind::kNothing &&
        !find_model(word, Place{}, ignored))
      return no_run(word, "a folder without a config.json");
    return model_input(word);
  }
  const bool is_command = is_launch_command(word) && kind == PathKind::kNothing;
  if (!is_command && kind == PathKind::kNothing) {
    if (is_path(word)) return no_run(word, "no such file");
    return model_input(word);
  }
  auto text = configuration_text(word);
  if (!text) return tl::unexpected(text.error());
  const std::string source = source_name_of(word);
  if (is_launch_file(*text, source)) {
    Imported imported = import_file(word, *text, given);
    if (imported.failed()) return tl::unexpected(std::move(imported.problems));
    RunInput input;
    input.tool = target_of(imported);
    input.word = word;
    input.name = standard_input ? "stdin"
                 : is_command   ? word.substr(0, word.find(' '))
                                : printable(fs::path(word).stem().string());
    input.document = imported.run;
    input.given = given;
    input.imported = std::make_shared<const Imported>(std::move(imported));
    input.folder = standard_input || is_command ? "" : fs::path(word).parent_path().string();
    return input;
  }
  tl::expected<Value, Diagnostics> document = read_document(*text, source);
  if (!document) return tl::unexpected(document.error());
  if (!standard_input && is_model_config(*document)) return model_input(word);
  RunInput input;
  input.word = word;
  input.name = standard_input ? "stdin" : printable(fs::path(word).stem().string());
  input.document = std::move(*document);
  input.toml = !word.ends_with(".json") &&
               text->find_first_not_of(" \t\r\n") != std::string::npos &&
               (*text)[text->find_first_not_of(" \t\r\n")] != '{';
  input.text = std::move(*text);
  input.folder = standard_input ? "" : fs::path(word).parent_path().string();
  return input;
}

Diagnostics warnings_of_import(const RunInput& input) {
  return input.imported == nullptr ? Diagnostics{} : input.imported->problems;
}

KeyEdit edit_of(std::string_view key, std::string_view text, std::string_view source) {
  return placed_edit(key, text, place_of(source, text));
}

std::vector<KeyEdit> edits_of(const std::vector<SaidKey>& keys) {
  std::vector<KeyEdit> edits;
  for (const SaidKey& said : keys) {
    const Place place = place_of(said.flag, said.text);
    if (said.flag != "--on") {
      edits.push_back(placed_edit(said.key, said.text, place));
      continue;
    }
    if (const Machine* machine = find_machine(device_after_count(said.text))) {
      // 2xaws-p4de: so many machines, and the devices they are built with.
      const std::string count = count_before_device(said.text);
      const Parsed<std::int64_t> counted = parse_count(count.empty() ? "1" : count);
      const std::int64_t machines = std::min(counted ? *counted : kMostMachines, kMostMachines);
      const std::string devices = std::to_string(machines * machine->devices_per_node.value());
      edits.push_back(placed_edit(key_of(KeyId::kDevices).path, devices, place));
      edits.push_back(placed_edit(key_of(KeyId::kDevice).path, machine->devices.front(), place));
      edits.push_back(placed_edit(key_of(KeyId::kMachine).path, machine->name, place));
      continue;
    }
    // A count that is said wins over the run file's own; --devices, further on, wins over both.
    if (const std::string count = count_before_device(said.text); !count.empty())
      edits.push_back(placed_edit(key_of(KeyId::kDevices).path, count, place));
    edits.push_back(placed_edit(key_of(KeyId::kDevice).path, device_after_count(said.text), place));
  }
  return edits;
}

void lay_over(Value& document, const std::vector<KeyEdit>& edits) {
  for (const KeyEdit& edit : edits) set_path(document, edit.key, edit.value, edit.value.place());
}

tl::expected<std::shared_ptr<const Architecture>, Diagnostics> model_of(const RunInput& input) {
  Diagnostics problems;
  const Value* model = input.document.find("model");
  if (model == nullptr)
    return tl::unexpected(
        Diagnostics{command_line_problem("E100", fmt::format("{} names no model", input.word))});
  const std::optional<ModelChoice> choice =
      choose_model(*model, read_file_for_core, input.folder, problems);
  if (!choice) return tl::unexpected(problems);
  return choice->architecture;
}

std::optional<Value> model_file_of(const Value& document, const std::string& folder) {
  const Value* model = document.find("model");
  if (model == nullptr || !model->is_string()) return std::nullopt;
  const std::filesystem::path path = path_from(folder, *model);
  for (const std::filesystem::path& file : {path, path / "config.json"}) {
    const auto text = read_file_for_core(file.string());
    if (!text) continue;
    ReadValue config = read_json(*text, file.string());
    if (config && config->is_table()) return std::move(*config);
  }
  return std::nullopt;
}

tl::expected<Job, Diagnostics> job_of(const Value& document, const std::string& folder) {
  JobContext context;
  context.folder = folder;
  context.read_file = read_file_for_core;
  const auto read = [&](const Value& run) { return read_job(run, context); };
  // torch's own budget of compiled graphs, a part of the activations, is another thing: the reader knows it.
  return asks_for_recompute_choice(document) ? with_recompute_chosen(document, read)
                                             : read(document);
}

Weighed weigh_document(const Value& document, const std::string& folder,
                       Prediction (*by)(const Job&)) {
  Weighed weighed;
  try {
    tl::expected<Job, Diagnostics> job = job_of(document, folder);
    if (!job) {
      weighed.problems = std::move(job.error());
      return weighed;
    }
    weighed.prediction = by(*job);
    weighed.prediction->time = predict_time(*job);
    weighed.job = std::move(*job);
  } catch (const OverflowError& fault) {
    weighed.job.reset();
    weighed.problems.push_back(
        command_line_problem("E107", fault.what(), "a size of this run is far too large"));
  }
  return weighed;
}

std::string arguments_of(const Invocation& invocation) {
  std::string result;
  for (const std::string& word : invocation.words)
    result += (result.empty() ? "" : " ") + shell_word(word);
  for (const SaidKey& said : invocation.keys) {
    const Key* key = find_key_by_path(said.key);
    if (key != nullptr && key->kind == KeyKind::kSwitch) {
      result += said.text == "true" ? " " + said.flag
                                    : fmt::format(" {}={}", said.flag, shell_word(said.text));
    } else {
      result += fmt::format(" {} {}", said.flag, shell_word(said.text));
    }
  }
  return result;
}

}  // namespace steelyard
