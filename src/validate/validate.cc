#include "validate/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "job/keys.h"
#include "job/read.h"
#include "predict/prediction.h"
#include "predict/runtime.h"
#include "validate/record.h"

namespace steelyard {
namespace {

// What stands for a reading: the bytes, and the piles of the moment they belong to.
struct Answer {
  Bytes bytes{};
  Piles piles;
  Bytes slack{}, runtime{};  // where the meter sees them
};

const PhasePrediction* phase_of(const std::vector<PhasePrediction>& phases, Phase phase) {
  for (const PhasePrediction& candidate : phases)
    if (candidate.phase == phase) return &candidate;
  return nullptr;
}

Answer answer_of(const Reading& reading, const RankPrediction& rank) {
  const bool first = reading.step == Step::kFirst;
  const auto& phases = first ? rank.first_step.phases : rank.phases;
  const Phase peak = first ? rank.first_step.phase : rank.phase;
  const Phase wanted =
      reading.meter == Meter::kOptimizerAllocated || reading.meter == Meter::kResident
          ? Phase::kOptimizer
          : reading.phase.value_or(peak);
  Answer answer;
  const PhasePrediction* phase = phase_of(phases, wanted);
  if (const PhasePrediction* before = phase_of(phases, Phase::kForward);
      reading.with_forward && before != nullptr && phase != nullptr &&
      before->allocated > phase->allocated)
    phase = before;
  if (phase != nullptr) answer.piles = phase->piles;
  switch (reading.meter) {
    case Meter::kAllocated:
    case Meter::kOptimizerAllocated:
      answer.bytes = phase == nullptr ? Bytes(0) : phase->allocated;
      break;
    case Meter::kReserved:
      answer.bytes = first ? rank.first_step.reserved : rank.reserved;
      answer.slack = answer.bytes - answer.piles.total();
      break;
    case Meter::kResident:
      answer.bytes = rank.resident;
      break;
    case Meter::kDevice:
      answer.bytes = first ? rank.first_step.device : rank.device;
      answer.runtime = phase == nullptr ? Bytes(0) : phase->runtime;
      answer.slack = answer.bytes - answer.runtime - answer.piles.total();
      break;
  }
  return answer;
}

// The rank that the numbers are of; where nobody says, the one with the largest answer.
Answer answer_of(const Reading& reading, const Prediction& prediction,
                 std::optional<std::int64_t> stage) {
  Answer largest;
  for (const RankPrediction& rank : prediction.ranks) {
    if (stage && rank.pipeline != *stage) continue;
    const Answer answer = answer_of(reading, rank);
    if (answer.bytes > largest.bytes) largest = answer;
  }
  return largest;
}

BandTerms terms_of(const Reading& reading, const Answer& answer, const RuntimeBytes& runtime) {
  BandTerms terms;
  terms.piles = answer.piles;
  // Between steps nothing works.
  if (reading.meter == Meter::kResident)
    for (const Pile pile : {Pile::kActivations, Pile::kTemporary, Pile::kCommunication})
      terms.piles[pile] = Bytes{};
  terms.slack = reading.meter == Meter::kReserved || reading.meter == Meter::kDevice;
  if (reading.meter == Meter::kDevice) terms.runtime = &runtime;
  return terms;
}

std::string words_of_pile(Pile pile) {
  std::string words(name_of(pile));
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

Bytes distance(Bytes a, Bytes b) { return a > b ? a - b : b - a; }

// A recorder cannot tell master weights from moments.
Piles as_recorded(Piles piles) {
  piles[Pile::kOptimizerMoments] += piles[Pile::kMasterWeights];
  piles[Pile::kMasterWeights] = Bytes(0);
  return piles;
}

std::string suspect_of(const Reading& reading, const Answer& answer) {
  if (reading.bytes == answer.bytes) return "";
  if (reading.piles) {
    const Piles ours = as_recorded(answer.piles);
    std::size_t most = 0;
    for (std::size_t pile = 1; pile < kPileCount; ++pile)
      if (distance(ours.bytes[pile], reading.piles->bytes[pile]) >
          distance(ours.bytes[most], reading.piles->bytes[most]))
        most = pile;
    return words_of_pile(static_cast<Pile>(most));
  }
  std::vector<std::pair<Bytes, std::string>> piles;
  for (std::size_t pile = 0; pile < kPileCount; ++pile)
    piles.emplace_back(answer.piles.bytes[pile], words_of_pile(static_cast<Pile>(pile)));
  piles.emplace_back(answer.slack, "slack");
  piles.emplace_back(answer.runtime, "runtime");
  const bool too_much = answer.bytes > reading.bytes;
  const Bytes missing = reading.bytes - answer.bytes;
  const std::pair<Bytes, std::string>* best = nullptr;
  for (const auto& pile : piles) {
    if (!too_much && pile.first < missing) continue;
    if (best == nullptr || (too_much ? pile.first > best->first : pile.first < best->first))
      best = &pile;
  }
  return best == nullptr ? "" : best->second;
}

// The work: whose layouts can be compared.
std::string group_of(const Job& job) {
  const Architecture& model = *job.model;
  return fmt::format("{} {:.4g}B, {} layers, {} x {}, sequence {}, batch {}", model.name,
                     static_cast<double>(count_parameters(model).total) / 1e9, model.layers,
                     job.cluster.devices.value(), job.cluster.device->name,
                     job.training.sequence_length.value(), job.training.global_batch);
}

Bytes working_at_the_peak(const Prediction& prediction) {
  for (const RankPrediction& rank : prediction.ranks)
    if (rank.rank == prediction.peak.rank)
      if (const PhasePrediction* phase = phase_of(rank.phases, rank.phase))
        return phase->piles[Pile::kActivations] + phase->piles[Pile::kTemporary] +
               phase->piles[Pile::kCommunication];
  return {};
}

void write_leaves(const Value& value, const std::string& path, std::string& text) {
  if (value.is_table())
    for (const Value::Member& member : value.members())
      write_leaves(member.value, path + "." + member.key, text);
  else if (value.is_array())
    for (const Value& item : value.items()) write_leaves(item, path, text);
  else
    text += path + "=" + shown(value) + "\n";
}

// What a plan calls alike (are_alike of plan/layout.h): the run without what a person tunes last.
std::string shape_of(Value run) {
  for (const KeyId key : {KeyId::kMicroBatch, KeyId::kGradientAccumulation, KeyId::kLoss,
                          KeyId::kSchedule, KeyId::kVirtualPipeline, KeyId::kReplicate,
                          KeyId::kSequenceParallel, KeyId::kContextMethod, KeyId::kExpertTensor})
    remove_path(run, key_of(key).path);
  std::string text;
  write_leaves(run, "", text);
  return text;
}

void time(const MappedRun& mapped, const Job& job, JudgedRow& row) {
  const bool timed = mapped.step_seconds || mapped.tokens_per_second;
  if (!timed && !mapped.out_of_memory.value_or(false)) return;
  const std::optional<StepTime> time = predict_time(job);
  if (!time) return;
  row.contest = Contest{group_of(job), shape_of(mapped.run), mapped.timed_apart, {}};
  for (const OnMachine& on : step_on_machines(job)) row.contest->steps.push_back(on.step.value());
  if (!timed) return;
  const double tokens = static_cast<double>(job.training.global_batch) *
                        static_cast<double>(job.training.sequence_length.value());
  TimedStep step;
  step.seconds.measured =
      mapped.step_seconds.value_or(tokens / (mapped.tokens_per_second.value_or(1) *
                                             static_cast<double>(job.cluster.devices.value())));
  step.seconds.predicted = time->step.value();
  step.seconds.low = time->low.value();
  step.seconds.high = time->high.value();
  step.terms = time->terms;
  step.group = job.cluster.device->name;
  if (!mapped.timed_apart.empty()) step.group += ", " + mapped.timed_apart;
  row.step = std::move(step);
}

void weigh(const MappedRun& mapped, JudgedRow& row) {
  try {
    row.inferred = mapped.inferred;
    if (mapped.alone) {
      row.assumed = mapped.assumed;
      for (const Reading& reading : mapped.readings) {
        JudgedReading judged;
        judged.reading = reading;
        judged.predicted = *mapped.alone;
        row.readings.push_back(std::move(judged));
      }
      return;
    }
    const ReadJob job = read_job(mapped.run);
    if (!job) {
      row.refused = job.error().front().message;
      return;
    }
    const Prediction prediction = predict(*job);
    row.verdict = prediction.verdict;
    row.spare = prediction.usable.value().value() - prediction.peak.device.value().value();
    row.working = working_at_the_peak(prediction);
    row.engine = name_of(job->engine);
    row.implementation = name_of(job->implementation);
    row.out_of_memory = mapped.out_of_memory;
    const RuntimeBytes runtime = runtime_bytes(*job);
    const ErrorBand band(*job);
    for (const Reading& reading : mapped.readings) {
      const Answer answer = answer_of(reading, prediction, mapped.stage);
      row.readings.push_back({reading, answer.bytes, answer.piles, answer.slack, answer.runtime,
                              band.around(answer.bytes, terms_of(reading, answer, runtime)),
                              suspect_of(reading, answer)});
    }
    time(mapped, *job, row);
    row.assumed = mapped.assumed;
  } catch (const OverflowError&) {
    row.readings.clear();
    row.step.reset();
    row.contest.reset();
    row.refused = "a size of this run is far too large";
  }
}

std::vector<std::pair<std::string, std::int64_t>> commonest(
    const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

double size_of_error(const JudgedReading& judged) {
  return std::abs(percent_error(judged.reading.bytes, judged.predicted));
}

const RowSource* source_named(const std::string& name, const RowSources& sources) {
  for (const RowSource& source : sources)
    if (source.name == name) return &source;
  return nullptr;
}

std::string about_source(const std::string& name, const RowSource* source) {
  if (name == kRecords) return "recorded runs, phase by phase, to the byte";
  return source == nullptr ? "rows that no mapper reads" : std::string(source->about);
}

JudgedRow judged_by(const RowSource& source, MeasuredRow row, std::string_view name,
                    bool keep_run) {
  JudgedRow judged;
  judged.id = row.id().empty() ? std::string(name) : row.id();
  judged.source = std::string(source.name);
  const Mapped mapped = source.map(row);
  if (mapped) {
    weigh(*mapped, judged);
    if (keep_run) judged.run = mapped->run;
  } else {
    judged.left_out = mapped.error().why;
    judged.disagrees = mapped.error().disagrees;
  }
  return judged;
}

tl::expected<std::vector<JudgedRow>, Diagnostic> judge_record(const Value& record,
                                                              std::string_view name,
                                                              bool keep_run) {
  tl::expected<MappedRun, Diagnostic> mapped = map_record(record);
  if (!mapped) return tl::unexpected(std::move(mapped.error()));
  JudgedRow judged;
  judged.id = std::string(name);
  judged.source = std::string(kRecords);
  weigh(*mapped, judged);
  if (keep_run) judged.run = std::move(mapped->run);
  return std::vector<JudgedRow>{std::move(judged)};
}

Diagnostic neither_record_nor_row(const Value& document) {
  Diagnostic problem;
  problem.code = "E110";
  problem.message = "neither a record nor a row of measurements";
  problem.place = document.place();
  problem.help =
      "a record has \"schema\": \"steelyard.record/1\"; a row has its \"run\" and what was "
      "measured of it, as \"peak_reserved_bytes\" and \"step_seconds\"";
  return problem;
}

}  // namespace

std::string label_of(const Reading& reading) {
  std::string label(name_of(reading.meter));
  if (reading.meter == Meter::kOptimizerAllocated) label = "optimizer phase";
  if (reading.phase) {
    if (*reading.phase == Phase::kLoad) return "load";
    return fmt::format("{} {}", reading.step == Step::kFirst ? "first" : "later",
                       name_of(*reading.phase));
  }
  return reading.step == Step::kFirst ? label + ", first step" : label;
}

tl::expected<std::vector<JudgedRow>, Diagnostic> judge(const Value& document, std::string_view name,
                                                       const RowSources& sources, bool keep_run) {
  if (is_record(document)) return judge_record(document, name, keep_run);
  const MeasuredRow row(document);
  std::vector<JudgedRow> judged;
  for (const RowSource& source : sources)
    if (source.owns(row)) judged.push_back(judged_by(source, row, name, keep_run));
  if (!judged.empty()) return judged;
  const Value* source_table = row.at("source");
  if (row.id().empty() || source_table == nullptr || !source_table->is_table())
    return tl::unexpected(neither_record_nor_row(document));
  judged.emplace_back();
  judged.back().id = row.id();
  judged.back().source = std::string(kUnknownSource);
  judged.back().left_out =
      "no mapper reads " + (row.origin().empty() ? "its source" : row.origin());
  return judged;
}

void Validation::add(JudgedRow row) {
  if (!row.inferred.empty()) row.source += kInferred;
  if (std::find(sources_.begin(), sources_.end(), row.source) == sources_.end())
    sources_.push_back(row.source);
  // The same few sentences stand in every row: they are counted, not kept.
  for (const Assumed& assumed : row.assumed)
    ++assumed_[row.source][{assumed.key, assumed.value, assumed.why}];
  row.assumed.clear();
  row.assumed.shrink_to_fit();
  rows_.push_back(std::move(row));
}

std::vector<SourceResult> Validation::results(std::size_t worst) const {
  std::vector<SourceResult> results;
  std::vector<std::string> sources = sources_;
  std::stable_partition(sources.begin(), sources.end(),
                        [](const std::string& name) { return name != kUnknownSource; });
  for (const std::string& name : sources) {
    SourceResult result;
    result.name = name;
    const RowSource* source = source_named(name.substr(0, name.find(kInferred)), known_);
    result.about = about_source(name, source);
    result.sweeps_layouts = source != nullptr && source->sweeps_layouts;
    std::map<std::string, std::int64_t> refused;
    std::map<std::string, std::int64_t> left_out;
    std::vector<std::pair<std::string, ErrorTable>> tables;
    std::map<std::string, TimeErrors> times;
    for (const JudgedRow& row : rows_) {
      if (row.source != name) continue;
      ++result.rows;
      result.judged.push_back(&row);
      if (!row.left_out.empty()) {
        ++result.left_out;
        if (row.disagrees) ++result.disagreeing;
        ++left_out[row.left_out];
        continue;
      }
      if (!row.refused.empty()) {
        ++result.refused;
        ++refused[row.refused];
        continue;
      }
      ++result.weighed;
      if (row.out_of_memory) result.outcomes.add(*row.out_of_memory, row.verdict);
      if (row.step) times[row.step->group].add(row.step->seconds);
      const JudgedReading* farthest = nullptr;
      for (const JudgedReading& reading : row.readings) {
        const std::string label = label_of(reading.reading);
        auto table = std::find_if(tables.begin(), tables.end(),
                                  [&label](const auto& known) { return known.first == label; });
        if (table == tables.end()) table = tables.insert(tables.end(), {label, {}});
        std::optional<bool> in_band;
        const Bytes rounding = reading.reading.rounding;
        if (reading.band)
          in_band = Band{reading.band->low - std::min(reading.band->low, rounding),
                         reading.band->high + rounding}
                        .contains(reading.reading.bytes);
        table->second.add(reading.reading.bytes, reading.predicted, in_band);
        if (farthest == nullptr || size_of_error(reading) > size_of_error(*farthest))
          farthest = &reading;
      }
      if (farthest != nullptr && farthest->predicted != farthest->reading.bytes)
        result.worst.emplace_back(&row, farthest);
    }
    for (const auto& [group, errors] : times) result.times.emplace_back(group, errors.figures());
    for (const auto& [label, table] : tables) result.errors.emplace_back(label, table.figures());
    std::stable_sort(result.worst.begin(), result.worst.end(), [](const auto& a, const auto& b) {
      return size_of_error(*a.second) > size_of_error(*b.second);
    });
    if (result.worst.size() > worst) result.worst.resize(worst);
    result.refused_because = commonest(refused);
    result.left_out_because = commonest(left_out);
    if (const auto found = assumed_.find(name); found != assumed_.end())
      for (const auto& [key, count] : found->second)
        result.assumed.emplace_back(Assumed{std::get<0>(key), std::get<1>(key), std::get<2>(key)},
                                    count);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace steelyard
