#include "cli/validate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/exit_status.h"
#include "cli/input_file.h"
#include "cli/outlet.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "document/edit_distance.h"
#include "document/read.h"
#include "report/prediction_json.h"
#include "report/ranking.h"
#include "report/validation.h"
#include "validate/own_runs.h"
#include "validate/validate.h"
#include "world/world.h"

namespace steelyard {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWorst = 3;
constexpr std::size_t kMostFilesToValidate = 100'000;  // of a folder

// The files that the words name: a folder means its *.json and *.jsonl, in order of their names.
std::vector<std::string> files_of(const std::vector<std::string>& words, Diagnostics& problems) {
  std::vector<std::string> files;
  for (const std::string& word : words) {
    const PathKind kind = word == "-" ? PathKind::kOther : world().kind_of(word);
    if (kind != PathKind::kFolder && kind != PathKind::kEmptyFolder) {
      if (kind == PathKind::kNothing)
        problems.push_back(
            command_line_problem("E100", fmt::format("cannot read {}: no such file", word)));
      else
        files.push_back(word);
      continue;
    }
    std::vector<std::string> found = world().files_below(word, -1, kMostFilesToValidate);
    std::erase_if(found, [](const std::string& path) {
      return !path.ends_with(".json") && !path.ends_with(".jsonl");
    });
    if (found.empty())
      problems.push_back(
          command_line_problem("E100", fmt::format("{} holds no *.json and no *.jsonl", word)));
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

// Rows come one by one; each is judged and its text forgotten.
class Reader {
 public:
  Reader(const RowSources& sources, std::string source, bool keep_runs, Validation& validation,
         Diagnostics& problems)
      : sources_(sources),
        source_(std::move(source)),
        keep_runs_(keep_runs),
        validation_(validation),
        problems_(problems) {}

  void read(const std::string& file) {
    if (file.ends_with(".json")) {
      const auto text = read_input(file, kRecordFile);
      if (!text) return problem(text.error());
      return row(*text, file, file, 0);
    }
    const std::string name = file == "-" ? "<stdin>" : file;
    InputLines lines(file);
    while (lines.next())
      row(lines.line(), file, fmt::format("{}:{}", name, lines.number()), lines.number());
    if (lines.problem()) problem(*lines.problem());
  }

  std::size_t rows() const { return rows_; }

 private:
  void row(std::string_view text, const std::string& file, const std::string& place, int number) {
    ++rows_;
    tl::expected<Value, Diagnostics> document = read_json(text, place);
    if (!document) return problem(of_line(document.error().front(), file, number));
    std::string name = fs::path(file).stem().string();
    if (number > 0) name += fmt::format(":{}", number);
    tl::expected<std::vector<JudgedRow>, Diagnostic> judged =
        judge(*document, name, sources_, keep_runs_);
    if (!judged) return problem(of_line(std::move(judged.error()), file, number));
    for (JudgedRow& row : *judged)
      if (source_.empty() || row.source == source_) validation_.add(std::move(row));
  }

  // A line of a megabyte helps nobody: the place is enough.
  static Diagnostic of_line(Diagnostic problem, const std::string& file, int number) {
    if (number == 0) return problem;
    problem.place = Place{};
    problem.place.source = file == "-" ? "<stdin>" : file;
    problem.place.line = number;
    problem.label.clear();
    return problem;
  }

  void problem(Diagnostic problem) { add_problem(problems_, std::move(problem)); }

  const RowSources& sources_;
  std::string source_;
  bool keep_runs_;
  Validation& validation_;
  Diagnostics& problems_;
  std::size_t rows_ = 0;
};

std::string names_of(const RowSources& sources) {
  std::string names;
  for (const RowSource& source : sources)
    names += (names.empty() ? "" : ", ") + std::string(source.name);
  return names;
}

int refuse_nothing(const RowSources& sources, const Invocation& invocation) {
  const Diagnostic problem = command_line_problem(
      "E003", "validate needs measured runs: files, folders or - (stdin)",
      fmt::format("recorded runs (*.json, as truth/records of the source tree), or lines of JSON "
                  "(*.jsonl) of these sources: {}",
                  names_of(sources)));
  return refuse(invocation, {problem}, "nothing validated");
}

std::optional<Diagnostic> unknown_source(const RowSources& sources, const std::string& said) {
  std::vector<std::string_view> names = {kRecords, kUnknownSource};
  for (const RowSource& source : sources) names.push_back(source.name);
  if (std::find(names.begin(), names.end(), said) != names.end()) return std::nullopt;
  Diagnostic problem = command_line_problem("E003", fmt::format("unknown source \"{}\"", said));
  problem.help = did_you_mean("source", nearest_names(said, names));
  if (problem.help.empty()) problem.help = fmt::format("the sources are {}", any_of(names));
  return problem;
}

std::optional<std::size_t> count_said(const std::string& text) {
  std::size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return count;
}

}  // namespace

int validate_command(const Invocation& invocation) { return validate_with(own_runs(), invocation); }

int validate_with(const RowSources& sources, const Invocation& invocation) {
  if (invocation.words.empty()) return refuse_nothing(sources, invocation);
  Diagnostics wrong;
  const std::string* source = invocation.value("source");
  if (source != nullptr)
    if (auto problem = unknown_source(sources, *source)) wrong.push_back(std::move(*problem));
  std::size_t worst = kWorst;
  if (const std::string* said = invocation.value("worst")) {
    const auto count = count_said(*said);
    if (!count)
      wrong.push_back(
          command_line_problem("E003", fmt::format("--worst \"{}\" is no count", *said)));
    worst = count.value_or(kWorst);
  }
  const std::vector<std::string> files = files_of(invocation.words, wrong);
  if (!wrong.empty()) return refuse(invocation, wrong, "nothing validated");

  Validation validation(sources);
  Diagnostics problems;
  const bool keep_runs = invocation.json && invocation.has("rows");
  Reader reader(sources, source == nullptr ? "" : *source, keep_runs, validation, problems);
  for (const std::string& file : files) reader.read(file);
  if (validation.rows() == 0 && problems.empty())
    problems.push_back(command_line_problem(
        "E110", reader.rows() == 0
                    ? "no rows"
                    : fmt::format("none of {} rows is of this source", reader.rows())));
  if (validation.rows() == 0) return refuse(invocation, problems, "nothing validated");

  const std::vector<SourceResult> results = validation.results(worst);
  if (invocation.has("ranking")) {
    const std::vector<SourceRanking> rankings = rankings_of(results);
    if (rankings.empty()) {
      problems.push_back(command_line_problem(
          "E110", "no three layouts that do the same work on the same devices"));
      return refuse(invocation, problems, "nothing ranked");
    }
    if (invocation.json) {
      answer(document_text({{"schema", "steelyard.ranking/1"},
                            {"sources", json_of(rankings)},
                            {"sweeps_together", sweeps_json(rankings)}}));
    } else {
      const std::string text = ranking_text(rankings, invocation.has("rows"), invocation.style);
      answer(invocation.style.ascii ? plain_characters(text) : text);
    }
    return problems.empty() ? kDone : refuse(invocation, problems, "these lines were not judged");
  }
  const ValidationView view{invocation.has("rows"), invocation.has("verbose")};
  if (invocation.json) {
    answer(document_text(json_of(results, view, problems)));
    return problems.empty() ? kDone : kBadInput;
  }
  const std::string text = validation_text(results, view, invocation.style);
  answer(invocation.style.ascii ? plain_characters(text) : text);
  return problems.empty() ? kDone : refuse(invocation, problems, "these lines were not judged");
}

}  // namespace steelyard
