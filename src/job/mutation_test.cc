// Thousands of job lines with something broken in them: each ends in a job or in errors that say where.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "document/read.h"
#include "document/render.h"
#include "job/read.h"

namespace steelyard {
namespace {

constexpr const char* kLines[] = {
    R"({"model": {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": false, "hidden_act": "silu"}, "engine": "nanotron", "cluster": {"device": "h100-sxm-80gb", "devices": 64, "devices_per_node": 8}, "training": {"sequence_length": 4096, "micro_batch": 2, "gradient_accumulation": 8, "precision": "bf16-mixed-fp32-gradients", "optimizer": "adamw", "optimizer_form": "fused", "attention": "flash", "loss": "plain"}, "parallel": {"data": 4, "zero_stage": 1, "tensor": 4, "sequence_parallel": true, "pipeline": 4, "schedule": "1f1b"}, "recompute": {"mode": "none"}})",
    R"({"model": "llama-3.1-8b", "engine": "fsdp2", "cluster": {"device": "8xh100", "devices": 8}, "training": {"sequence_length": "8k", "micro_batch": 1, "global_batch": 64, "dropout": 0.1}, "parallel": {"zero_stage": 3, "replicate": 2}, "recompute": {"mode": "every", "every": 5}})",
    R"({"model": "gpt2", "engine": "megatron", "cluster": {"device": "24gb"}, "training": {"sequence_length": 1024, "global_batch": 16}, "parallel": {"tensor": 2, "pipeline": 3, "pipeline_layout": [4, 4, 4]}, "recompute": {"modules": ["mlp", "norms"]}, "buckets": {"reduce": 5e8}})",
};

class Mutator {
 public:
  explicit Mutator(unsigned seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::size_t i = 0, count = 1 + pick(2); i < count; ++i) change(text);
    return text;
  }

 private:
  std::size_t pick(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }

  void change(std::string& text) {
    static const char* const kWords[] = {"0",    "-1",       "1e18",   "999999999999999999",
                                         "null", "\"\"",     "[]",     "{}",
                                         "true", "1.5",      "\"8k\"", "1000000",
                                         "7",    "\"\xff\"", "[[1]]",  "\"nan\"",
                                         "3",    "\"1e400\""};
    const std::size_t at = pick(text.size());
    switch (pick(6)) {
      case 0:
        text[at] = static_cast<char>(pick(256));
        break;
      case 1:
        text.erase(at, 1 + pick(4));
        break;
      case 2:
        text.insert(at, 1, text[pick(text.size())]);
        break;
      case 3:
        text.resize(at + 1);
        break;
      default: {
        // Another value after a colon.
        const std::size_t colon = text.find(": ", at);
        if (colon == std::string::npos) return;
        const std::size_t end = text.find_first_of(",}", colon);
        if (end != std::string::npos)
          text.replace(colon + 2, end - colon - 2, kWords[pick(std::size(kWords))]);
      }
    }
    if (text.empty()) text = " ";
  }

  std::mt19937 random_;
};

TEST(Mutation, EndsInAJobOrInErrors) {
  Mutator mutate(3);
  int jobs = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    const std::string line = mutate(kLines[i % 3]);
    SCOPED_TRACE(line);
    const auto document = read_json(line, "<jobs>:1");
    const auto job = document ? read_job(*document) : ReadJob(tl::unexpected(document.error()));
    if (job) {
      ++jobs;
      EXPECT_EQ(
          job->training.global_batch,
          job->training.micro_batch * job->training.gradient_accumulation * job->parallel.data);
      EXPECT_EQ(job->cluster.devices, job->parallel.data * job->parallel.tensor *
                                          job->parallel.context * job->parallel.pipeline);
      EXPECT_FALSE(job->parallel.stage_layers.empty());
      continue;
    }
    ++refused;
    ASSERT_FALSE(job.error().empty());
    EXPECT_EQ(job.error()[0].severity, Severity::kError);
    for (const Diagnostic& problem : job.error()) {
      EXPECT_FALSE(problem.code.empty());
      EXPECT_FALSE(problem.message.empty());
      EXPECT_FALSE(render(problem).empty());
    }
  }
  EXPECT_GT(jobs, 100);
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace steelyard
