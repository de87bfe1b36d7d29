#include "job/read.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "job/run_text.h"

namespace steelyard {
namespace {

const Assumption* assumed(const Job& job, std::string_view key) {
  const auto found = std::find_if(job.assumptions.begin(), job.assumptions.end(),
                                  [&](const Assumption& a) { return a.key == key; });
  return found == job.assumptions.end() ? nullptr : &*found;
}

TEST(ReadJob, TheContractsExample) {
  const auto job = job_of(R"(
model  = "llama-3.1-8b"
engine = "fsdp2"
implementation = "transformers"
[cluster]
device = "h100-sxm-80gb"
devices = 8
devices_per_node = 8
[training]
sequence_length = 8192
micro_batch = 1
global_batch = 64
precision = "bf16-mixed"
optimizer = "adamw"
optimizer_form = "fused"
attention = "flash"
loss = "plain"
compile = false
[parallel]
data = 8
zero_stage = 3
replicate = 1
tensor = 1
sequence_parallel = true
context = 1
context_method = "ring"
pipeline = 1
virtual_pipeline = 1
schedule = "1f1b"
expert = 1
expert_tensor = 1
[recompute]
mode = "none"
[offload]
optimizer = "none"
parameters = "none"
activations = "none"
[checkpoint]
save = "sharded"
)");
  ASSERT_TRUE(job) << job.error()[0].message;
  EXPECT_EQ(job->model->layers, 32);
  EXPECT_EQ(job->engine, Engine::kFsdp2);
  EXPECT_EQ(job->training.gradient_accumulation, 8);
  EXPECT_EQ(job->training.optimizer_form, OptimizerForm::kFused);
  EXPECT_EQ(job->parallel.zero_stage, 3);
  EXPECT_FALSE(job->parallel.sequence_parallel);  // nothing to divide with tensor 1
  EXPECT_EQ(job->parallel.stage_layers, std::vector{Layers(32)});
  EXPECT_TRUE(job->warnings.empty());
  EXPECT_NE(assumed(*job, "training.gradient_accumulation"), nullptr);
  EXPECT_EQ(assumed(*job, "training.precision"), nullptr);
}

TEST(ReadJob, EveryDefaultIsAnAssumption) {
  const auto job = job_of(run_with({}));
  ASSERT_TRUE(job) << job.error()[0].message;
  for (const char* key :
       {"engine", "implementation", "cluster.devices_per_node", "training.sequence_length",
        "training.micro_batch", "training.global_batch", "training.precision", "training.optimizer",
        "training.optimizer_form", "training.attention", "training.loss", "parallel.data",
        "parallel.tensor", "parallel.pipeline", "parallel.zero_stage", "recompute.mode",
        "checkpoint.save"}) {
    const Assumption* found = assumed(*job, key);
    ASSERT_NE(found, nullptr) << key;
    EXPECT_FALSE(found->reason.empty()) << key;
  }
}

TEST(ReadJob, AllProblemsAtOnceAndInOrder) {
  const auto job = job_of(
      "engine = \"fsdp3\"\n[cluster]\ndevice = \"quertz\"\ndevices = 7\n[training]\nfoo = "
      "1\nmicro_batch = 0\n[parallel]\ntensor = 2\n");
  ASSERT_FALSE(job);
  std::vector<std::string> codes;
  for (const Diagnostic& problem : job.error()) codes.push_back(problem.code);
  EXPECT_EQ(codes, (std::vector<std::string>{"E108", "E106", "E111", "E104", "E107", "E210"}));
}

TEST(ReadJob, LenientSpellings) {
  const auto job = job_of(R"(
model = "meta-llama/Llama-3.1-8B"
recompute = "full"
[cluster]
device = "16 x H100 SXM"
[training]
seq_len = "8k"
micro_batch = 2.0
precision = "BF16"
attention = "flash_attention_2"
[parallel]
TP = 8
dp = 2
engine_note = 0
)");
  ASSERT_FALSE(job);
  ASSERT_EQ(job.error().size(), 1U) << job.error()[1].message;
  EXPECT_EQ(job.error()[0].code, "E104");

  const auto right = job_of(
      "model = \"meta-llama/Llama-3.1-8B\"\nrecompute = \"full\"\n[cluster]\ndevice = \"16 x H100 "
      "SXM\"\n[training]\n"
      "seq_len = \"8k\"\nmicro_batch = 2.0\nprecision = \"BF16\"\nattention = "
      "\"flash_attention_2\"\n[parallel]\nTP = 8\ndp = 2\n");
  ASSERT_TRUE(right) << right.error()[0].message;
  EXPECT_EQ(right->cluster.device->name, "h100-sxm-80gb");
  EXPECT_EQ(right->cluster.devices, 16);
  EXPECT_EQ(right->training.sequence_length, 8192);
  EXPECT_EQ(right->training.precision.name, "bf16-mixed");
  EXPECT_EQ(right->training.attention, AttentionKernel::kFlash);
  EXPECT_EQ(right->parallel.tensor, 8);
  EXPECT_TRUE(right->parallel.sequence_parallel);
  EXPECT_EQ(right->recompute.mode, RecomputeMode::kFull);
  for (const char* key : {"model", "cluster.device", "training.sequence_length",
                          "training.precision", "training.attention"})
    EXPECT_NE(assumed(*right, key), nullptr) << key;
}

TEST(ReadJob, FlagsOverlayTheFile) {
  Value document = *read_toml(run_with({{"parallel.tp", "2"}}), "run.toml");
  const Place flag{"--tensor", 0, 0, {}, 0};
  set_path(document, "parallel.tensor", Value::string("4"), flag);
  set_path(document, "training.sequence_length", Value::string("16k"), flag);
  set_path(document, "recompute.modules", Value::string("core_attention,mlp"), flag);
  set_path(document, "training.compile", Value::string("off"), flag);
  const auto job = read_job(document);
  ASSERT_TRUE(job) << job.error()[0].message;
  EXPECT_EQ(job->parallel.tensor, 4);
  EXPECT_EQ(job->training.sequence_length, 16384);
  EXPECT_EQ(job->recompute.mode, RecomputeMode::kModules);
  EXPECT_EQ(job->recompute.modules.size(), 2U);

  set_path(document, "parallel.tensor", Value::string("0"), flag);
  const auto wrong = read_job(document);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error()[0].place.source, "--tensor");
}

TEST(ReadJob, ModelsFromTablesFilesAndSizes) {
  const char* config =
      "{\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 64, "
      "\"num_attention_heads\": 4, "
      "\"intermediate_size\": 128, \"vocab_size\": 1000}";
  const std::string cluster = ", \"cluster\": {\"device\": \"a100\"}}";
  const auto inline_table =
      read_job(*read_json(std::string("{\"model\": ") + config + cluster, "<jobs>:1"));
  ASSERT_TRUE(inline_table) << inline_table.error()[0].message;
  EXPECT_EQ(inline_table->model->layers, 2);

  JobContext context;
  context.folder = "runs";
  std::vector<std::string> asked;
  context.read_file = [&](const std::string& path) -> tl::expected<std::string, std::string> {
    asked.push_back(path);
    if (path == "runs/tiny/config.json") return std::string(config);
    if (path == "runs/broken.json") return std::string("{\"model_type\": ");
    return tl::unexpected(std::string("no such file"));
  };
  for (const char* model : {"./tiny", "tiny/config.json", "./tiny/", "tiny"}) {
    const auto job = job_of(run_with({{"model", "\"" + std::string(model) + "\""}}), context);
    ASSERT_TRUE(job) << model << ": " << job.error()[0].message;
    EXPECT_EQ(job->model->layers, 2);
    EXPECT_EQ(job->model->name, "tiny");
  }
  const auto missing = job_of(run_with({{"model", "\"./nothing/config.json\""}}), context);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error()[0].code, "E100");
  EXPECT_EQ(missing.error()[0].message, "runs/nothing/config.json: no such file");
  const auto broken = job_of(run_with({{"model", "\"broken.json\""}}), context);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error()[0].code, "E101");
  EXPECT_EQ(broken.error()[0].place.source, "runs/broken.json");

  const auto guess = job_of(run_with({{"model", "\"7B\""}}));
  ASSERT_TRUE(guess);
  EXPECT_TRUE(guess->model->guessed);
  EXPECT_EQ(assumed(*guess, "model")->value, "a guess");
}

