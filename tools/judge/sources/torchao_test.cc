#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Torchao, TorchtitanLogsReserved) {
  const LiteralRow row(R"row({"id": "torchao-e2e-h100-2", "source": {"repo": "pytorch/ao",
        "path": "docs/source/workflows/training.md", "table": "e2e training benchmarks H100"},
        "model": {"name": "Llama 3 8B"}, "hardware": {"gpu": "H100", "gpus": 8},
        "framework": {"name": "torchtitan"}, "train": {"mode": "pretrain", "seq_len": 8192,
        "micro_batch": 1, "global_batch": 8, "precision": "bf16 mixed (FSDP2)",
        "optimizer": "AdamW (torchtitan default)", "compile": true, "recompute": "per-op SAC",
        "quant": "rowwise with bfloat16 all-gather"}, "parallel": {"dp": 8,
        "fsdp_zero_stage": "FSDP2 (ZeRO-3)", "tp": 1, "pp": 1},
        "measured": {"peak_reserved_gib": 47.79, "peak_reported_gib": 47.79, "oom": false,
        "tokens_per_s_per_gpu": 6768}})row");
  EXPECT_EQ(row.source(), "torchao");
  EXPECT_EQ(row.says("model"), R"("llama-3-8b")");
  EXPECT_EQ(row.says("implementation"), R"("torchtitan")");
  EXPECT_EQ(row.says("training.precision"), R"("fp8-rowwise")");
  EXPECT_EQ(row.says("training.compile"), "true");
  EXPECT_EQ(row.says("recompute.mode"), R"("operators")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kReserved, std::int64_t{51'314'121'769})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

TEST(Torchao, EverySecondLayer) {
  const LiteralRow row(R"row(
        {"id": "torchao-f8nocompile_Selective_per_layer_AC_AC_every_2nd_layer_seq_len_4096_bfloat16_eager",
        "source": {"title": "TorchAO float8nocompile prototype benchmarks",
        "url_or_repo": "github.com/pytorch/ao (commit 36027d82d1ad) torchao/prototype/float8nocompile/README.md",
        "where": "Selective per layer AC (AC every 2nd layer, seq len 4096)"},
        "model": {"name": "not named in the README (torchtitan integration)"},
        "hardware": {"gpu": "NVIDIA H100", "gpus": 8},
        "framework": {"name": "torchtitan + torchao"}, "train": {"seq_len": 4096,
        "precision": "bfloat16, eager", "compile": false,
        "recompute": "Selective per layer AC"}, "measured": {"peak_reported": 40.6,
        "oom": false, "tokens_per_s_per_gpu": 4882.4}})row");
  EXPECT_EQ(row.source(), "torchao-docs");
  EXPECT_EQ(row.left_out(), "the table of torchao, which is judged once");
}

TEST(Torchao, VisionModelsAreLeftOut) {
  const LiteralRow row(
      R"row({"id": "torchao-optim-vith-bnb_8-bit_AdamW", "source": {"repo": "pytorch/ao",
        "path": "torchao/optim/README.md", "table": "ViT-H resisc45"},
        "model": {"name": "timm/vit_huge_patch14_224.orig_in21k", "params": "630M"},
        "hardware": {"gpu": "RTX 4070 Ti SUPER", "gpus": 1},
        "framework": {"name": "timm + torchao"}, "train": {"mode": "finetune", "micro_batch": 8,
        "precision": "BF16 AMP", "optimizer": "bnb 8-bit AdamW", "compile": true},
        "parallel": {"dp": 1}, "measured": {"peak_reported_gib": 7.7486, "oom": false,
        "peak_allocated_gib": 7.7486}})row");
  EXPECT_EQ(row.source(), "torchao");
  EXPECT_EQ(row.left_out(), "a vision model");
}

}  // namespace
}  // namespace steelyard
