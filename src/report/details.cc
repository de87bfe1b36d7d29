// What -v adds to the answer of `weigh`: nothing here is needed to decide, all of it to understand.
#include <fmt/format.h>

#include <algorithm>

#include "document/printable.h"
#include "job/pipeline_shape.h"
#include "report/host_need.h"
#include "report/phases.h"
#include "report/table.h"
#include "report/weighing.h"

namespace steelyard {
namespace {

constexpr std::size_t kAliveRows = 12;

std::string ranks_text(const Weighing& weighing, const Style& style) {
  const Prediction& prediction = weighing.prediction;
  const Scale scale = scale_of(prediction, style.units);
  Table table({{fmt::format("ranks, {}", scale.unit)},
               {"stage", true},
               {"alike", true},
               {"peak in"},
               {"allocated", true},
               {"reserved", true},
               {"device", true},
               {"resident", true}});
  for (const RankPrediction& rank : prediction.ranks)
    table.add({std::to_string(rank.rank), std::to_string(rank.pipeline + 1),
               print_count(rank.replicas), std::string(name_of(rank.phase)),
               number_of(rank.allocated, scale), number_of(rank.reserved, scale),
               number_of(rank.device, scale), number_of(rank.resident, scale)});
  return table.text(style);
}

std::string alive_text(const Weighing& weighing, const Style& style) {
  if (!weighing.moment) return "";
  const Scale scale = scale_of(weighing.prediction, style.units);
  Table table({{fmt::format("alive at the peak, {}", scale.unit)},
               {"of"},
               {"times", true},
               {"together", true},
               {"pile"}});
  Bytes hidden{};
  std::size_t rows = 0;
  for (const Holding& holding : weighing.moment->alive) {
    if (rows++ >= kAliveRows && !weighing.all) {
      hidden += holding.total;
      continue;
    }
    table.add({holding.name, holding.owner, print_count(holding.count),
               number_of(holding.total, scale), words_of(holding.pile)});
  }
  std::string result = table.text(style);
  if (rows > kAliveRows && !weighing.all)
    result += fmt::format("  {} more, {} (--all)\n", rows - kAliveRows, amount_of(hidden, scale));
  if (!weighing.moment->during.empty())
    result += fmt::format("  the last to be allocated: {}\n", weighing.moment->during);
  return result;
}

std::string schedule_text(const Job& job, const Style& style) {
  const Training& training = job.training;
  std::string result =
      "batch: " +
      wrapped(
          style,
          fmt::format(
              "micro_batch {} x gradient_accumulation {} x data {} = {} sequences, {} "
              "tokens a step",
              print_count(training.micro_batch), print_count(training.gradient_accumulation),
              print_count(job.parallel.data), print_count(training.global_batch),
              print_count(
                  (Checked(training.global_batch) * Checked(training.sequence_length)).value())),
          7) +
      "\n";
  if (job.trains_in_part()) {
    const ParameterCounts counts = count_parameters(*job.model);
    result += fmt::format(
        "trained: {} of {} parameters, {:.2f} %\n", print_count(counts.trainable),
        print_count(counts.total),
        100.0 * static_cast<double>(counts.trainable) / static_cast<double>(counts.total));
  }
  const std::int64_t stages = job.parallel.pipeline;
  if (stages > 1) {
    const std::int64_t micro_batches = training.gradient_accumulation;
    const PipelineOrder& order = pipeline_order(job);
    const PipelineShape shape = pipeline_shape(job);
    std::string text;
    if (order.most_chunks == 1 && !order.splits_backward)
      // The published figures: bubble (p-1)/m of the ideal time, and how many micro-batches wait for
      // their backward.
      text = fmt::format(
          "{} stages, {} micro-batches; bubble (p-1)/m = {}/{} "
          "of the ideal time m(tf+tb): (p-1)(tf+tb); in flight on the "
          "first stage: {} with 1f1b, {} with gpipe",
          stages, print_count(micro_batches), stages - 1, micro_batches,
          std::min(stages, micro_batches), micro_batches);
    else
      text = fmt::format(
          "{} stages of {} {}, {} micro-batches in the order {}; chunks in flight on "
          "the first stage: {}",
          stages, shape.chunks, shape.chunks == 1 ? "chunk" : "chunks", print_count(micro_batches),
          order.name, in_flight(order.rank_order(shape, 0), shape.chunks).most);
    result += "pipeline: " + wrapped(style, text, 10) + "\n";
  }
  return result;
}

std::string assumptions_text(const Prediction& prediction, const Style& style) {
  if (prediction.assumptions.empty()) return "";
  Table table({{"assumed"}, {""}, {""}});
  for (const Assumption& assumption : prediction.assumptions)
    table.add({assumption.key, printable(assumption.value), printable(assumption.reason)});
  return table.text(style);
}

}  // namespace

std::string details_text(const Weighing& weighing, const Style& style) {
  std::string result = "\n" + phases_table(weighing, peak_rank_index(weighing.prediction), style);
  result += "\n" + ranks_text(weighing, style);
  if (const std::string alive = alive_text(weighing, style); !alive.empty()) result += "\n" + alive;
  result += "\n" + schedule_text(weighing.job, style);
  const PeakPrediction& peak = weighing.prediction.peak;
  const Scale scale = scale_of(weighing.prediction, style.units);
  // The three numbers that people mix up, by the names they know.
  result += fmt::format("max_memory_allocated {}, max_memory_reserved {}, nvidia-smi {} {}\n",
                        number_of(peak.allocated, scale), number_of(peak.reserved, scale),
                        number_of(peak.device, scale), scale.unit);
  result += host_table(weighing.prediction, style);
  if (const std::string assumed = assumptions_text(weighing.prediction, style); !assumed.empty())
    result += "\n" + assumed;
  return without_trailing_blanks(result);
}

}  // namespace steelyard
