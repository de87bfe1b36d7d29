#include "sources/literal_row.h"

namespace steelyard {
namespace {

// A log of Megatron-LM: the numbers of one stage.
TEST(Bigscience, LogsAreOfOneStage) {
  const LiteralRow row(
      R"row({"id": "bigscience-log-gpt2-meg-meg_gpt2_base_n16_dp1_tp4_pp16-1809577-stage1",
        "source": {"repo": "bigscience-workshop/bigscience",
        "path": "experiments/gpt2-meg/meg_gpt2_base_n16_dp1_tp4_pp16-1809577.out",
        "table": "Megatron log: memory (MB) after first report"},
        "model": {"name": "GPT-2 style (Megatron)", "layers": 64, "hidden": 9216, "heads": 32,
        "ffn": 36864, "vocab": 50688}, "hardware": {"gpu": "V100 32GB", "gpu_memory_gib": 32,
        "gpus": 64}, "framework": {"name": "Megatron-LM"}, "train": {"mode": "pretrain",
        "seq_len": 1024, "micro_batch": 1, "global_batch": 4, "precision": "fp16",
        "optimizer": "Adam",
        "recompute": "full, every layer (checkpoint_activations, checkpoint_num_layers 1)"},
        "parallel": {"dp": 1, "fsdp_zero_stage": 0, "tp": 4, "sp": false, "pp": 16,
        "schedule": "1F1B"}, "measured": {"peak_allocated_gib": 21.5879,
        "peak_reserved_gib": 26.0898, "oom": false, "step_time_s": 2.743}})row");
  EXPECT_EQ(row.source(), "bigscience");
  EXPECT_EQ(row.says("engine"), R"("megatron")");
  EXPECT_EQ(row.says("cluster.device"), R"("v100-sxm-32gb")");
  EXPECT_EQ(row.says("cluster.devices_per_node"), "4");
  EXPECT_EQ(row.says("training.precision"), R"("fp16-mixed")");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  EXPECT_EQ(row.says("buckets.contiguous_gradients"), "false");
  EXPECT_EQ(row.says("parallel.pipeline"), "16");
  ASSERT_EQ(row.mapped().readings.size(), 2U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{23'179'831'122})));
  EXPECT_EQ(row.reads(1), (std::pair(Meter::kReserved, std::int64_t{28'013'709'440})));
  EXPECT_EQ(row.mapped().stage, std::optional<std::int64_t>(1));
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// 143.48 TFLOP/s for 130.43 s on 8 devices compute 512 sequences of this model, and the row says 2,048.
TEST(Bigscience, ATimeThatItsOwnTeraflopsContradictIsNoTime) {
  const LiteralRow row(
      R"row({"id": "bigscience-tr11-L658", "source": {"repo": "bigscience-workshop/bigscience",
        "path": "train/tr11-176B-ml/chronicles-prequel.md", "table": "48 node contenders"},
        "model": {"name": "GPT (Megatron-DeepSpeed), BLOOM search", "layers": 6, "hidden": 14336, "heads": 64,
        "ffn": 57344}, "hardware": {"gpu": "A100 80GB", "gpu_memory_gib": 80, "gpus": 8},
        "framework": {"name": "Megatron-DeepSpeed"}, "train": {"mode": "pretrain", "seq_len": 2048,
        "micro_batch": 2, "global_batch": 2048, "precision": "fp16", "optimizer": "adam (tr11 slurm)",
        "recompute": "full"}, "parallel": {"dp": 1, "fsdp_zero_stage": 1, "tp": 8, "sp": false, "pp": 1},
        "measured": {"peak_reported_gib": 54.0, "oom": false, "tflops_per_gpu": 143.48,
        "step_time_s": 130.43}})row");
  EXPECT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_FALSE(row.mapped().step_seconds);
  EXPECT_FALSE(row.mapped().tokens_per_second);
}

// Read after one iteration: states came last, so it is what stays, and the first step's reserve.
TEST(Bigscience, TheFirstIterationIsTheFirstStep) {
  const LiteralRow row(
      R"row({"id": "bigscience-log-gpt2-meg-ds-3d-meg_ds_3d_gpt2_perf_n16-ds-off-stage0",
        "source": {"repo": "bigscience-workshop/bigscience",
        "path": "experiments/gpt2-meg-ds-3d/meg_ds_3d_gpt2_perf_n16-ds-off.out",
        "table": "Megatron log: memory (MB) after first report"},
        "model": {"name": "GPT-2 style (Megatron)", "layers": 64, "hidden": 8192, "heads": 32,
        "ffn": 32768, "vocab": 50688}, "hardware": {"gpu": "V100 32GB", "gpu_memory_gib": 32,
        "gpus": 64}, "framework": {"name": "Megatron-LM"}, "train": {"mode": "pretrain",
        "seq_len": 1024, "micro_batch": 4, "global_batch": 1024, "precision": "fp16",
        "optimizer": "Adam",
        "recompute": "full, every layer (checkpoint_activations, checkpoint_num_layers 1)"},
        "parallel": {"dp": 1, "fsdp_zero_stage": 0, "tp": 4, "sp": false, "pp": 16,
        "schedule": "1F1B"}, "measured": {"oom": false, "step_time_s": 127.215,
        "allocated_after_step_gib": 17.0946, "first_iteration_reserved_gib": 23.8379}})row");
  EXPECT_EQ(row.source(), "bigscience");
  EXPECT_EQ(row.says("engine"), R"("megatron")");
  ASSERT_EQ(row.mapped().readings.size(), 2U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kResident, std::int64_t{18'355'186'985})));
  EXPECT_EQ(row.reads(1), (std::pair(Meter::kReserved, std::int64_t{25'595'750'226})));
  EXPECT_EQ(row.mapped().stage, std::optional<std::int64_t>(0));
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// The notebook of the BLOOM search prints what nvidia-smi shows.
TEST(Bigscience, TablesAreOfTheDevice) {
  const LiteralRow row(
      R"row({"id": "bigscience-tr11-L428", "source": {"repo": "bigscience-workshop/bigscience",
        "path": "train/tr11-176B-ml/chronicles-prequel.md", "table": "bf16"},
        "model": {"name": "GPT (Megatron-DeepSpeed), BLOOM search", "params": "200B",
        "layers": 80, "hidden": 14400, "heads": 96, "ffn": 57600},
        "hardware": {"gpu": "A100 80GB", "gpu_memory_gib": 80, "gpus": 80},
        "framework": {"name": "Megatron-DeepSpeed"}, "train": {"mode": "pretrain",
        "seq_len": 2048, "micro_batch": 1, "global_batch": 2048, "precision": "bf16",
        "optimizer": "adam (tr11 slurm)",
        "recompute": "full (checkpoint-activations, per tr11 slurm)"}, "parallel": {"dp": 1,
        "fsdp_zero_stage": 1, "tp": 8, "sp": false, "pp": 10,
        "schedule": "1F1B (DeepSpeed PP)"}, "measured": {"peak_reported_gib": 75.0,
        "oom": false, "tflops_per_gpu": 97.82}})row");
  EXPECT_EQ(row.source(), "bigscience");
  EXPECT_EQ(row.says("engine"), R"("deepspeed")");
  EXPECT_EQ(row.says("implementation"), R"("megatron")");
  EXPECT_EQ(row.says("model.vocab_size"), "250680");
  EXPECT_EQ(row.says("parallel.zero_stage"), "1");
  EXPECT_EQ(row.says("training.precision"), R"("bf16-mixed")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kDevice, std::int64_t{80'530'636'800})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
