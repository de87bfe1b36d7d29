// Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism (arXiv:2411.05288): Megatron, one rank a stage,
// vocabularies of 32k to 256k. Vocab-1, Vocab-2 and Interlaced divide the vocabulary's layers over all stages. What the paper
// does not print its authors' code says (sail-sg/VocabularyParallelism): pretrain_gpt.sh launches every method.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// "128k": a thousand, by the steps between rows.
std::optional<std::int64_t> vocabulary_of(const std::string& printed) {
  if (printed == "32k") return 32'000;
  if (printed == "64k") return 64'000;
  if (printed == "128k") return 128'000;
  if (printed == "256k") return 256'000;
  return std::nullopt;
}

// "Redis" gives the last stage fewer layers, so that no stage computes much longer than the others. As the authors count,
// a layer costs bsh(72h + 12s) and the head 6bshV; the column layers_last of artifact/exp_one_host.csv is what this finds. The
// remainder goes to the stages before the last (megatron/core/transformer/transformer_block.py, get_num_layers_to_build).
std::optional<Value::Array> balanced_layers(const Shape& shape, std::int64_t stages) {
  if (stages < 2 || stages > 1024 || shape.layers < stages || shape.layers > 1'000'000)
    return std::nullopt;
  const double layer =
      72.0 * static_cast<double>(shape.hidden) + 12.0 * static_cast<double>(shape.positions);
  const double head = 6.0 * static_cast<double>(shape.vocabulary) / layer;  // in layers
  const std::int64_t others = stages - 1;
  std::int64_t best = 0;
  double shortest = 0;
  for (std::int64_t last = 0; last <= shape.layers / stages; ++last) {
    const std::int64_t of_others = (shape.layers - last + others - 1) / others;
    const double longest =
        std::max(static_cast<double>(of_others), static_cast<double>(last) + head);
    if (last > 0 && longest > shortest) break;
    best = last;
    shortest = longest;
  }
  const std::int64_t left = shape.layers - best;
  Value::Array counts;
  for (std::int64_t stage = 0; stage < others; ++stage)
    counts.push_back(Value::integer(left / others + (stage >= others - left % others ? 1 : 0)));
  counts.push_back(Value::integer(best));
  return counts;
}

// "1F1B / Vocab-1": an order, and what it makes of the vocabulary.
struct Schedule {
  std::string_view printed, order, vocabulary = {};
  bool balanced = false;
};
constexpr std::string_view kScript = "pretrain_gpt.sh of sail-sg/VocabularyParallelism";
constexpr Schedule kSchedules[] = {{"1F1B / Baseline", "1f1b"},
                                   {"1F1B / baseline", "1f1b"},
                                   {"1F1B / Redis", "1f1b", {}, true},
                                   {"1F1B / Vocab-1", "1f1b", "vocabulary-1"},
                                   {"1F1B / Vocab-2", "1f1b", "vocabulary-2"},
                                   {"1F1B / Interlaced", "1f1b", "interlaced"},
                                   {"V-Half / Baseline", "v-half"},
                                   {"V-Half / Vocab-1", "v-half", "vocabulary-1"}};

Mapped map(MeasuredRow& row) {
  const std::string printed = row.text("parallel.schedule");
  const auto* schedule =
      std::find_if(std::begin(kSchedules), std::end(kSchedules),
                   [&](const Schedule& known) { return known.printed == printed; });
  if (schedule == std::end(kSchedules)) return left_out("schedule " + printed);
  MappedRun mapped;
  const auto vocabulary = vocabulary_of(row.text("model.vocab"));
  if (!vocabulary) row.miss("model.vocab");
  const Shape shape{row.need("model.layers"),
                    row.need("model.hidden"),
                    row.need("model.heads"),
                    0,
                    std::min<std::int64_t>(row.need("model.hidden"), 1 << 30) * 4,
                    vocabulary.value_or(1),
                    row.need("train.seq_len"),
                    false,
                    false};
  mapped.set("model", gpt_model(shape));
  mapped.set("engine", "megatron");
  map_cluster(row, mapped);
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", row.need("train.grad_accum"));
  mapped.assume("training.precision", "fp16-mixed", kScript);
  mapped.assume("training.optimizer", "adam", kScript);
  mapped.assume("training.attention", "flash", kScript);
  mapped.set("training.dropout", Value::number(0));
  mapped.read_as("training.dropout 0", kScript);
  mapped.assume("parallel.zero_stage", 1, kScript);
  mapped.assume("recompute.mode", "none", kScript);
  mapped.set("parallel.data", 1);
  mapped.set("parallel.tensor", 1);
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  mapped.set("parallel.schedule", std::string(schedule->order));
  if (schedule->order == "v-half") mapped.set("parallel.virtual_pipeline", 2);
  if (!schedule->vocabulary.empty())
    mapped.set("parallel.vocabulary", std::string(schedule->vocabulary));
  if (schedule->balanced) {
    if (auto counts = balanced_layers(shape, row.need("parallel.pp")))
      mapped.set("parallel.pipeline_layout", Value::array(std::move(*counts)));
    else
      row.miss("layers that its stages share");
    mapped.read_as("parallel.pipeline_layout",
                   "as the authors' code and table of runs divide them");
  }
  if (!row.complete()) return left_out(row.missing());
  if (const auto bytes = row.gib("measured.peak_reported")) {
    mapped.readings.push_back({Meter::kAllocated, *bytes});
    mapped.read_as("GB as GiB",
                   "Megatron's report in MiB, divided by 1024 (megatron/training/utils.py; "
                   "artifact/quick_exp.sh)");
  }
  map_outcome(row, mapped);
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.id().substr(0, 10) == "vocabpp24-"; }

}  // namespace

constinit const RowSource kYeung2024 = {
    "yeung-2024", "Megatron pipelines with large vocabularies on A100: allocated", owns, map};

}  // namespace steelyard
