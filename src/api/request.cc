#include "api/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/flags.h"
#include "cli/picture_files.h"
#include "cli/read_invocation.h"
#include "cli/terminal.h"
#include "document/edit_distance.h"
#include "document/read.h"
#include "job/keys.h"
#include "report/json_values.h"

namespace steelyard {
namespace {

// The keys that stand for the words of a command, in their order. A list gives several.
struct WordsOf {
  std::string_view command, keys;
};
constexpr std::array kWordsOf = {
    WordsOf{"weigh", "run"},
    WordsOf{"estimate", "run"},
    WordsOf{"plan", "run"},
    WordsOf{"sweep", "run"},
    WordsOf{"explain", "run selection"},
    WordsOf{"import", "run"},
    WordsOf{"export", "run"},
    WordsOf{"gate", "run"},
    WordsOf{"compare", "before after"},
    WordsOf{"list", "what"},
    WordsOf{"diagnose", "evidence"},
    WordsOf{"validate", "files_of_runs"},
    WordsOf{"calibrate", "run"},
};

constexpr std::array<std::string_view, 8> kOfRequest = {"words",  "files", "set",           "on",
                                                        "format", "width", "picture_width", "run"};
constexpr std::array<std::string_view, 4> kFormats = {"json", "text", "html", "svg"};
// Flags that only a program has: they read a terminal, or print for another program.
constexpr std::array<std::string_view, 3> kOfProgram = {"follow", "color", "json"};

std::string flag_of_key(std::string_view key) {
  std::string name(key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const Flag* find_flag(const Command& command, const std::string& name) {
  for (const Flag& flag : flags())
    if (flag.name == name && belongs(flag, command.name) &&
        std::find(kOfProgram.begin(), kOfProgram.end(), flag.name) == kOfProgram.end())
      return &flag;
  return nullptr;
}

const Key* find_key_by_flag(const std::string& name) {
  const std::string flag = "--" + name;
  for (const Key& key : run_file_keys())
    if (key.flag == flag ||
        std::find(key.flag_aliases.begin(), key.flag_aliases.end(), flag) != key.flag_aliases.end())
      return &key;
  return nullptr;
}

class RequestReader {
 public:
  RequestReader(const Command& command, CallRequest& into) : command_(command), into_(into) {
    into_.invocation.command = &command;
    into_.invocation.json = true;
  }

  void read(const Value& request) {
    for (const Value::Member& member : request.members()) files_first(member);
    for (const std::string_view key : word_keys(command_))
      if (const Value* value = request.find(key))
        for (std::string& word : words_of(key, *value))
          into_.invocation.words.push_back(std::move(word));
    for (const Value::Member& member : request.members()) member_of(member);
    order_keys();
  }

  Diagnostics problems;

 private:
  void problem(const char* code, std::string message, const Place& place, std::string help = "") {
    Diagnostic one;
    one.code = code;
    one.message = std::move(message);
    one.place = place;
    one.help = std::move(help);
    add_problem(problems, std::move(one));
  }

  void files_first(const Value::Member& member) {
    if (member.key != "files") return;
    if (!member.value.is_table())
      return problem("E005", "\"files\" is no table of names and texts", member.value.place());
    for (const Value::Member& file : member.value.members()) {
      if (file.value.is_string())
        into_.files.push_back({file.key, file.value.as_string()});
      else
        problem("E005", fmt::format("the text of \"{}\" is no string", file.key),
                file.value.place());
    }
  }

  // A table is a run file as JSON, and a text of several lines one in TOML: both get a name.
  std::string held(std::string_view key, const char* ending, std::string text) {
    std::string name = fmt::format("{}{}", key, ending);
    for (int i = 2; is_held(name); ++i) name = fmt::format("{}-{}{}", key, i, ending);
    into_.files.push_back({name, std::move(text)});
    return name;
  }
  bool is_held(const std::string& name) const {
    return std::any_of(into_.files.begin(), into_.files.end(),
                       [&](const NamedText& file) { return file.name == name; });
  }

  static std::string indented(const Value& value) { return json_of(value).dump(2) + "\n"; }

  std::vector<std::string> words_of(std::string_view key, const Value& value) {
    if (value.is_array()) {
      std::vector<std::string> words;
      for (const Value& one : value.items())
        for (std::string& word : words_of(key, one)) words.push_back(std::move(word));
      return words;
    }
    if (value.is_table()) return {held(key, ".json", indented(value))};
    if (value.is_string() && value.as_string().find('\n') != std::string::npos)
      return {held(key, ".toml", value.as_string())};
    if (value.is_string() && !value.as_string().empty() && !value.as_string().starts_with('-'))
      return {value.as_string()};
    problem("E005", fmt::format("\"{}\" is neither a name nor a table", key), value.place());
    return {};
  }

  void member_of(const Value::Member& member) {
    const auto words = word_keys(command_);
    if (member.key == "files" || std::find(words.begin(), words.end(), member.key) != words.end())
      return;
    if (member.key == "words") {
      for (std::string& word : words_of("words", member.value))
        into_.invocation.words.push_back(std::move(word));
      return;
    }
    if (member.key == "format") return format(member.value);
    if (member.key == "width") return width(member.value);
    if (member.key == "picture_width") return picture_width(member.value);
    if (member.key == "set" && command_.run_keys) return set(member.value);
    if (member.key == "on" && command_.run_keys) {
      if (!member.value.is_string())
        return problem("E005", "\"on\" is no text", member.value.place(), "\"8xh100-sxm-80gb\"");
      on_ = member.value.as_string();
      return;
    }
    const std::string name = flag_of_key(member.key);
    if (const Flag* flag = find_flag(command_, name)) return flag_said(*flag, member.value);
    if (const Key* key = command_.run_keys ? find_key_by_flag(name) : nullptr)
      return key_said(*key, key->flag, member.value);
    unknown(member);
  }

  void unknown(const Value::Member& member) {
    std::vector<std::string> names;
    for (const std::string_view name : word_keys(command_)) names.emplace_back(name);
    for (const std::string_view name : kOfRequest) names.emplace_back(name);
    for (const Flag& flag : flags())
      if (find_flag(command_, std::string(flag.name)) == &flag) names.emplace_back(flag.name);
    if (command_.run_keys)
      for (const Key& key : run_file_keys()) names.push_back(key.flag.substr(2));
    for (std::string& name : names) std::replace(name.begin(), name.end(), '-', '_');
    std::string help = did_you_mean("key", nearest_names(member.key, names));
    problem("E002", fmt::format("unknown key \"{}\" in a request of {}", member.key, command_.name),
            member.key_place(), std::move(help));
  }

  void format(const Value& value) {
    const std::string word = value.is_string() ? value.as_string() : "";
    // The gate's own forms: "github", "sarif", "junit".
    if (const Flag* own = find_flag(command_, "format");
        own != nullptr && word != "json" && !unknown_choice(*own, word)) {
      into_.invocation.json = false;
      into_.invocation.flags["format"] = {word};
      return;
    }
    if (std::find(kFormats.begin(), kFormats.end(), word) == kFormats.end())
      return problem("E005", "unknown \"format\"", value.place(),
                     fmt::format("formats are {}", any_of(kFormats)));
    into_.invocation.json = word == "json";
    if (word == "json" || word == "text") return;
    if (find_flag(command_, word) == nullptr)
      return problem("E005", fmt::format("{} has no answer as {}", command_.name, word),
                     value.place());
    into_.invocation.flags[word] = {"-"};
  }

  void width(const Value& value) {
    if (!value.is_integer() || value.as_integer() < 20 || value.as_integer() > 1000)
      return problem("E005", "\"width\" is a number of columns, 20 to 1000", value.place());
    width_ = static_cast<int>(value.as_integer());
  }

  void picture_width(const Value& value) {
    if (!value.is_integer() || value.as_integer() < 240 || value.as_integer() > 4000)
      return problem("E005", "\"picture_width\" is a number of pixels, 240 to 4000", value.place());
    into_.invocation.flags[std::string(kPictureWidth)] = {std::to_string(value.as_integer())};
  }

  void set(const Value& value) {
    if (!value.is_table())
      return problem("E005", "\"set\" is no table of keys and values", value.place());
    for (const Value::Member& member : value.members()) {
      if (const Key* key = find_key_by_path(member.key)) {
        key_said(*key, key->flag, member.value);
        continue;
      }
      std::vector<std::string> names;
      for (const Key& key : run_file_keys()) names.push_back(key.path);
      problem("E104", fmt::format("unknown key \"{}\" in \"set\"", member.key), member.key_place(),
              did_you_mean("key", nearest_names(member.key, names)));
    }
  }

  // A value as a flag would say it: lists with commas.
  std::optional<std::string> text_of(const Value& value) {
    if (value.is_array()) {
      std::string text;
      for (const Value& one : value.items()) {
        const auto part = text_of(one);
        if (!part) return std::nullopt;
        text += (text.empty() ? "" : ",") + *part;
      }
      return text;
    }
    if (value.is_table() || value.is_null()) return std::nullopt;
    return value.is_string() ? value.as_string() : json_of(value).dump();
  }

  void key_said(const Key& key, const std::string& name, const Value& value) {
    // A model may be a table: its text then goes by a name.
    std::optional<std::string> text = value.is_table() && &key == &key_of(KeyId::kModel)
                                          ? held("model", ".json", indented(value))
                                          : text_of(value);
    if (!text)
      return problem("E005", fmt::format("\"{}\" is no value", key.path), value.place(),
                     "a number, a name, true or false, or a list of names");
    into_.invocation.keys.push_back({key.path, std::move(*text), name});
  }

  void flag_said(const Flag& flag, const Value& value) {
    auto& said = into_.invocation.flags;
    const std::string name(flag.name);
    if (flag.kind == FlagKind::kSwitch || flag.kind == FlagKind::kCounted) {
      const std::int64_t count = value.is_bool()      ? (value.as_bool() ? 1 : 0)
                                 : value.is_integer() ? value.as_integer()
                                                      : -1;
      if (count < 0 || count > 9)
        return problem("E005", fmt::format("\"{}\" is true or false", flag.name), value.place());
      if (count > 0) said[name] = std::vector<std::string>(static_cast<std::size_t>(count));
      return;
    }
    if (flag.name == "jobs" && value.is_array()) {
      std::string lines;
      for (const Value& job : value.items())
        lines +=
            json_of(job).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
            "\n";
      said[name] = {held("jobs", ".jsonl", std::move(lines))};
      return;
    }
    std::vector<std::string> texts;
    const auto add = [&](const Value& one) {
      std::optional<std::string> text =
          one.is_table() ? held(flag.name, ".json", indented(one)) : text_of(one);
      if (text && one.is_string() && text->find('\n') != std::string::npos)
        text = held(flag.name, ".toml", std::move(*text));
      if (!text) return problem("E005", fmt::format("\"{}\" is no value", flag.name), one.place());
      for (std::string& part : values_said(flag, *text)) {
        if (auto wrong = unknown_choice(flag, part)) add_problem(problems, std::move(*wrong));
        texts.push_back(std::move(part));
      }
    };
    if (value.is_array() && flag.kind == FlagKind::kRepeated)
      for (const Value& one : value.items()) add(one);
    else
      add(value);
    if (!texts.empty()) said[name] = std::move(texts);
  }

  // As on the command line: --on first, then the order of the run file, so that --devices wins over its count.
  void order_keys() {
    std::vector<SaidKey>& keys = into_.invocation.keys;
    const auto place_of = [](const SaidKey& said) { return find_key_by_path(said.key); };
    std::stable_sort(keys.begin(), keys.end(),
                     [&](const SaidKey& a, const SaidKey& b) { return place_of(a) < place_of(b); });
    if (on_) keys.insert(keys.begin(), SaidKey{"", *on_, "--on"});
    Invocation& invocation = into_.invocation;
    if (auto wrong = wrong_threads(invocation)) add_problem(problems, std::move(*wrong));
    Surroundings around;
    around.locale = "C.UTF-8";
    const auto units = invocation.value("units");
    StyleChoice choice{std::nullopt,
                       units == nullptr ? std::nullopt : std::optional<std::string>(*units),
                       invocation.has("ascii"), invocation.has("no-bars")};
    invocation.style = style_for(choice, around);
    if (width_ > 0) invocation.style.width = width_;
    invocation.error_style = invocation.style;
  }

  const Command& command_;
  CallRequest& into_;
  std::optional<std::string> on_;
  int width_ = 0;
};

// Neither a request nor a question: a run file itself.
bool is_run_file(const Value& document) {
  return document.find("model") != nullptr && document.find("run") == nullptr &&
         document.find("words") == nullptr;
}

}  // namespace

std::vector<std::string_view> word_keys(const Command& command) {
  for (const WordsOf& row : kWordsOf)
    if (row.command == command.name) return words_in(row.keys);
  return {};
}

tl::expected<CallRequest, Diagnostics> read_request(const Command& command, std::string_view text) {
  CallRequest request;
  RequestReader reader(command, request);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    reader.read(Value::table());
    return request;
  }
  const auto as_run_file = [&](const char* name) {
    request.files.push_back({name, std::string(text)});
    request.invocation.words.emplace_back(name);
    reader.read(Value::table());
  };
  if (text[first] != '{') {
    as_run_file("run.toml");
    return request;
  }
  auto document = read_json(text, "request");
  if (!document) return tl::unexpected(std::move(document.error()));
  if (is_run_file(*document))
    as_run_file("run.json");
  else
    reader.read(*document);
  if (!reader.problems.empty()) return tl::unexpected(std::move(reader.problems));
  return request;
}

}  // namespace steelyard
