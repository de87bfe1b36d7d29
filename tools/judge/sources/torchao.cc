// torchao's documentation: torchtitan's Llama 3 8B on eight devices with bf16, float8 and MX formats (max reserved as torchtitan
// logs it, GiB), and optimizer tables (max allocated). Two copies of
// the table exist: one is judged.
#include <cctype>
#include <string>
#include <string_view>

#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

constexpr std::string_view kToml = "not printed; torchtitan's llama3_8b.toml";

bool is_titan(const MeasuredRow& row) { return row.says("framework.name", "torchtitan"); }

void map_precision(const MeasuredRow& row, MappedRun& mapped) {
  // The newer rows have the format in train.quant, the others in train.precision.
  const auto says = [&row](std::string_view word) {
    return row.says("train.quant", word) || row.says("train.precision", word);
  };
  if (says("mxfp8")) {
    mapped.set("training.precision", "mxfp8");
  } else if (says("tensorwise")) {
    mapped.set("training.precision", "fp8-tensorwise");
  } else if (says("rowwise")) {
    mapped.set("training.precision", "fp8-rowwise");
  } else if (says("float8")) {
    mapped.assume("training.precision", "fp8-tensorwise",
                  "torchao's float8 before recipes had names");
  } else {
    mapped.set("training.precision", "bf16-mixed");
  }
}

// torchtitan's words: per operator (every second matrix product again), every second layer, every layer.
void map_recompute(MeasuredRow& row, MappedRun& mapped) {
  if (row.says("train.recompute", "per-op") || row.says("train.recompute", "selective op")) {
    mapped.set("recompute.mode", "operators");
  } else if (row.says("train.recompute", "every 2nd") ||
             row.says("train.recompute", "Selective per layer")) {
    mapped.set("recompute.mode", "every");
    mapped.set("recompute.every", 2);
  } else if (row.says("train.recompute", "full")) {
    mapped.set("recompute.mode", "full");
  } else if (row.says("train.recompute", "none") || row.says("train.recompute", "No AC")) {
    mapped.set("recompute.mode", "none");
  } else {
    row.miss("train.recompute");
  }
}

// RMSNorm is one kernel since torch 2.9, and nightlies count as what they became.
void map_torch(const MeasuredRow& row, MappedRun& mapped) {
  constexpr std::string_view kName = "torch 2.";
  const std::string version = row.text("framework.version");
  const std::size_t at = version.find(kName);
  const std::size_t minor = at + kName.size();
  if (at != std::string::npos && minor < version.size() && std::isdigit(version[minor]) != 0)
    mapped.set("environment.torch", "2." + version.substr(minor, version.find('.', minor) - minor));
  else
    mapped.assume("environment.torch", "2.6",
                  "not printed; the tables came to torchao's repository in February 2025");
}

// "torchtitan 0.0.2" of early 2025; pull request 778 is of January. Commits and logs between two versions have a day.
void map_torchtitan(const MeasuredRow& row, MappedRun& mapped) {
  if (row.says("framework.version", "torchtitan 0.0")) {
    mapped.set("environment.torchtitan", "0.0");
  } else if (row.says("framework.version", "2025-06")) {
    mapped.set("environment.torchtitan", "0.1");
  } else if (row.text("framework.version").empty()) {
    mapped.assume("environment.torchtitan", "0.0",
                  "not printed; its integration is of January 2025 (pull request 778)");
  }
}

Mapped map(MeasuredRow& row) {
  if (row.says("model.name", "timm/") || row.says("model.name", "timm "))
    return left_out("a vision model");
  if (!is_titan(row)) {
    if (row.says("model.name", "Llama2-1B")) return left_out("prints no sizes of its Llama2-1B");
    return left_out("prints no train.micro_batch, no train.seq_len");
  }
  if (row.says("model.name", "Llama4") || row.says("model.name", "DeepSeek"))
    return left_out("a cut-down model with expert parallelism, whose sizes are not printed");
  if (row.id().rfind("torchao-tut-", 0) == 0)
    return left_out("a tutorial's sample of a log, on a device that it does not name");
  MappedRun mapped;
  mapped.set("model", "llama-3-8b");
  if (row.says("model.name", "not "))
    mapped.read_as("model llama-3-8b", "not printed; the default of the benchmark's script");
  map_cluster(row, mapped);
  mapped.set("engine", "fsdp2");
  mapped.set("implementation", "torchtitan");
  mapped.set("training.sequence_length", row.need("train.seq_len"));
  if (const auto batch = row.count("train.micro_batch")) {
    mapped.set("training.micro_batch", *batch);
  } else {
    mapped.assume("training.micro_batch", 1, kToml);
  }
  mapped.set("training.gradient_accumulation", 1);
  map_torch(row, mapped);
  map_torchtitan(row, mapped);
  map_precision(row, mapped);
  mapped.assume("training.optimizer", "adamw", kToml);
  if (row.truth("train.compile").value_or(false)) mapped.set_switch("training.compile", true);
  map_recompute(row, mapped);
  if (!row.complete()) return left_out(row.missing());
  auto bytes = row.gib("measured.peak_reserved_gib");
  if (!bytes) bytes = row.gib("measured.peak_reported");
  if (bytes) mapped.readings.push_back({Meter::kReserved, *bytes});
  map_outcome(row, mapped);
  if (row.number("measured.tokens_per_s_per_gpu"))
    mapped.read_as("no step time",
                   "Meta's H100 run at 500 W with HBM2e of 2.4 TB/s (torchtitan, "
                   "benchmarks/llama3_h100_202412_torchtitan.md)");
  return mapped;
}

Mapped leave_out(MeasuredRow&) { return left_out("the table of torchao, which is judged once"); }

bool owns(const MeasuredRow& row) { return row.origin() == "pytorch/ao"; }
bool owns_docs(const MeasuredRow& row) {
  return row.says("source.url_or_repo", "github.com/pytorch/ao");
}

}  // namespace

constinit const RowSource kTorchao = {
    "torchao", "torchtitan Llama 3 8B with FSDP2, float8: reserved", owns, map};
constinit const RowSource kTorchaoDocs = {
    "torchao-docs", "the table of torchao, copied a second time", owns_docs, leave_out};

}  // namespace steelyard
