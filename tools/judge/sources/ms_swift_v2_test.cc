#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(MsSwiftV2, QwenHasBiases) {
  const LiteralRow row(
      R"row({"id": "swift2-full-len-qwen-1_8b-chat-2048", "source": {"repo": "modelscope/ms-swift",
        "path": "docs/source_en/LLM/Benchmark.md", "table": "Max length Full"},
        "model": {"name": "qwen-1_8b-chat"}, "hardware": {"gpu": "A100 80GB",
        "gpu_memory_gib": 80, "gpus": 1},
        "framework": {"name": "ms-swift 2.x (HF transformers, PEFT)"},
        "train": {"mode": "full finetune", "seq_len": 2048, "micro_batch": 1, "grad_accum": 16,
        "precision": "bf16 (the Quantization table labels the same run bf16)",
        "attention": "flash-attn 2.3.4", "recompute": "gradient_checkpointing true",
        "packing": "none; dataset cls-fudan-news-zh truncated at max_length (mean 3234 tokens, std 2548, min 91, max 19548)"},
        "parallel": {"dp": 1, "pp": 1}, "measured": {"peak_reserved_gib": 35.11,
        "peak_reported_gib": 35.11, "oom": false}})row");
  EXPECT_EQ(row.source(), "ms-swift-v2");
  EXPECT_EQ(row.says("model.model_type"), R"("qwen2")");
  EXPECT_EQ(row.says("model.intermediate_size"), "5504");
  EXPECT_EQ(row.says("training.gradient_accumulation"), "16");
  EXPECT_EQ(row.says("recompute.mode"), R"("full")");
  EXPECT_EQ(row.says("training.packing"), R"("padded")");
  EXPECT_EQ(row.says("training.long_samples"), R"("dropped")");
  EXPECT_EQ(row.says("environment.transformers"), R"("4.36")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kReserved, std::int64_t{37'699'075'441})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
