#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(MistAceso, ThePlanIsElsewhere) {
  const LiteralRow row(R"row(
        {"id": "mist-aceso-a100-sxm4-40gb_gpt_13B_gpt_13B_10stages_2024-5-31-9-21-26_rank0_2024-05-31-09-34-28-s1",
        "source": {"repo": "Dazz993/Mist",
        "path": "benchmark/superscaler/results-ref/logs-mist-all-a100-sxm4-40gb/aceso/runtime/gpt/13B/full_log_gpt_13B_10stages_2024-5-31-9-21-26_rank0_2024-05-31-09-34-28",
        "table": "Aceso baseline runtime log"}, "model": {"name": "GPT 13B", "layers": 40,
        "hidden": 5120, "heads": 40, "ffn": 20480, "vocab": 50432},
        "hardware": {"gpu": "A100 SXM4 40GB", "gpu_memory_gib": 40, "gpus": 16},
        "framework": {"name": "Aceso runtime (Megatron-LM fork), in Mist repo"},
        "train": {"mode": "pretrain", "seq_len": 4096, "micro_batch": 1, "global_batch": 256,
        "precision": "fp16", "optimizer": "adam",
        "attention": "unfused core attention (op-level; may be fused kernel per log)",
        "recompute": "op-level: stage 1 recomputes 12 of 30 ops"}, "parallel": {"dp": 1,
        "tp": 1, "pp": 10, "schedule": "1F1B"}, "measured": {"peak_allocated_gib": 27.933,
        "peak_reserved_gib": 28.8633, "oom": false}})row");
  EXPECT_EQ(row.source(), "mist-aceso");
  EXPECT_EQ(row.left_out(), "recomputes some of its operators; which, stands in a file of the run");
}

}  // namespace
}  // namespace steelyard
