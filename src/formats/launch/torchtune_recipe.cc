#include "formats/launch/torchtune_recipe.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/launch/mapping.h"

namespace steelyard {
namespace {

// Keys that `*_distributed` recipes alone read.
constexpr std::string_view kKeysOfSeveral[] = {
    "fsdp_cpu_offload",        "custom_sharded_layers",       "fsdp_reshard_after_forward",
    "fsdp_sharding_strategy",  "tensor_parallel_dim",         "tensor_parallel_plan",
    "data_parallel_shard_dim", "data_parallel_replicate_dim", "context_parallel_dim"};

bool holds(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '/';
}

TorchtuneRecipe::Ranks ranks_of(std::string_view recipe) {
  if (holds(recipe, "distributed") || holds(recipe, "multinode"))
    return TorchtuneRecipe::Ranks::kFsdp2;
  return recipe.empty() ? TorchtuneRecipe::Ranks::kUnknown : TorchtuneRecipe::Ranks::kOne;
}

std::vector<std::string_view> words_in(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) break;
    line.remove_prefix(begin);
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

struct HeaderLine {
  std::string_view text;
  int number = 0;
};

// Remarks before the first key.
std::vector<HeaderLine> header_of(std::string_view text) {
  constexpr int kMostLines = 200;
  std::vector<HeaderLine> lines;
  for (int number = 1; !text.empty() && number <= kMostLines; ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) continue;
    if (line[first] != '#') break;
    lines.push_back({line.substr(first + 1), number});
  }
  return lines;
}

std::string_view stem_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return path.substr(0, path.find(".y"));
}

// `tune run [flags] RECIPE --config FILE`: nothing where the line is no such command.
std::optional<TorchtuneRecipe> command_in(std::string_view line, std::string_view stem,
                                          bool& is_of_this_file) {
  const std::vector<std::string_view> words = words_in(line);
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    if (words[i] != "tune" || words[i + 1] != "run") continue;
    TorchtuneRecipe found;
    for (std::size_t at = i + 2; at < words.size(); ++at) {
      const std::string_view word = words[at];
      const bool has_value = word.starts_with("--") && !holds(word, "=") && word != "--standalone";
      if (word == "--config" && at + 1 < words.size())
        is_of_this_file = !stem.empty() && stem_of(words[at + 1]) == stem;
      if (word == "--nproc_per_node" && at + 1 < words.size())
        if (const Value count = typed_value(words[at + 1]); count.is_integer())
          found.processes = count.as_integer();
      if (has_value)
        ++at;
      else if (!word.starts_with("--") && found.name.empty())
        found.name = word;
    }
    if (!found.name.empty()) return found;
  }
  return std::nullopt;
}

// "... in full_finetune_distributed.py": the first such name of a line.
std::string script_in(std::string_view line) {
  for (const std::string_view part : {"_distributed", "_single_device"}) {
    std::size_t at = line.find(part);
    if (at == std::string_view::npos) continue;
    std::size_t begin = at;
    while (begin > 0 && is_name(line[begin - 1])) --begin;
    std::size_t end = at + part.size();
    while (end < line.size() && is_name(line[end])) ++end;
    if (line.substr(end).starts_with(".py")) return std::string(line.substr(begin, end - begin));
  }
  return {};
}

TorchtuneRecipe from_header(const Value& document) {
  TorchtuneRecipe recipe;
  if (!document.mark().source) return recipe;
  const std::string_view stem = stem_of(document.mark().source->name);
  std::string script;
  int script_line = 0;
  int command_line = 0;
  bool is_own = false;
  for (const HeaderLine& line : header_of(document.mark().source->text)) {
    bool own = false;
    if (auto command = command_in(line.text, stem, own); command && (own || !is_own)) {
      recipe = std::move(*command);
      command_line = line.number;
      is_own = own;
    }
    if (script.empty()) {
      script = script_in(line.text);
      script_line = line.number;
    }
  }
  // The head of a file describes it; a command may be of the run before.
  if (!script.empty() && !is_own && recipe.name != script) {
    recipe = {};
    recipe.name = script;
    command_line = script_line;
  }
  if (recipe.name.empty()) return recipe;
  recipe.ranks = ranks_of(recipe.name);
  recipe.why = fmt::format("its header names {}", recipe.name);
  recipe.mark.source = document.mark().source;
  recipe.mark.line = command_line;
  return recipe;
}

}  // namespace

TorchtuneRecipe torchtune_recipe(const Value& document, std::string_view told) {
  TorchtuneRecipe recipe;
  if (!told.empty()) {
    recipe.name = told;
    recipe.ranks = ranks_of(told);
    recipe.why = fmt::format("the recipe is {}", told);
    recipe.mark = document.mark();
    return recipe;
  }
  recipe = from_header(document);
  if (recipe.ranks != TorchtuneRecipe::Ranks::kUnknown) return recipe;
  for (const std::string_view key : kKeysOfSeveral)
    if (const Value* value = document.find(key); value != nullptr) {
      recipe.ranks = TorchtuneRecipe::Ranks::kFsdp2;
      recipe.why = fmt::format("{} is a key of *_distributed recipes", key);
      recipe.mark = value->mark();
      return recipe;
    }
  if (!document.mark().source) return recipe;
  const std::string_view stem = stem_of(document.mark().source->name);
  for (const std::string_view part : {"single_device", "distributed"})
    if (holds(stem, part)) {
      recipe.ranks = ranks_of(part);
      recipe.why = fmt::format("the file's name says {}", part);
      recipe.mark = document.mark();
    }
  return recipe;
}

}  // namespace steelyard
