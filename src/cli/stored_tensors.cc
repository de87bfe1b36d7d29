#include "cli/stored_tensors.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/exit_status.h"
#include "cli/input_file.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/run_input.h"
#include "model/compare_tensors.h"
#include "model/safetensors.h"
#include "quantity/print.h"
#include "report/prediction_json.h"
#include "world/world.h"

namespace steelyard {

namespace {

namespace files = std::filesystem;

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kFileName = "model.safetensors";

Diagnostic unreadable_header(const std::string& path) {
  Diagnostic problem;
  problem.code = "E001";
  problem.message = fmt::format("cannot read \"{}\"", path);
  problem.place.source = path;
  return problem;
}

// Length and header alone, however large the file is.
tl::expected<StoredTensors, Diagnostics> read_header(const std::string& path) {
  if (!world().has_machine()) return tl::unexpected(Diagnostics{unreadable_header(path)});
  std::ifstream file(path, std::ios::binary);
  std::string first(8, '\0');
  if (!file.read(first.data(), 8)) return tl::unexpected(Diagnostics{unreadable_header(path)});
  std::error_code ignored;
  const auto size = files::file_size(path, ignored);
  std::string bytes = first;
  if (const auto wanted = safetensors_header_bytes(first);
      wanted && *wanted > 8 && !ignored && static_cast<std::uintmax_t>(*wanted) <= size) {
    bytes.resize(static_cast<std::size_t>(*wanted));
    file.read(bytes.data() + 8, static_cast<std::streamsize>(*wanted - 8));
  }
  return read_safetensors_header(
      bytes, path, ignored ? std::optional<std::int64_t>{} : static_cast<std::int64_t>(size));
}

tl::expected<StoredTensors, Diagnostics> read_checkpoint(const std::string& path) {
  if (!path.ends_with(".json")) return read_header(path);
  const auto text = read_input(path, kShardIndexFile);
  if (!text) return tl::unexpected(Diagnostics{text.error()});
  const auto index = read_shard_index(*text, path);
  if (!index) return tl::unexpected(index.error());
  StoredTensors tensors;
  Diagnostics problems;
  for (const std::string& shard : index->shards) {
    auto header = read_header((files::path(path).parent_path() / shard).string());
    if (header)
      tensors.insert(tensors.end(), std::make_move_iterator(header->begin()),
                     std::make_move_iterator(header->end()));
    else
      for (const Diagnostic& problem : header.error()) add_problem(problems, problem);
  }
  if (!problems.empty()) return tl::unexpected(problems);
  return tensors;
}

void tell_counts(const StoredTensors& tensors) {
  answer(
      fmt::format("{} tensors stored\n", print_count(static_cast<std::int64_t>(tensors.size()))));
  for (const auto& [type, elements] : elements_by_type(tensors))
    answer(fmt::format("  {:<8} {:>20}\n", type, print_count(elements)));
}

}  // namespace

std::optional<std::string> stored_checkpoint(const std::string& word) {
  if (word.ends_with(".safetensors") || word.ends_with(".safetensors.index.json")) return word;
  if (world().kind_of(word) != PathKind::kFolder) return std::nullopt;
  for (const std::string_view name : {kIndexName, kFileName})
    if (const files::path path = files::path(word) / name;
        world().kind_of(path.string()) != PathKind::kNothing)
      return path.string();
  return std::nullopt;
}

int compare_with_checkpoint(const Invocation& invocation, const std::string& model,
                            const std::string& checkpoint) {
  const auto stored = read_checkpoint(checkpoint);
  if (!stored) return refuse(invocation, stored.error(), "nothing compared");
  auto input = read_run(model);
  if (!input) return refuse(invocation, input.error(), "nothing compared");
  lay_over(input->document, edits_of(invocation.keys));
  const auto architecture = model_of(*input);
  if (!architecture) return refuse(invocation, architecture.error(), "nothing compared");
  const Architecture& named = **architecture;
  const TensorComparison comparison = compare_tensors(named, *stored);
  const std::int64_t expected = count_parameters(named).total;
  if (invocation.json) {
    nlohmann::ordered_json document = {
        {"schema", "steelyard.tensors/1"},
        {"model", named.name},
        {"parameters", {{"expected", expected}, {"stored", comparison.stored_parameters}}},
        {"matched_tensors", comparison.matched},
        {"mismatches", nlohmann::ordered_json::array()}};
    for (const TensorMismatch& mismatch : comparison.mismatches)
      document["mismatches"].push_back({{"name", mismatch.name},
                                        {"expected", mismatch.expected},
                                        {"stored", mismatch.stored},
                                        {"text", described(mismatch)}});
    answer(document_text(document));
    return comparison.mismatches.empty() ? kDone : kFinding;
  }
  if (comparison.mismatches.empty()) {
    answer(fmt::format("same   {} tensors stored as {} names them, {} parameters\n",
                       print_count(comparison.matched), named.name, print_count(expected)));
    return kDone;
  }
  answer(fmt::format("differs   {} of the tensors are not as {} names them; {} agree\n",
                     print_count(static_cast<std::int64_t>(comparison.mismatches.size())),
                     named.name, print_count(comparison.matched)));
  for (const TensorMismatch& mismatch : comparison.mismatches)
    answer("  " + described(mismatch) + "\n");
  if (comparison.cut) answer("  and more\n");
  answer(fmt::format("parameters: {} expected, {} stored\n", print_count(expected),
                     print_count(comparison.stored_parameters)));
  tell_counts(*stored);
  return kFinding;
}

}  // namespace steelyard
