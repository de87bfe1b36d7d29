#include "sources/literal_row.h"

namespace steelyard {
namespace {

// Line 2 of the sweep: eight replicas of 1.34 billion parameters.
TEST(NanotronUltrascale, ReadsBothCountersOfRankZero) {
  const LiteralRow row(R"row({"id": "nanotron-us-2",
        "source": {"repo": "gkarfakis19/Rapid-LLM (copy of the HF nanotron ultrascale-playbook benchmark CSV)",
        "path": "validation_scripts/huggingface_data/bench_final2_mod_add.csv",
        "table": "1.34G_dp8_tp1_pp1_acc16_mbs2_seq4096_zero0_tpmodeRED_vocab131k", "line": 2},
        "model": {"name": "Llama-arch 1.34B (nanotron bench)", "params": "1.34B", "layers": 16,
        "hidden": 2048, "heads": 32, "kv_heads": 32, "ffn": 8192, "vocab": 131072,
        "tied_embeddings": true}, "hardware": {"gpu": "H100 SXM 80GB", "gpu_memory_gib": 80,
        "gpus": 8}, "framework": {"name": "nanotron"}, "train": {"mode": "pretrain",
        "seq_len": 4096, "micro_batch": 2, "global_batch": 256, "grad_accum": 16,
        "precision": "bf16 params, fp32 gradient accumulation (accumulate_grad_in_fp32), fp32 master",
        "optimizer": "AdamW (torch fused)",
        "recompute": "none (recompute_layer not set; hTFLOPs equals mTFLOPs)"},
        "parallel": {"dp": 8, "fsdp_zero_stage": 0, "tp": 1, "sp": true, "pp": 1},
        "measured": {"peak_reserved_gib": 50.18, "oom": false, "tokens_per_s_per_gpu": 40149.94,
        "tflops_per_gpu": 388.0, "step_time_s": 3.2646, "optimizer_phase_peak_gib": 25.07}})row");
  EXPECT_EQ(row.source(), "nanotron-ultrascale");
  EXPECT_EQ(row.says("engine"), R"("nanotron")");
  EXPECT_EQ(row.says("model.tie_word_embeddings"), "true");
  EXPECT_EQ(row.says("training.micro_batch"), "2");
  EXPECT_EQ(row.says("parallel.data"), "8");
  EXPECT_EQ(row.says("parallel.sequence_parallel"), "false");
  EXPECT_EQ(row.says("parallel.zero_stage"), "0");
  EXPECT_EQ(row.says("cluster.machine.name"), "\"aws-p5, as measured\"");
  EXPECT_EQ(row.says("environment.TORCH_DISTRIBUTED_DEBUG"), "\"DETAIL\"");
  ASSERT_EQ(row.mapped().readings.size(), 2U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kReserved, std::int64_t{53'880'364'728})));
  EXPECT_EQ(row.reads(1), (std::pair(Meter::kOptimizerAllocated, std::int64_t{26'918'707'528})));
  EXPECT_EQ(row.mapped().stage, std::optional<std::int64_t>(0));
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// A run that said success and out of memory at once keeps its readings and loses its outcome.
TEST(NanotronUltrascale, ContradictoryRunsHaveNoOutcome) {
  const LiteralRow row(R"row({"id": "nanotron-us-486",
        "source": {"repo": "gkarfakis19/Rapid-LLM (copy of the HF nanotron ultrascale-playbook benchmark CSV)",
        "path": "validation_scripts/huggingface_data/bench_final2_mod_add.csv",
        "table": "1.34G_dp1_tp16_pp2_acc4_mbs64_seq4096_zero0_tpmodeRED_vocab131k"},
        "model": {"name": "Llama-arch 1.34B (nanotron bench)", "params": "1.34B", "layers": 16,
        "hidden": 2048, "heads": 32, "kv_heads": 32, "ffn": 8192, "vocab": 131072,
        "tied_embeddings": true}, "hardware": {"gpu": "H100 SXM 80GB", "gpu_memory_gib": 80,
        "gpus": 32}, "framework": {"name": "nanotron"}, "train": {"mode": "pretrain",
        "seq_len": 4096, "micro_batch": 64, "global_batch": 256, "grad_accum": 4,
        "precision": "bf16 params, fp32 gradient accumulation (accumulate_grad_in_fp32), fp32 master",
        "optimizer": "AdamW (torch fused)",
        "recompute": "none (recompute_layer not set; hTFLOPs equals mTFLOPs)"},
        "parallel": {"dp": 1, "fsdp_zero_stage": 0, "tp": 16, "sp": true, "pp": 2,
        "schedule": "1F1B"}, "measured": {"peak_reserved_gib": 46.23, "oom": false,
        "tokens_per_s_per_gpu": 6859.68, "tflops_per_gpu": 66.29, "step_time_s": 4.7769,
        "optimizer_phase_peak_gib": 3.13},
        "notes": "contradictory: oom_error=True together with status Success; exclude from fit/no-fit; after_pp_fix=True"})row");
  EXPECT_EQ(row.source(), "nanotron-ultrascale");
  EXPECT_EQ(row.says("parallel.tensor"), "16");
  EXPECT_EQ(row.says("parallel.sequence_parallel"), "true");
  ASSERT_EQ(row.mapped().readings.size(), 2U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kReserved, std::int64_t{49'639'084'524})));
  EXPECT_EQ(row.reads(1), (std::pair(Meter::kOptimizerAllocated, std::int64_t{3'360'811'909})));
  EXPECT_EQ(row.mapped().stage, std::optional<std::int64_t>(0));
  EXPECT_EQ(row.mapped().out_of_memory, std::nullopt);
}

// Neither success nor out of memory says nothing about fitting.
TEST(NanotronUltrascale, CrashesAreLeftOut) {
  const LiteralRow row(R"row({"id": "nanotron-us-3689",
        "source": {"repo": "gkarfakis19/Rapid-LLM (copy of the HF nanotron ultrascale-playbook benchmark CSV)",
        "path": "validation_scripts/huggingface_data/bench_final2_mod_add.csv",
        "table": "8.86G_dp4_tp2_pp1_acc32.0_mbs2_seq4096_zero1_tpmodeRED_vocab131k"},
        "model": {"name": "Llama-arch 8.86B (nanotron bench)", "params": "8.86B", "layers": 32,
        "hidden": 4096, "heads": 32, "ffn": 14336, "vocab": 131072},
        "hardware": {"gpu": "H100 SXM 80GB", "gpu_memory_gib": 80, "gpus": 8},
        "framework": {"name": "nanotron"}, "train": {"mode": "pretrain", "seq_len": 4096,
        "micro_batch": 2, "global_batch": 256, "grad_accum": 32,
        "precision": "bf16 params, fp32 gradient accumulation (accumulate_grad_in_fp32), fp32 master",
        "optimizer": "AdamW (torch fused)",
        "recompute": "none (recompute_layer not set; hTFLOPs equals mTFLOPs)"},
        "parallel": {"dp": 4, "fsdp_zero_stage": 1, "tp": 2, "sp": true, "pp": 1}})row");
  EXPECT_EQ(row.source(), "nanotron-ultrascale");
  EXPECT_EQ(row.left_out(), "neither ended nor ran out of memory");
}

}  // namespace
}  // namespace steelyard