TEST(ReadJob, BatchIsDerivedFromWhatIsGiven) {
  const struct {
    std::map<std::string, std::string> changes;
    std::int64_t micro, accumulation, global;
  } cases[] = {
      {{}, 1, 1, 8},
      {{{"training.global_batch", "64"}}, 1, 8, 64},
      {{{"training.global_batch", "64"}, {"training.micro_batch", "2"}}, 2, 4, 64},
      {{{"training.global_batch", "64"}, {"training.gradient_accumulation", "2"}}, 4, 2, 64},
      {{{"training.micro_batch", "3"}, {"training.gradient_accumulation", "2"}}, 3, 2, 48},
      {{{"engine", "\"megatron\""}, {"parallel.pipeline", "4"}}, 1, 4, 8},
  };
  for (const auto& expected : cases) {
    const auto job = job_of(run_with(expected.changes));
    ASSERT_TRUE(job) << job.error()[0].message;
    EXPECT_EQ(job->training.micro_batch, expected.micro);
    EXPECT_EQ(job->training.gradient_accumulation, expected.accumulation);
    EXPECT_EQ(job->training.global_batch, expected.global);
  }
}

TEST(ReadJob, DevicesAreDerivedFromWhatIsGiven) {
  const auto figure = job_of(run_with({{"engine", "\"megatron\""},
                                       {"cluster.devices", "128"},
                                       {"parallel.tensor", "8"},
                                       {"parallel.pipeline", "4"}}));
  ASSERT_TRUE(figure) << figure.error()[0].message;
  EXPECT_EQ(figure->parallel.data, 4);
  const auto product = job_of(run_with({{"engine", "\"megatron\""},
                                        {"cluster.devices", ""},
                                        {"parallel.tensor", "2"},
                                        {"parallel.data", "3"}}));
  ASSERT_TRUE(product) << product.error()[0].message;
  EXPECT_EQ(product->cluster.devices, 6);
}

