#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(Peft, TheLongestBatch) {
  const LiteralRow row(
      R"row({"id": "peft-lora--llama-3.2-3B-rank32", "source": {"repo": "huggingface/peft",
        "path": "method_comparison/MetaMathQA/results/lora--llama-3.2-3B-rank32.json",
        "table": "MetaMathQA method comparison result"},
        "model": {"name": "meta-llama/Llama-3.2-3B", "params": 3221924864},
        "hardware": {"gpu": "NVIDIA L40S", "gpus": 1}, "framework": {"name": "peft"},
        "train": {"mode": "LORA", "seq_len": 768, "micro_batch": 4, "global_batch": 4,
        "grad_accum": 1, "precision": "bfloat16, amp=False, autocast_adapter_dtype=True",
        "optimizer": "AdamW {'lr': 0.0001, 'weight_decay': 0.1}",
        "attention": "transformers default", "compile": false, "recompute": "none",
        "lora": {"peft_type": "LORA", "r": 32, "lora_alpha": 64, "lora_dropout": 0.0,
        "target_modules": ["v_proj", "q_proj"], "use_dora": false, "use_rslora": false,
        "init_lora_weights": true, "bias": "none", "trainable_params": 9175040},
        "packing": "no packing, length-bucketed batches up to 768 tokens"},
        "parallel": {"dp": 1}, "measured": {"oom": false, "tokens_per_s_per_gpu": 7174.3,
        "reserved_p99_gib": 18.7383, "peak_reserved_with_evaluation_gib": 20.7617}})row");
  EXPECT_EQ(row.source(), "peft");
  EXPECT_EQ(row.says("adapter.rank"), "32");
  EXPECT_EQ(row.says("adapter.method"), R"("lora")");
  EXPECT_EQ(row.says("training.micro_batch"), "4");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kReserved, std::int64_t{22'292'705'627})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

}  // namespace
}  // namespace steelyard
