#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Litgpt, FullFinetunes) {
  const LiteralRow row(R"row({"id": "litgpt-hub-L16", "source": {"repo": "Lightning-AI/litgpt",
        "path": "config_hub/finetune/README.md", "table": "config_hub finetune table"},
        "model": {"name": "gemma-2b"}, "hardware": {"gpu": "A10G", "gpu_memory_gib": 24,
        "gpus": 4}, "framework": {"name": "litgpt"}, "train": {"mode": "full finetune",
        "seq_len": 512, "micro_batch": 1, "global_batch": 16, "precision": "bf16-true",
        "optimizer": "AdamW",
        "packing": "no packing; Alpaca2k padded to longest in batch, truncated at 512"},
        "parallel": {"dp": 4}, "measured": {"peak_allocated_gib": 16.233,
        "peak_reported_gib": 16.233, "oom": false},
        "notes": "Config values from config_hub/finetune/gemma-2b/full.yaml. Runtime 14.06 min, 1 epochs."})row");
  EXPECT_EQ(row.source(), "litgpt");
  // Its head never shares the embedding's weight.
  EXPECT_EQ(row.says("model.model_type"), R"("gemma")");
  EXPECT_EQ(row.says("model.tie_word_embeddings"), "false");
  EXPECT_EQ(row.says("cluster.devices"), "4");
  EXPECT_EQ(row.says("engine"), R"("fsdp1")");
  EXPECT_EQ(row.says("parallel.sync_each_micro_batch"), "false");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  EXPECT_EQ(row.says("cluster.device"), R"("a10g")");
  EXPECT_EQ(row.says("training.precision"), R"("bf16-pure")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{17'430'051'029})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// On the one device that its file names, AdamW's states alone are more than it prints.
TEST(Litgpt, OnUnknownDevices) {
  const LiteralRow row(R"row({"id": "litgpt-hub-L46", "source": {"repo": "Lightning-AI/litgpt",
        "path": "config_hub/finetune/README.md", "table": "config_hub finetune table"},
        "model": {"name": "llama-3.2-1b"}, "hardware": {"gpu": "A10G", "gpu_memory_gib": 24,
        "gpus": 1}, "framework": {"name": "litgpt"}, "train": {"mode": "full finetune",
        "seq_len": 512, "micro_batch": 4, "global_batch": 64, "precision": "bf16-true",
        "optimizer": "AdamW"}, "parallel": {"dp": 1}, "measured": {"peak_allocated_gib": 8.103,
        "oom": false}, "notes": "Config values from config_hub/finetune/llama-3.2-1B/full.yaml."})row");
  EXPECT_EQ(
      row.left_out(),
      "not on the one device that its full.yaml names: its states need more, and nobody prints "
      "on how many");
}

// LoRA is asked for, whether or not we can answer.
TEST(Litgpt, Adapters) {
  const LiteralRow row(R"row({"id": "litgpt-hub-L14", "source": {"repo": "Lightning-AI/litgpt",
        "path": "config_hub/finetune/README.md", "table": "config_hub finetune table"},
        "model": {"name": "falcon-7b"}, "hardware": {"gpu": "A10G", "gpu_memory_gib": 24,
        "gpus": 1}, "framework": {"name": "litgpt"}, "train": {"mode": "QLoRA", "seq_len": 512,
        "micro_batch": 1, "global_batch": 8, "precision": "bf16-true", "optimizer": "AdamW",
        "lora": {"lora_r": "32", "lora_alpha": "16", "lora_query": "true", "lora_key": "false",
        "lora_value": "true", "lora_projection": "false", "lora_mlp": "false",
        "lora_head": "false"}, "quant": "bnb.nf4",
        "packing": "no packing; Alpaca2k padded to longest in batch, truncated at 512"},
        "parallel": {"dp": 1}, "measured": {"peak_allocated_gib": 8.792,
        "peak_reported_gib": 8.792, "oom": false},
        "notes": "Config values from config_hub/finetune/falcon-7b/qlora.yaml. Runtime 50.85 min, 4 epochs. 4xA10G rows repeat the 1-GPU memory; the yaml says devices: 1, so trea"})row");
  EXPECT_EQ(row.source(), "litgpt");
  EXPECT_EQ(row.says("adapter.rank"), "32");
  EXPECT_EQ(row.says("adapter.base"), R"("nf4")");
  EXPECT_EQ(row.says("model.model_type"), R"("falcon")");
  EXPECT_EQ(row.says("environment.bitsandbytes"), R"("0.42")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{9'440'338'117})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