// Figure 21: any k from 1 to the layers is accepted.
TEST(ReadJob, EveryKthLayer) {
  for (int k = 1; k <= 32; ++k) {
    const auto job =
        job_of(run_with({{"recompute.mode", "\"every\""}, {"recompute.every", std::to_string(k)}}));
    ASSERT_TRUE(job) << k;
    EXPECT_EQ(job->recompute.every, k);
  }
}

TEST(ReadJob, EnginesHaveTheirOwnDefaults) {
  const struct {
    const char* engine;
    int stage;
    OptimizerForm form;
    Implementation implementation;
    std::int64_t multiple;
  } cases[] = {{"ddp", 0, OptimizerForm::kForeach, Implementation::kTransformers, 1},
               {"fsdp1", 3, OptimizerForm::kForeach, Implementation::kTransformers, 1},
               {"fsdp2", 3, OptimizerForm::kForeach, Implementation::kTransformers, 1},
               {"deepspeed", 0, OptimizerForm::kFused, Implementation::kTransformers, 1},
               {"megatron", 0, OptimizerForm::kFused, Implementation::kMegatron, 128},
               {"nanotron", 0, OptimizerForm::kFused, Implementation::kNanotron, 1},
               {"scaling", 0, OptimizerForm::kForeach, Implementation::kScaling, 1}};
  for (const auto& expected : cases) {
    SCOPED_TRACE(expected.engine);
    const auto job = job_of(run_with({{"engine", "\"" + std::string(expected.engine) + "\""}}));
    ASSERT_TRUE(job) << job.error()[0].message;
    EXPECT_EQ(name_of(job->engine), expected.engine);
    EXPECT_EQ(job->parallel.zero_stage, expected.stage);
    EXPECT_EQ(job->training.optimizer_form, expected.form);
    EXPECT_EQ(job->implementation, expected.implementation);
    EXPECT_EQ(job->training.vocabulary_multiple, expected.multiple);
  }
  const auto alone = job_of(run_with({{"cluster.devices", "1"}}));
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->engine, Engine::kDdp);
}

