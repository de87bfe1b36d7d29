#include "cli/compare_snapshot.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "cli/against_run.h"
#include "cli/evidence_file.h"
#include "cli/exit_status.h"
#include "cli/outlet.h"
#include "cli/picture_files.h"
#include "cli/problems.h"
#include "cli/read_invocation.h"
#include "evidence/snapshot_reader.h"
#include "report/measured_comparison.h"
#include "report/prediction_json.h"
#include "world/world.h"

namespace steelyard {
namespace {

std::optional<EvidenceFile> open_snapshot(const std::string& word) {
  if (world().kind_of(word) != PathKind::kFile) return std::nullopt;
  auto file = EvidenceFile::open(word);
  if (!file ||
      recognise_snapshot(file->bytes().substr(0, std::size_t{64} << 10), file->name()) < 60)
    return std::nullopt;
  return std::move(*file);
}

tl::expected<Diagnosis, Diagnostics> diagnosis_of(const EvidenceFile& file,
                                                  const AgainstRun* against) {
  auto evidence = read_snapshot(file.bytes(), file.name());
  if (!evidence) return tl::unexpected(evidence.error());
  DiagnosisQuestion question;
  question.evidence.push_back(std::move(*evidence));
  if (against != nullptr) hold_against(question, *against);
  Diagnosis diagnosis = diagnose(question);
  if (!diagnosis.has_piles)
    return tl::unexpected(Diagnostics{command_line_problem(
        "E115",
        fmt::format("{} cannot be compared: its live blocks do not follow from its events",
                    file.name()),
        "record the history from the start of the run: max_entries too small loses births")});
  return diagnosis;
}

}  // namespace

std::optional<int> compare_with_snapshot(const Invocation& invocation) {
  std::array<std::optional<EvidenceFile>, 2> files;
  for (std::size_t side : {0U, 1U})
    if (auto file = open_snapshot(invocation.words[side])) files[side].emplace(std::move(*file));
  if (!files[0] && !files[1]) return std::nullopt;
  if (const auto status = refuse_pictures(invocation, "a comparison with a snapshot"))
    return *status;
  std::optional<AgainstRun> against;
  for (std::size_t side : {0U, 1U}) {
    if (files[side]) continue;
    auto run = weigh_against(invocation, invocation.words[side]);
    if (!run) return refuse(invocation, run.error(), "nothing compared");
    against.emplace(std::move(*run));
  }
  // Two files of one name are told apart by their folders.
  const bool alike = files[0] && files[1] && files[0]->name() == files[1]->name();
  std::array<ComparedMemory, 2> sides;
  for (std::size_t side : {0U, 1U}) {
    if (!files[side]) continue;
    const auto diagnosis = diagnosis_of(*files[side], against ? &*against : nullptr);
    if (!diagnosis) return refuse(invocation, diagnosis.error(), "nothing compared");
    sides[side] = measured_memory(*diagnosis, alike ? invocation.words[side] : files[side]->name());
    if (against) sides[1 - side] = predicted_memory(*diagnosis, against->input.name);
  }
  const Style& style = invocation.style;
  if (invocation.json) {
    answer(document_text(json_of(sides[0], sides[1])));
  } else {
    const std::string text = invocation.has("quiet") ? comparison_line(sides[0], sides[1], style)
                                                     : comparison_text(sides[0], sides[1], style);
    answer(style.ascii ? plain_characters(text) : text);
  }
  return differ(sides[0], sides[1]) ? kFinding : kDone;
}

}  // namespace steelyard
