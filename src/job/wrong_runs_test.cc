// The table of wrong runs: what is written, and what is said about it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "document/read.h"
#include "job/read.h"

namespace steelyard {
namespace {

ReadJob job_of(const std::string& text, const JobContext& context = {}) {
  const auto document = read_document(text, "run.toml");
  EXPECT_TRUE(document) << text;
  return read_job(*document, context);
}

// A run that is right, in which each case below changes or adds keys.
std::string run_with(const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> keys = {{"model", "\"llama-3.1-8b\""},
                                             {"cluster.device", "\"h100-sxm-80gb\""},
                                             {"cluster.devices", "8"}};
  for (const auto& [key, value] : changes) keys[key] = value;
  std::string text;
  for (const auto& [key, value] : keys)
    if (!value.empty()) text += key + " = " + value + "\n";
  return text;
}

struct Wrong {
  std::map<std::string, std::string> changes;
  const char* code;
  const char* message;  // how it starts
  const char* help;     // part of it
};

const std::vector<Wrong>& wrong_runs() {
  static const std::vector<Wrong> cases = {
      // Keys by themselves.
      {{{"training.sequence_lenght", "1"}},
       "E104",
       "unknown key \"sequence_lenght\"",
       "\"sequence_length\""},
      {{{"trainig.sequence_length", "1"}}, "E104", "unknown section \"trainig\"", "\"training\""},
      {{{"training.tensor", "2"}}, "E104", "unknown key \"tensor\"", "belongs in [parallel]"},
      {{{"modle", "1"}}, "E104", "unknown key \"modle\"", "\"model\""},
      {{{"training.sequence_length", "\"abc\""}}, "E105", "sequence_length is \"abc\"", ""},
      {{{"training.sequence_length", "1.5"}}, "E105", "sequence_length is 1.5", ""},
      {{{"training.sequence_length", "nan"}}, "E105", "sequence_length is nan", ""},
      {{{"training.sequence_length", "[1]"}}, "E105", "sequence_length is [1]", ""},
      {{{"training.compile", "3"}}, "E105", "compile is 3", ""},
      {{{"parallel", "3"}}, "E105", "parallel is 3, not a table", "[parallel]"},
      {{{"engine", "\"fsdp3\""}}, "E106", "no engine is called \"fsdp3\"", "\"fsdp2\""},
      {{{"training.precision", "\"bf61-mixed\""}},
       "E106",
       "no precision is called",
       "\"bf16-mixed\""},
      {{{"training.optimizer", "\"adamv\""}}, "E106", "no optimizer is called", "\"adamw\""},
      {{{"recompute.modules", "[\"mpl\"]"}}, "E106", "no modules is called \"mpl\"", "\"mlp\""},
      {{{"training.micro_batch", "0"}}, "E107", "micro_batch is 0", ""},
      {{{"cluster.devices", "-8"}}, "E107", "devices is -8", ""},
      {{{"training.sequence_length", "1_000_000_000_000_000_000"}},
       "E107",
       "sequence_length is",
       ""},
      {{{"training.sequence_length", "1e30"}}, "E107", "sequence_length is", ""},
      {{{"training.hidden_dropout", "1.5"}}, "E107", "hidden_dropout is 1.5", ""},
      {{{"parallel.zero_stage", "4"}}, "E107", "zero_stage is 4", ""},
      {{{"model", ""}}, "E108", "no model is given", "llama-3.1-8b"},
      {{{"cluster.device", ""}}, "E108", "no device is given", "h100"},
      {{{"model", "\"./my-model\""}}, "E100", "./my-model: files are not read here", ""},
      {{{"model", "\"llama-3.1-8bb\""}}, "E308", "no model is named", "\"llama-3.1-8b\""},
      {{{"cluster.device", "\"h1000\""}}, "E111", "no device is called \"h1000\"", "\"h100\""},
      {{{"cluster.device", "\"0xh100\""}}, "E107", "\"0xh100\" counts no devices", ""},
      {{{"cluster.device", "\"90000gb\""}}, "E107", "a device of 90000gb", ""},
      {{{"parallel.tp", "2"}, {"parallel.tensor", "2"}},
       "E102",
       "parallel.tensor is given twice",
       ""},
      // The devices (figure 22).
      {{{"cluster.devices", "64"},
        {"parallel.tensor", "8"},
        {"parallel.data", "2"},
        {"parallel.pipeline", "3"}},
       "E210",
       "8 x 2 x 3 = 48 is not 64 devices",
       "pipeline = 4 keeps data 2; pipeline = 2 with data 4 also fits 64"},
      {{{"parallel.data", "16"}}, "E210", "16 = 16 is not 8 devices", "data = 8 fits 8"},
      {{{"cluster.devices", "128"}, {"parallel.tensor", "8"}, {"parallel.pipeline", "5"}},
       "E210",
       "8 x 5 = 40 does not divide 128 devices",
       "pipeline = 4 gives data 4"},
      {{{"parallel.tensor", "16"}},
       "E210",
       "16 does not divide 8 devices",
       "tensor = 8 gives data 1"},
      {{{"cluster.device", "\"4xh100\""}},
       "E210",
       "devices is 8, device says 4",
       "leave out the 4"},
      // The batch (figure 17).
      {{{"training.global_batch", "4"}},
       "E211",
       "global_batch 4 is less than micro_batch 1 x data 8",
       "global_batch = 8"},
      {{{"training.global_batch", "20"}},
       "E211",
       "1 x 8 does not divide global_batch 20",
       "global_batch = 16 or 24 fits"},
      {{{"training.global_batch", "64"},
        {"training.micro_batch", "1"},
        {"training.gradient_accumulation", "4"}},
       "E211",
       "1 x 4 x 8 = 32 is not global_batch 64",
       "gradient_accumulation = 8 keeps 64"},
      {{{"training.micro_batch", "900_000_000_000_000"},
        {"training.gradient_accumulation", "900_000_000_000_000"}},
       "E107",
       "global_batch would be more than",
       ""},
      // What the model allows.
      {{{"model", "\"gpt2\""}, {"engine", "\"megatron\""}, {"parallel.tensor", "8"}},
       "E212",
       "tensor 8 does not divide 12 heads",
       "tensor = 3, 4, 6 or 12 fits"},
      {{{"engine", "\"fsdp2\""}, {"parallel.tensor", "16"}, {"cluster.devices", "16"}},
       "E212",
       "tensor 16 does not divide 8 key/value heads",
       "8"},
      {{{"engine", "\"megatron\""}, {"cluster.devices", "5"}, {"parallel.pipeline", "5"}},
       "E213",
       "5 stages do not divide 32 layers",
       "pipeline = 1, 2, 4, 8, 16 or 32"},
      {{{"engine", "\"megatron\""}, {"cluster.devices", "64"}, {"parallel.pipeline", "64"}},
       "E213",
       "pipeline 64 is more than 32 layers",
       "pipeline = 32"},
      {{{"engine", "\"megatron\""},
        {"parallel.pipeline", "2"},
        {"parallel.pipeline_layout", "[16, 15]"}},
       "E213",
       "pipeline_layout sums to 31, the model has 32 layers",
       ""},
      {{{"engine", "\"megatron\""},
        {"parallel.pipeline", "2"},
        {"parallel.pipeline_layout", "[32]"}},
       "E213",
       "pipeline_layout has 1 stages, pipeline is 2",
       ""},
      {{{"engine", "\"megatron\""},
        {"parallel.pipeline", "2"},
        {"parallel.virtual_pipeline", "2"},
        {"parallel.schedule", "\"1f1b\""}},
       "E213",
       "1f1b has no virtual_pipeline 2",
       "interleaved"},
      {{{"parallel.expert", "2"}}, "E215", "expert 2 for a model without experts", "expert = 1"},
      {{{"model", "\"mixtral-8x7b\""}, {"parallel.expert", "3"}},
       "E215",
       "expert 3 does not divide 8 experts",
       ""},
      // What the engine allows.
      {{{"engine", "\"ddp\""}, {"parallel.zero_stage", "3"}},
       "E216",
       "ddp has no zero_stage 3",
       "fsdp2"},
      {{{"engine", "\"fsdp2\""}, {"parallel.zero_stage", "1"}},
       "E216",
       "fsdp2 has no zero_stage 1",
       ""},
      {{{"engine", "\"nanotron\""}, {"parallel.zero_stage", "2"}},
       "E216",
       "nanotron has no zero_stage 2",
       ""},
      {{{"engine", "\"deepspeed\""}, {"parallel.zero_stage", "2"}, {"parallel.pipeline", "2"}},
       "E216",
       "deepspeed has no zero_stage 2 with a pipeline",
       "zero_stage = 1"},
      {{{"engine", "\"megatron\""}, {"implementation", "\"transformers\""}},
       "E216",
       "megatron does not run the code of transformers",
       ""},
      {{{"engine", "\"ddp\""}, {"parallel.replicate", "2"}},
       "E216",
       "ddp has no replicas of shards",
       ""},
      {{{"parallel.replicate", "3"}}, "E216", "replicate 3 does not divide data 8", ""},
      {{{"parallel.reshard_after_forward", "\"never\""}, {"parallel.zero_stage", "3"}},
       "E216",
       "reshard_after_forward says zero_stage 2",
       "zero_stage = 2"},
      {{{"engine", "\"ddp\""}, {"parallel.tensor", "2"}},
       "E217",
       "ddp has no tensor parallelism",
       "fsdp2, deepspeed, megatron"},
      {{{"engine", "\"fsdp1\""}, {"parallel.pipeline", "2"}},
       "E217",
       "fsdp1 has no pipeline",
       "megatron"},
      // Sequences.
      {{{"engine", "\"megatron\""}, {"parallel.tensor", "8"}, {"training.sequence_length", "100"}},
       "E218",
       "sequence_length 100 is not a multiple of 8",
       "sequence_length = 96 or 104 fits"},
      {{{"model", "\"gpt2\""}, {"training.sequence_length", "4096"}},
       "E218",
       "sequence_length 4096 is more than the 1024 positions",
       "1024 is the most"},
      // Recomputation.
      {{{"recompute.mode", "\"every\""}}, "E108", "mode every without recompute.every", ""},
      {{{"recompute.mode", "\"every\""}, {"recompute.every", "33"}},
       "E219",
       "every 33 of 32 layers",
       ""},
      {{{"recompute.mode", "\"block\""}, {"recompute.layers", "40"}},
       "E219",
       "40 layers of a stage of 32",
       "full"},
      {{{"recompute.modules", "[\"experts\"]"}}, "E219", "recompute of experts: there is none", ""},
      // Kernels and forms.
      {{{"training.precision", "\"fp32\""}, {"training.attention", "\"flash\""}},
       "E220",
       "flash attention does not compute in fp32",
       "attention = \"efficient\""},
      {{{"training.optimizer", "\"lion\""}, {"training.optimizer_form", "\"fused\""}},
       "E221",
       "lion has no fused form",
       ""},
      // Known, not weighed yet.
      {{{"engine", "\"megatron\""}, {"parallel.pipeline", "2"}, {"parallel.virtual_pipeline", "2"}},
       "E320",
       "not weighed yet: the interleaved schedule",
       "1f1b"},
      {{{"parallel.schedule", "\"zb-h1\""}, {"parallel.pipeline", "2"}},
       "E320",
       "not weighed yet: zero-bubble",
       ""},
      {{{"parallel.schedule", "\"looped-bfs\""}}, "E320", "not weighed yet: the looped", ""},
      {{{"parallel.context", "2"}}, "E320", "not weighed yet: context parallelism", ""},
      {{{"model", "\"mixtral-8x7b\""}, {"parallel.expert", "8"}},
       "E320",
       "not weighed yet: expert parallelism",
       ""},
      {{{"adapter.rank", "16"}}, "E320", "not weighed yet: adapters", "all weights"},
      {{{"training.frozen", "[\"embed*\"]"}}, "E222", "no tensor is called \"embed*\"", "letters"},
      {{{"training.frozen", "[\"*\"]"}}, "E223", "nothing is left to train", "less"},
      {{{"engine", "\"deepspeed\""},
        {"parallel.pipeline", "2"},
        {"training.frozen", "[\"model.embed_tokens.*\", \"model.layers.*\"]"}},
       "E223",
       "nothing is left to train on pipeline stage 0",
       "pipeline_layout"},
      {{{"training.loss", "\"chunked\""}, {"parallel.tensor", "2"}},
       "E320",
       "not weighed yet: chunked and fused losses",
       "plain"},
      {{{"offload.optimizer", "\"cpu\""}},
       "E320",
       "not weighed yet: offload of the optimizer",
       "none"},
      {{{"training.precision", "\"fp8-delayed\""}},
       "E320",
       "not weighed yet: 8-bit matrix products",
       "bf16-mixed"},
      {{{"engine", "\"megatron\""}, {"parallel.zero_stage", "3"}},
       "E320",
       "not weighed yet: Megatron-FSDP",
       ""},
      {{{"wrap.policy", "\"size\""}}, "E320", "not weighed yet: wrap.policy = \"size\"", "block"},
      {{{"training.method", "\"dpo\""}},
       "E320",
       "not weighed yet: training.method = \"dpo\"",
       "pretrain"},
  };
  return cases;
}

TEST(ReadJob, SaysWhatIsWrong) {
  for (const Wrong& wrong : wrong_runs()) {
    const std::string text = run_with(wrong.changes);
    SCOPED_TRACE(text);
    const auto job = job_of(text);
    ASSERT_FALSE(job);
    const auto found =
        std::find_if(job.error().begin(), job.error().end(), [&](const Diagnostic& problem) {
          return problem.code == wrong.code && problem.message.starts_with(wrong.message);
        });
    ASSERT_NE(found, job.error().end()) << job.error()[0].code << " " << job.error()[0].message;
    EXPECT_NE(found->help.find(wrong.help), std::string::npos) << found->help;
    EXPECT_EQ(found->place.source, "run.toml");
    EXPECT_FALSE(found->label.empty());
    for (const Diagnostic& problem : job.error())
      EXPECT_EQ(problem.message.find("invalid"), std::string::npos);
  }
}

}  // namespace
}  // namespace steelyard
