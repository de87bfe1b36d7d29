#include "report/phases.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "report/host_need.h"
#include "report/table.h"

namespace steelyard {
namespace {

// Headings that leave room for seven piles in 80 columns.
std::string heading_of(Pile pile) {
  switch (pile) {
    case Pile::kParameters:
      return "param";
    case Pile::kGradients:
      return "grad";
    case Pile::kMasterWeights:
      return "master";
    case Pile::kOptimizerMoments:
      return "moments";
    case Pile::kActivations:
      return "activ.";
    case Pile::kTemporary:
      return "temp";
    case Pile::kCommunication:
      return "comm";
  }
  return "";
}

const PhasePrediction* peak_phase(const RankPrediction& rank) {
  for (const PhasePrediction& phase : rank.phases)
    if (phase.phase == rank.phase) return &phase;
  return nullptr;
}

// The largest holding of a pile: what to look at first.
const Holding* largest_of(const std::optional<Moment>& moment, Pile pile) {
  if (moment)
    for (const Holding& holding : moment->alive)
      if (holding.pile == pile) return &holding;
  return nullptr;
}

// Moments and master weights are one thing to a person: the optimizer's state.
Bytes optimizer_state(const Piles& piles) {
  return piles[Pile::kOptimizerMoments] + piles[Pile::kMasterWeights];
}

// Whether `bytes` is what to look at first: no other part is larger, or it is two fifths of all.
bool leads(Bytes bytes, const PhasePrediction& phase) {
  Bytes largest = optimizer_state(phase.piles);
  for (const Pile pile : {Pile::kParameters, Pile::kGradients, Pile::kActivations, Pile::kTemporary,
                          Pile::kCommunication})
    largest = std::max(largest, phase.piles[pile]);
  return bytes >= largest || bytes.value() * Checked(5) >= phase.allocated.value() * Checked(2);
}

std::string activations_answer(const Weighing& weighing, const PhasePrediction& phase,
                               const Scale& scale) {
  const Bytes bytes = phase.piles[Pile::kActivations];
  const bool first_of_all = leads(bytes, phase);
  std::string answer =
      fmt::format("{}: {} {}, {} of allocated", first_of_all ? "yes" : "no",
                  number_of(bytes, scale), scale.unit, percent_of(bytes, phase.allocated));
  if (const Holding* first = largest_of(weighing.moment, Pile::kActivations);
      first_of_all && first != nullptr)
    answer += fmt::format("; most: {} ({}, {} times)", first->name, first->owner,
                          print_count(first->count));
  return answer;
}

std::string optimizer_answer(const Job& job, const PhasePrediction& phase, const Scale& scale) {
  const Bytes bytes = optimizer_state(phase.piles);
  return fmt::format("{}: {} {} of {} state{}, {} of allocated{}",
                     leads(bytes, phase) ? "yes" : "no", number_of(bytes, scale), scale.unit,
                     job.training.optimizer.name,
                     phase.piles[Pile::kMasterWeights] > Bytes() ? " and master weights" : "",
                     percent_of(bytes, phase.allocated),
                     job.offload.optimizer == OffloadTarget::kNone ? "" : "; the host steps it");
}

std::string replication_answer(const Job& job) {
  const Parallel& parallel = job.parallel;
  const std::int64_t shards = parallel.data / std::max<std::int64_t>(parallel.replicate, 1);
  if (parallel.data == 1) return "no: there is one data-parallel rank, nothing is stored twice";
  const auto copies = [](std::int64_t count) {
    return fmt::format("{} times", print_count(count));
  };
  switch (parallel.zero_stage) {
    case 0:
      return fmt::format(
          "yes: parameters, gradients and optimizer state are stored {} (zero_stage 0)",
          copies(parallel.data));
    case 1:
      return fmt::format(
          "yes: parameters and gradients are stored {}; optimizer state is in {} shards",
          copies(parallel.data), shards);
    case 2:
      return fmt::format(
          "yes: parameters are stored {}; gradients and optimizer state are in {} shards",
          copies(parallel.data), shards);
    default:
      break;
  }
  if (parallel.replicate > 1)
    return fmt::format("yes: each shard is stored {} (replicate)", copies(parallel.replicate));
  return fmt::format(
      "no: each parameter is stored once, in {} shards; gathered copies are temporary", shards);
}

bool is_like_later_steps(const RankPrediction& rank) {
  for (const PhasePrediction& first : rank.first_step.phases)
    for (const PhasePrediction& later : rank.phases)
      if (later.phase == first.phase && later.allocated != first.allocated) return false;
  return true;
}

}  // namespace

std::string phases_table(const Weighing& weighing, std::size_t rank_index, const Style& style) {
  const Prediction& prediction = weighing.prediction;
  const RankPrediction& rank = prediction.ranks[rank_index];
  const Scale scale = scale_of(prediction, style.units);
  std::array<bool, kPileCount> shown{};
  for (const PhasePrediction& phase : rank.phases)
    for (std::size_t i = 0; i < kPileCount; ++i)
      shown[i] = shown[i] || phase.piles.bytes[i] > Bytes();

  std::vector<Column> columns = {{fmt::format("rank {}, {}", rank.rank, scale.unit)}};
  for (std::size_t i = 0; i < kPileCount; ++i)
    if (shown[i]) columns.push_back({heading_of(static_cast<Pile>(i)), true});
  columns.push_back({"total", true});
  columns.push_back({""});
  Table table(std::move(columns));
  const auto add = [&](const PhasePrediction& phase, std::string_view indent, bool peak) {
    std::vector<Bytes> parts;
    for (std::size_t i = 0; i < kPileCount; ++i)
      if (shown[i]) parts.push_back(phase.piles.bytes[i]);
    const std::vector<std::int64_t> ticks = apportioned(parts, scale);
    std::vector<std::string> cells = {fmt::format("{}{}", indent, name_of(phase.phase))};
    for (std::size_t i = 0; i < parts.size(); ++i)
      cells.push_back(parts[i] == Bytes() ? "-" : number_of_ticks(ticks[i], scale));
    cells.push_back(number_of(phase.allocated, scale));
    cells.emplace_back(peak ? "<- peak" : "");
    table.add(std::move(cells));
  };
  // In the first step the states come last; where they are made before it, all steps are alike.
  const bool alike = is_like_later_steps(rank);
  for (const PhasePrediction& phase : rank.phases) {
    const bool of_step = phase.phase != Phase::kLoad && phase.phase != Phase::kCheckpoint;
    if (phase.phase == Phase::kForward && !alike) {
      table.add({"first step"});
      for (const PhasePrediction& first : rank.first_step.phases) add(first, "  ", false);
      table.add({"later steps"});
    }
    add(phase, of_step && !alike ? "  " : "", phase.phase == rank.phase);
  }
  return table.text(style);
}

std::string three_questions(const Weighing& weighing, const Style& style) {
  const Prediction& prediction = weighing.prediction;
  const PhasePrediction* phase = peak_phase(prediction.ranks[peak_rank_index(prediction)]);
  if (phase == nullptr) return "";
  const Scale scale = scale_of(prediction, style.units);
  constexpr int kIndent = 19;
  const auto line = [&](std::string_view question, const std::string& answer) {
    return padded_right(std::string(question), kIndent) + wrapped(style, answer, kIndent) + "\n";
  };
  return line("activations?", activations_answer(weighing, *phase, scale)) +
         line("optimizer state?", optimizer_answer(weighing.job, *phase, scale)) +
         line("replication?", replication_answer(weighing.job));
}

std::string phases_text(const Weighing& weighing, const Style& style) {
  const Prediction& prediction = weighing.prediction;
  const std::size_t index = peak_rank_index(prediction);
  const PhasePrediction* phase = peak_phase(prediction.ranks[index]);
  std::string result = verdict_line(prediction, style);
  if (phase != nullptr) {
    std::size_t hotspot = 0;
    for (std::size_t i = 1; i < kPileCount; ++i)
      if (phase->piles.bytes[i] > phase->piles.bytes[hotspot]) hotspot = i;
    const std::string where = weighing.moment && !weighing.moment->where.empty()
                                  ? weighing.moment->where
                                  : std::string(name_of(phase->phase));
    const int indent = fact_indent(prediction);
    result.append(static_cast<std::size_t>(indent), ' ');
    const std::vector<std::string> known = {
        "peak: " + where,
        fmt::format("hotspot: {}, {} of allocated", words_of(static_cast<Pile>(hotspot)),
                    percent_of(phase->piles.bytes[hotspot], phase->allocated))};
    result += facts(style, with_host(known, weighing.job, prediction, style), indent) + "\n";
  }
  result += "\n" + phases_table(weighing, index, style) + "\n" + three_questions(weighing, style);
  if (!weighing.arguments.empty())
    result +=
        painted(style, Ink::kQuiet, fmt::format("next: steelyard explain {}", weighing.arguments)) +
        "\n";
  return without_trailing_blanks(result);
}

}  // namespace steelyard