TEST(ReadJob, DevicesDecideKernelsAndTypes) {
  const auto old = job_of(run_with({{"cluster.device", "\"v100\""}}));
  ASSERT_TRUE(old);
  EXPECT_EQ(old->training.precision.name, "fp16-mixed");
  EXPECT_EQ(old->training.attention, AttentionKernel::kEfficient);
  const auto single = job_of(run_with({{"training.precision", "\"fp32\""}}));
  ASSERT_TRUE(single);
  EXPECT_EQ(single->training.attention, AttentionKernel::kEfficient);
  const auto bare = job_of(run_with({{"cluster.device", "\"24gb\""}, {"cluster.devices", ""}}));
  ASSERT_TRUE(bare);
  EXPECT_EQ(bare->cluster.device->capacity, Bytes((24_GiB).value() - (24_GiB).value() / 60));
  EXPECT_EQ(bare->cluster.devices, 1);
  EXPECT_GT(bare->cluster.device->context.value(), Checked(0));
}

TEST(ReadJob, MegatronTakesDropoutFromTheConfigOrNone) {
  const auto silent = job_of(
      R"({"model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000, "n_positions": 128},
    "engine": "megatron", "cluster": {"device": "a100"}})");
  ASSERT_TRUE(silent) << silent.error()[0].message;
  EXPECT_EQ(silent->training.hidden_dropout, 0.0);
  const auto stated = job_of(
      R"({"model": {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 1000, "n_positions": 128,
    "resid_pdrop": 0.1}, "engine": "megatron", "cluster": {"device": "a100"}})");
  ASSERT_TRUE(stated);
  EXPECT_EQ(stated->training.hidden_dropout, std::nullopt);
}

// What changes nothing is said, because whoever wrote it thinks that it does.
TEST(ReadJob, WarnsOfWhatHasNoEffect) {
  const auto job = job_of(run_with(
      {{"buckets.reduce", "1000"}, {"recompute.every", "4"}, {"recompute.mode", "\"full\""}}));
  ASSERT_TRUE(job) << job.error()[0].message;
  ASSERT_EQ(job->warnings.size(), 2U);
  EXPECT_EQ(job->warnings[0].severity, Severity::kWarning);
  EXPECT_EQ(job->warnings[0].message, "buckets.reduce is not used by fsdp2 with zero_stage 3");
  EXPECT_EQ(job->warnings[1].message, "recompute.every is not used by mode full");
}

TEST(ReadJob, NullMeansAbsent) {
  const auto job = job_of(
      R"({"model": "gpt2", "engine": null, "cluster": {"device": "a100", "devices": null}, "adapter": null})");
  ASSERT_TRUE(job) << job.error()[0].message;
  EXPECT_FALSE(job->adapter);
}

TEST(ReadJob, OtherKindsOfDocuments) {
  for (const char* text : {"[]", "3", "\"x\"", "null", "true", "{}", "[[[]]]"}) {
    const auto job = read_job(*read_json(text, "<jobs>:1"));
    ASSERT_FALSE(job) << text;
    EXPECT_EQ(job.error()[0].place.source, "<jobs>:1");
  }
}

}  // namespace
}  // namespace steelyard
