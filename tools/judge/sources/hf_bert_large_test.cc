#include "sources/literal_row.h"

namespace steelyard {
namespace {

TEST(HfBertLarge, MegabytesOfTheWholeDevice) {
  const LiteralRow row(R"row({"id": "hfdocs-bertlarge-vanilla-bs4",
        "source": {"title": "Hugging Face Transformers docs: Efficient Training on a Single GPU (2022/23 version)",
        "url_or_repo": "github.com/huggingface/transformers docs/source/en/perf_train_gpu_one.mdx (commit 0016acf7ef42)",
        "where": "Vanilla training"},
        "model": {"name": "bert-large-uncased (sequence classification head)",
        "params": "bert-large"}, "hardware": {"gpu": "NVIDIA Tesla V100-SXM2 16GB",
        "gpu_memory_gib": 16, "gpus": 1}, "framework": {"name": "HF Transformers Trainer"},
        "train": {"seq_len": 512, "micro_batch": 4, "global_batch": 4, "grad_accum": 1,
        "precision": "fp32", "optimizer": "Trainer default AdamW", "attention": "eager",
        "recompute": "none"}, "parallel": {"dp": 1}, "measured": {"peak_reported": 14949,
        "oom": false}, "derived_by_us": {}})row");
  EXPECT_EQ(row.source(), "hf-bert-large");
  EXPECT_EQ(row.says("model"), R"("bert-large-uncased")");
  EXPECT_EQ(row.says("cluster.device"), R"("v100-sxm-16gb")");
  EXPECT_EQ(row.says("training.precision"), R"("fp32")");
  EXPECT_EQ(row.says("training.optimizer_form"), R"("loop")");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kDevice, std::int64_t{15'675'162'624})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

TEST(HfBertLarge, ALoadedModelIsNoRun) {
  const LiteralRow row(R"row({"id": "hfdocs-bertlarge-model-loaded",
        "source": {"title": "Hugging Face Transformers docs: Efficient Training on a Single GPU (2022/23 version)",
        "url_or_repo": "github.com/huggingface/transformers docs/source/en/perf_train_gpu_one.mdx (commit 0016acf7ef42)",
        "where": "Load model"},
        "model": {"name": "bert-large-uncased (sequence classification head)",
        "params": "bert-large"}, "hardware": {"gpu": "NVIDIA Tesla V100-SXM2 16GB",
        "gpu_memory_gib": 16, "gpus": 1}, "framework": {"name": "HF Transformers Trainer"},
        "train": {"precision": "fp32", "attention": "eager"}, "parallel": {"dp": 1},
        "measured": {"peak_reported": 2631, "oom": false}})row");
  EXPECT_EQ(row.source(), "hf-bert-large");
  EXPECT_EQ(row.left_out(), "a context or a loaded model: not a run");
}

}  // namespace
}  // namespace steelyard
