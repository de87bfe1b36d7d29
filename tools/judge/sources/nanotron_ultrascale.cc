// The sweep behind Hugging Face's Ultra-Scale Playbook: Llama-like models of 1.3 to 470 billion parameters in nanotron on 8 to
// 512 H100, data x tensor x pipeline, ZeRO 0 and 1, many of them out of memory. World rank 0 wrote the table.
//
//   Mem Res     max_memory_reserved of rank 0, the first pipeline stage
//   Mem Alloc   max_memory_allocated of rank 0 from the end of backward to the end of the step: nanotron resets the
//               counters there, so it is neither the peak of the step nor what is resident
#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "document/read.h"
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

constexpr std::string_view kScript = "the default of nanotron's scripts/scaling_benchmarks.py";
// Tied below this width of the feed-forward: scripts/scaling_benchmarks.py.
constexpr std::int64_t kTiedBelow = 10'000;

// Lines of the source's table, first and last.
struct Lines {
  std::int64_t first = 0, last = 0;
};

// What the source's table says of its machines and jobs, in columns that the rows do not have.
struct Sweep {
  Value machine;               // as a run file has one
  std::vector<Lines> checked;  // whose collectives are checked
};

Sweep read_sweep() {
  const std::string path = STEELYARD_JUDGE_FOLDER "/nanotron-sweep.json";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto document = read_json(text, path);
  if (!document) throw std::runtime_error(path + " cannot be read");
  Sweep sweep{*document->find("machine"), {}};
  for (const Value& lines : document->find("checked_lines")->items())
    sweep.checked.push_back(
        {lines.items().front().as_integer(), lines.items().back().as_integer()});
  return sweep;
}

const Sweep& sweep() {
  static const Sweep read = read_sweep();
  return read;
}

// Two in three jobs ran with TORCH_DISTRIBUTED_DEBUG=DETAIL, which their own test of the network shows and no row says.
bool checks_collectives(const MeasuredRow& row) {
  const std::int64_t line = row.count("source.line").value_or(0);
  return std::any_of(sweep().checked.begin(), sweep().checked.end(),
                     [&](const Lines& lines) { return lines.first <= line && line <= lines.last; });
}

void map_model(MeasuredRow& row, MappedRun& mapped) {
  Shape shape = printed_shape(row);
  if (!row.count("model.ffn") && shape.layers == 126) {
    shape.feed_forward = 53'248;
    mapped.read_as("model.intermediate_size 53248", "not printed; of the other rows of this model");
  }
  if (shape.kv_heads == 0) mapped.read_as("as many key-value heads as heads", kScript);
  const std::optional<bool> tied = row.truth("model.tied_embeddings");
  shape.tied = tied.value_or(shape.feed_forward < kTiedBelow);
  if (!tied)
    mapped.read_as("embeddings tied where the feed-forward is narrower than 10,000", kScript);
  mapped.set("model", llama_model(shape));
}

Mapped map(MeasuredRow& row) {
  const bool contradictory = row.says("notes", "contradictory");
  const std::optional<bool> died = row.truth("measured.oom");
  if (!died) return left_out("neither ended nor ran out of memory");

  MappedRun mapped;
  map_model(row, mapped);
  mapped.set("engine", "nanotron");
  map_cluster(row, mapped);
  mapped.set("cluster.machine", sweep().machine);
  mapped.read_as("cluster.machine aws-p5, with what its own network reached",
                 "H100 on EFA, which nanotron's scripts name (FI_PROVIDER): AWS has them as P5");
  if (checks_collectives(row))
    mapped.assume("environment.TORCH_DISTRIBUTED_DEBUG", "DETAIL",
                  "the job's own test of its network took 0.3 ms more for each rank");
  mapped.assume(
      "environment.torch", "2.1",
      "conda environment 2-1-cu121 of run_multinode.sh (nanotron, branch nouamane/bench2)");
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  mapped.set("training.micro_batch", row.need("train.micro_batch"));
  mapped.set("training.gradient_accumulation", row.need("train.grad_accum"));
  mapped.set("training.precision", "bf16-mixed-fp32-gradients");
  mapped.set("training.optimizer", "adamw");
  mapped.set("training.optimizer_form", "fused");
  mapped.set("parallel.data", row.need("parallel.dp"));
  mapped.set("parallel.zero_stage", row.count("parallel.fsdp_zero_stage").value_or(0));
  const std::int64_t tensor = row.need("parallel.tp");
  mapped.set("parallel.tensor", tensor);
  mapped.set_switch("parallel.sequence_parallel", tensor > 1);
  mapped.set("parallel.pipeline", row.need("parallel.pp"));
  mapped.set("parallel.schedule", "1f1b");
  mapped.set("recompute.mode", "none");
  if (!row.complete()) return left_out(row.missing());

  mapped.stage = 0;
  if (const auto bytes = row.gib("measured.peak_reserved_gib"))
    mapped.readings.push_back({Meter::kReserved, *bytes});
  if (const auto bytes = row.gib("measured.optimizer_phase_peak_gib"))
    mapped.readings.push_back({Meter::kOptimizerAllocated, *bytes});
  // Some rows say success and out of memory at once: their readings stand, their outcome does not.
  if (!contradictory) mapped.out_of_memory = died;
  if (!contradictory) map_time(row, mapped);
  mapped.timed_apart = row.need("hardware.gpus") > 8 ? "several machines" : "one machine";
  return mapped;
}

bool owns(const MeasuredRow& row) {
  return row.says("source.repo", "nanotron ultrascale-playbook") ||
         row.id().substr(0, 12) == "nanotron-us-";
}

}  // namespace

constinit const RowSource kNanotronUltrascale = {
    "nanotron-ultrascale",
    "Ultra-Scale Playbook sweep on H100: reserved, optimizer phase, out of memory", owns, map,
    true};

}  // namespace steelyard
