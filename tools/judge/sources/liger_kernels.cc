// Liger's benchmark table: one kernel at a time, with its inputs, Liger's against what it replaces.
//
//   cross_entropy · liger | huggingface · full · V = 4096 · {"B": 8, "T": 2048}  ->  256.33 MB (2^20), median of ten rounds
#include "document/read.h"
#include "kernels/kernels.h"
#include "sources/published.h"
#include "sources/sources.h"

namespace steelyard {
namespace {

// What the swept size is called, where the benchmark's own name is another.
struct Renamed {
  const char* kernel;
  const char* name;
  const char* size;
};
constexpr Renamed kRenamed[] = {
    {"rope", "H", "hidden_size"},    {"rope", "T", "seq_len"}, {"llama4_rope", "H", "hidden_size"},
    {"llama4_rope", "T", "seq_len"}, {"jsd", "BT", "T"},
};

// All launched kernels of one device share this many multiprocessors, and a thread's products this workspace
// (aten/src/ATen/cuda/CublasHandlePool.cpp: 8,320 KiB, 32 MiB on an H100).
void map_device(const MeasuredRow& row, KernelBenchmark& kernel) {
  const bool ampere = row.says("hardware.gpu", "A100");
  kernel.multiprocessors = ampere ? 108 : row.says("hardware.gpu", "B200") ? 148 : 132;
  kernel.workspace = Bytes(Checked(ampere ? 8'320 : 32'768) * 1'024);
}

// Kernels of the table that no run here takes: a formula for them would have these rows alone to answer to.
std::string not_of_a_model(const MeasuredRow& row, const KernelBenchmark& kernel) {
  if (kernel.kernel == "fused_linear_cross_entropy" && kernel.liger())
    return "the loss with the head as Liger 0.4 computed it";
  if (kernel.kernel == "rms_norm" && !kernel.liger() && !row.says("train.shapes", "float32"))
    return "a norm with an fp32 weight over 16-bit hidden states";
  return "";
}

Mapped map(MeasuredRow& row) {
  if (row.says("train.provider", "torch_compile"))
    return left_out("a kernel that torch.compile made");
  const std::string name = row.text("train.kernel");
  if (name == "embedding")
    return left_out_as_disagreeing(
        "the table holds 12 GiB that no embedding has, and with twice the words a tenth of it: "
        "something else was alive");
  MappedRun mapped;
  KernelBenchmark kernel;
  kernel.kernel = name;
  kernel.provider = row.text("train.provider");
  kernel.passes = row.says("train.mode", "forward")    ? Passes::kForward
                  : row.says("train.mode", "backward") ? Passes::kBackward
                                                       : Passes::kFull;
  if (std::string why = not_of_a_model(row, kernel); !why.empty()) return left_out(std::move(why));
  const auto shapes = read_json(row.text("train.shapes"), "shapes");
  if (!shapes || !shapes->is_table()) return left_out("prints no shapes");
  kernel.is_float32 = row.says("train.shapes", "float32");
  for (const auto& member : shapes->members())
    if (member.value.is_integer()) kernel.sizes[member.key] = member.value.as_integer();
  std::string swept = row.text("train.x_name");
  for (const Renamed& renamed : kRenamed)
    if (name == renamed.kernel && swept == renamed.name) swept = renamed.size;
  kernel.sizes[swept] = row.need("train.x_value");
  // Two tables of one kernel call their sizes differently.
  if (name == "jsd" && kernel.sizes.count("vocab_size") > 0) {
    kernel.sizes["V"] = kernel.sizes["vocab_size"];
    kernel.sizes["B"] = kernel.sizes["bsz"];
  }
  map_device(row, kernel);
  if (const auto bytes = row.gib("measured.peak_allocated_gib"))
    mapped.readings.push_back({Meter::kAllocated, *bytes});
  if (!row.complete()) return left_out(row.missing());
  mapped.alone = peak_of(kernel);
  if (!mapped.alone) return left_out("a kernel that is no operator of a model here");
  return mapped;
}

bool owns(const MeasuredRow& row) { return row.origin() == "linkedin/Liger-Kernel"; }

}  // namespace

constinit const RowSource kLigerKernels = {
    "liger-kernels", "single kernels, Liger's and what they replace: allocated", owns, map};

}  // namespace steelyard
