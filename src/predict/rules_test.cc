// Every slot names a rule that is written down, and every rule that is written down is some slot's reason.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"
#include "predict/explain.h"

namespace steelyard {
namespace {

struct EngineStage {
  const char* engine;
  int stage;
  bool divides;
};
constexpr std::array<EngineStage, 16> kEngines = {{{"ddp", 0, false},
                                                   {"ddp", 1, false},
                                                   {"fsdp1", 2, false},
                                                   {"fsdp1", 3, false},
                                                   {"fsdp2", 2, true},
                                                   {"fsdp2", 3, true},
                                                   {"deepspeed", 0, true},
                                                   {"deepspeed", 1, true},
                                                   {"deepspeed", 2, false},
                                                   {"deepspeed", 3, false},
                                                   {"megatron", 0, true},
                                                   {"megatron", 1, true},
                                                   {"nanotron", 0, true},
                                                   {"nanotron", 1, true},
                                                   {"scaling", 0, true},
                                                   {"scaling", 1, true}}};

// One for each arrangement, attention, mlp, norm, activation and way of starting and ending.
constexpr std::array kModels = {"llama-3.1-8b",   "gpt2",          "bert-base-uncased",
                                "bloom-560m",     "gemma-2-2b",    "gemma-3-1b",
                                "deepseek-v3",    "gpt-oss-20b",   "mixtral-8x7b",
                                "opt-125m",       "olmo-2-7b",     "falcon-7b",
                                "phi-2",          "qwen3-4b",      "glm-4.5-air",
                                "gpt-neox-20b",   "starcoder2-3b", "qwen1.5-moe-a2.7b",
                                "glm-4-9b-0414",  "gpt-j-6b",      "nemotron-4-15b",
                                "ministral-3-3b", "qwen3.5-0.8b",  "qwen3-next-80b-a3b"};

// What varies beside model and engine; each pair of the two above gets several.
constexpr std::array kPrecisions = {"bf16-mixed", "bf16-autocast", "bf16-mixed-fp32-gradients",
                                    "fp16-mixed", "bf16-pure",     "fp32"};
constexpr std::array kLosses = {"plain", "chunked", "fused-linear", "fused"};
constexpr std::array kOptimizers = {"adamw", "momentum", "muon", "adamw-8bit", "adafactor"};
constexpr std::array kForms = {"fused", "foreach", "loop"};
constexpr std::array kRecomputed = {R"({"mode": "none"})", R"({"mode": "full"})",
                                    R"({"mode": "selective"})",
                                    R"({"mode": "modules", "modules": ["norms"]})"};

constexpr std::array kAdapters = {
    R"({"method": "lora", "rank": 8, "dropout": 0.1, "target_modules": "all-linear"})",
    R"({"method": "dora", "rank": 8})", R"({"method": "lora", "base": "nf4"})",
    R"({"method": "lora", "base": "nf4", "double_quantization": true, "upcast": true})",
    R"({"method": "lora", "base": "int8"})"};

// Each kind of adapter and of base, in each precision.
void add_adapters(std::vector<Job>& jobs) {
  for (const char* adapter : kAdapters)
    for (const char* precision : kPrecisions) {
      const std::string text = fmt::format(
          R"({{"model": "llama-3.2-1b", "engine": "ddp", "cluster": {{"device": "h100-sxm-80gb"}},
             "training": {{"sequence_length": 512, "precision": "{}"}}, "adapter": {}}})",
          precision, adapter);
      if (ReadJob job = read_job(*read_json(text, "job"))) jobs.push_back(std::move(*job));
    }
}

// What one device alone runs.
void add_alone(std::vector<Job>& jobs) {
  const char* tower =
      R"({"model": "clip-vit-base-patch16-vision", "engine": "ddp", "cluster": {"device": "h100-sxm-80gb"}})";
  if (ReadJob job = read_job(*read_json(tower, "job"))) jobs.push_back(std::move(*job));
  for (const char* mode : {"none", "full", "autocast"}) {
    const bool autocast = mode == std::string_view("autocast");
    const std::string seeing = fmt::format(
        R"({{"model": "llava-1.5-7b", "engine": "ddp", "cluster": {{"device": "h200-sxm"}}, "recompute": {{"mode": "{}"}},
           "training": {{"frozen": ["*vision_tower*"], "micro_batch": 2, "precision": "{}"}}}})",
        autocast ? "none" : mode, autocast ? "bf16-autocast" : "bf16-pure");
    if (ReadJob job = read_job(*read_json(seeing, "job"))) jobs.push_back(std::move(*job));
  }
}

// What the product below does not meet: groups inside the product of devices (who shares a sequence, who the experts), and
// what only one engine has.
void add_named(std::vector<Job>& jobs) {
  // clang-format off
  constexpr std::array kNamed = {
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "parallel": {"context": 4, "context_method": "ring"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "training": {"sequence_length": 512, "method": "dpo"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "training": {"sequence_length": 512, "method": "dpo", "loss": "plain"})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "training": {"sequence_length": 512, "micro_batch": 2, "method": "orpo"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "training": {"sequence_length": 512, "method": "rm"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "training": {"sequence_length": 512, "method": "cpo"})",
      R"("model": "llama-3.1-8b", "engine": "fsdp1", "training": {"sequence_length": 512, "method": "grpo", "loss": "fused"}, "generation": {"engine": "elsewhere"})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "parallel": {"context": 2}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"context": 4}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"context": 4, "context_method": "allgather"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"context": 4, "context_method": "ulysses"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "deepspeed", "parallel": {"context": 4, "zero_stage": 3}, "training": {"sequence_length": 512})",
      R"("model": "deepseek-v3", "engine": "megatron", "parallel": {"expert": 8}, "experts": {"dispatcher": "all-to-all"}, "training": {"sequence_length": 512})",
      R"("model": "mixtral-8x7b", "engine": "megatron", "parallel": {"tensor": 2, "expert": 2}, "experts": {"dispatcher": "all-to-all"}, "training": {"sequence_length": 512})",
      R"("model": "mixtral-8x7b", "engine": "megatron", "parallel": {"tensor": 2, "expert": 4}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.2-1b", "engine": "ddp", "environment": {"transformers": "4.44"}, "training": {"sequence_length": 512, "micro_batch": 2})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "implementation": "torchtitan", "environment": {"torch": "2.6"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "implementation": "torchtitan", "environment": {"torch": "2.8"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"tensor": 2}, "training": {"sequence_length": 512, "attention": "eager", "kernels": "local"})",
      R"("model": "deepseek-v3", "engine": "megatron", "parallel": {"tensor": 2}, "training": {"sequence_length": 512, "prediction_layers": 1})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "cuda_graphs": "iteration", "parallel": {"zero_stage": 1}, "training": {"sequence_length": 512})",
      R"("model": "vit-base-patch16-224", "engine": "ddp", "training": {"precision": "bf16-pure"})",
      R"("model": "t5-small", "engine": "ddp", "training": {"attention": "eager", "sequence_length": 512})",
      R"("model": "siglip-so400m-patch14-896-gemma3", "engine": "ddp", "training": {"precision": "bf16-pure"})",
      R"("model": "clip-vit-base-patch32", "engine": "ddp", "training": {"precision": "bf16-pure", "micro_batch": 2})",
      R"("model": "clip-vit-base-patch32", "engine": "ddp", "training": {"attention": "eager", "micro_batch": 2})",
      R"("model": "t5-small", "engine": "ddp", "training": {"precision": "fp16-autocast", "optimizer_form": "fused"})",
      R"("model": "siglip-base-patch16-224", "engine": "ddp", "training": {"precision": "bf16-autocast", "micro_batch": 2})",
      R"("model": "t5-small", "engine": "ddp", "training": {"precision": "bf16-autocast", "sequence_length": 500}, "recompute": {"mode": "full"})",
      R"("model": "mixtral-8x7b", "engine": "nanotron", "parallel": {"tensor": 2}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "buckets": {"contiguous_gradients": false}, "training": {"sequence_length": 512})",
      R"("model": "mixtral-8x7b", "engine": "fsdp2", "implementation": "torchtitan", "parallel": {"expert": 4}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"tensor": 2}, "training": {"sequence_length": 512, "loss_parallel": false})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "training": {"sequence_length": 512, "loss": "fused"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "training": {"sequence_length": 512, "loss": "cut"})",
      R"("model": "qwen3-30b-a3b", "engine": "ddp", "adapter": {"rank": 8, "base": "nf4", "quantize_experts": true, "target_modules": ["q_proj", "v_proj"]}, "training": {"sequence_length": 512, "precision": "bf16-autocast"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "training": {"sequence_length": 512, "optimizer": "adamw-paged"})",
      R"("model": "mixtral-8x7b", "engine": "ddp", "adapter": {"rank": 8}, "training": {"sequence_length": 512, "precision": "bf16-autocast"})",
      R"("model": "llama-4-scout-17b-16e", "engine": "ddp", "training": {"sequence_length": 512, "precision": "bf16-pure", "attention": "efficient"})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "parallel": {"sync_each_micro_batch": false}, "training": {"sequence_length": 512, "precision": "bf16-mixed-fp32-gradients", "gradient_accumulation": 4})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "offload": {"parameters": "cpu"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "offload": {"activations": "cpu"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "deepspeed", "parallel": {"zero_stage": 2}, "offload": {"optimizer": "cpu"}, "training": {"sequence_length": 512, "gradient_accumulation": 2})",
      R"("model": "llama-3.1-8b", "engine": "deepspeed", "parallel": {"zero_stage": 2}, "overlap": {"reduce": true}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "deepspeed", "parallel": {"zero_stage": 3}, "offload": {"optimizer": "nvme", "parameters": "nvme"}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "deepspeed", "parallel": {"zero_stage": 3, "secondary_shard": 4}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"zero_stage": 1}, "offload": {"optimizer": "cpu", "optimizer_fraction": 0.5}, "training": {"sequence_length": 512})",
      R"("model": "mixtral-8x7b", "engine": "megatron", "parallel": {"expert": 2}, "training": {"sequence_length": 512, "precision": "mxfp8"})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "training": {"sequence_length": 512, "precision": "fp8-rowwise"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "implementation": "torchtune", "training": {"sequence_length": 512, "precision": "bf16-pure"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "implementation": "torchtune", "adapter": {"rank": 8, "base": "nf4", "target_modules": ["q_proj", "v_proj"]}, "training": {"sequence_length": 512, "precision": "bf16-pure", "loss": "chunked"})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"zero_stage": 1}, "types": {"parameters": "fp8"}, "training": {"sequence_length": 512, "precision": "fp8-tensorwise"})",
      R"("model": "llama-3.1-8b", "engine": "fsdp1", "implementation": "litgpt", "training": {"sequence_length": 512, "precision": "bf16-pure"})",
      R"("model": "llama-3.1-8b", "engine": "ddp", "implementation": "litgpt", "environment": {"bitsandbytes": "0.42"}, "adapter": {"rank": 8, "base": "nf4", "target_modules": ["q_proj", "v_proj"]}, "training": {"sequence_length": 512, "precision": "bf16-pure"})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"zero_stage": 3}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"zero_stage": 2}, "types": {"gradients": "bf16"}, "training": {"sequence_length": 512})",
      R"("model": "mixtral-8x7b", "engine": "megatron", "parallel": {"zero_stage": 3, "expert": 4}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"zero_stage": 3}, "buckets": {"double_buffer": true}, "training": {"sequence_length": 512})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"pipeline": 4, "vocabulary": "vocabulary-1"}, "training": {"sequence_length": 512, "gradient_accumulation": 8})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"pipeline": 4, "vocabulary": "vocabulary-2"}, "training": {"sequence_length": 512, "gradient_accumulation": 8})",
      R"("model": "llama-3.1-8b", "engine": "fsdp2", "parallel": {"pipeline": 2, "virtual_pipeline": 2, "schedule": "interleaved"}, "training": {"sequence_length": 512, "gradient_accumulation": 4})",
      R"("model": "llama-3.1-8b", "engine": "megatron", "parallel": {"zero_stage": 1}, "types": {"first_moment": "fp8"}, "training": {"sequence_length": 512, "precision": "bf16-mixed"})",
      R"("model": "llama-3.2-1b", "engine": "ddp", "environment": {"liger-kernel": "0.8.0"}, "training": {"sequence_length": 512, "precision": "bf16-mixed", "kernels": "liger", "loss": "fused-linear"})",
      R"("model": "gpt-oss-20b", "engine": "megatron", "parallel": {"expert": 4}, "experts": {"dispatcher": "all-to-all"}, "training": {"sequence_length": 512})",
  };
  // clang-format on
  const std::string alone =
      R"({"model": "llama-3.2-1b", "engine": "ddp", "cluster": {"device": "h100-sxm-80gb"},
          "training": {"sequence_length": 512, "precision": "bf16-pure", "optimizer_in_backward": true}})";
  jobs.push_back(*read_job(*read_json(alone, "job")));
  const std::string in_few_bits =
      R"({"model": "llama-3.2-1b", "engine": "deepspeed",
          "cluster": {"device": "h100-sxm-80gb", "devices": 16, "devices_per_node": 8},
          "parallel": {"zero_stage": 3, "quantized_gather": true, "quantized_reduce": true},
          "training": {"sequence_length": 512}})";
  jobs.push_back(*read_job(*read_json(in_few_bits, "job")));
  for (const char* named : kNamed) {
    const std::string text =
        fmt::format(R"({{{}, "cluster": {{"device": "h100-sxm-80gb", "devices": 8}}}})", named);
    ReadJob job = read_job(*read_json(text, "job"));
    if (job)
      jobs.push_back(std::move(*job));
    else
      ADD_FAILURE() << job.error().front().message << "\n" << text;
  }
}

std::vector<Job> spread() {
  std::vector<Job> jobs;
  add_adapters(jobs);
  std::size_t turn = 0;
  for (const char* model : kModels)
    for (const EngineStage& engine : kEngines)
      for (int variant = 0; variant < 6; ++variant, ++turn) {
        // Steps of different lengths, so that every two values meet somewhere.
        const auto pick = [&](const auto& list, std::size_t step) {
          return list[(turn / step + turn) % list.size()];
        };
        const std::string precision = pick(kPrecisions, 5);
        const char* attention = variant % 3 == 0                      ? "eager"
                                : precision == "fp32" || variant == 1 ? "efficient"
                                : variant == 5 && turn % 12 == 5      ? "cudnn"
                                                                      : "flash";
        const bool divided = engine.divides && variant % 2 == 0;
        const std::string text = fmt::format(
            R"({{"model": "{}", "engine": "{}", "cluster": {{"device": "h100-sxm-80gb", "devices": {}}},
               "parallel": {{"zero_stage": {}, "tensor": {}, "pipeline": {}, "sequence_parallel": {}, "data": 2}},
               "training": {{"sequence_length": {}, "micro_batch": 8, "gradient_accumulation": 2, "precision": "{}",
                             "optimizer": "{}", "loss": "{}", "attention": "{}"{}{}}},
               "recompute": {}, "checkpoint": {{"save": "{}"}}}})",
            model, engine.engine, divided ? 4 : 2, engine.stage, divided && variant != 4 ? 2 : 1,
            divided && variant == 4 ? 2 : 1, variant == 0,
            std::string_view(model) == "gemma-3-1b" ? 1'024 : 512,  // longer than its window
            precision, pick(kOptimizers, 11), pick(kLosses, 3), attention,
            variant < 3 ? fmt::format(R"(, "optimizer_form": "{}")", pick(kForms, 2)) : "",
            variant == 5   ? R"(, "dropout": 0.1)"
            : variant == 1 ? R"(, "frozen": ["*.1.*"])"
            : variant == 0 ? R"(, "gradient_clip": 1.0)"
            : variant == 2 ? R"(, "kernels": "liger")"
            : variant == 4 ? R"(, "compile": true)"
                           : "",
            pick(kRecomputed, 5), variant % 2 == 0 ? "full-rank0" : "sharded");
        // Some of the combinations do not exist (a form that an optimizer lacks ...); the rest suffice.
        if (ReadJob job = read_job(*read_json(text, "job"))) jobs.push_back(std::move(*job));
      }
  add_named(jobs);
  add_alone(jobs);
  return jobs;
}
struct Use {
  std::set<std::string> unexplained;  // "owner / name: rule"
  std::map<std::string, int> of_rule;
};

const Use& use() {
  static const Use all = [] {
    Use found;
    for (const Job& job : spread()) {
      StagePrograms<Checked> stages(job);
      for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) stages.build(stage);
      for (std::int64_t stage = 0; stage < job.parallel.pipeline; ++stage) {
        const HostMemory host = stages.host(stage);
        for (const HostHolding& holding : host.holdings()) {
          ++found.of_rule[holding.rule];
          if (find_rule(holding.rule) == nullptr)
            found.unexplained.insert(fmt::format("{}: {}", holding.name, holding.rule));
        }
      }
      const Program& program = stages.program();
      for (std::size_t i = 0; i < program.slot_count(); ++i) {
        const Slot& slot = program.slot_at(static_cast<SlotId>(i));
        ++found.of_rule[slot.rule];
        if (find_rule(slot.rule) == nullptr)
          found.unexplained.insert(fmt::format("{} / {}: {}", slot.owner, slot.name, slot.rule));
      }
    }
    return found;
  }();
  return all;
}

TEST(Rules, TheSpreadIsWide) { EXPECT_GE(spread().size(), 1'000U); }

TEST(Rules, EverySlotNamesOne) {
  for (const std::string& slot : use().unexplained) ADD_FAILURE() << slot;
}

// Of what is no tensor: segments of the allocator, blocks of page-locked memory.
const std::set<std::string> kOfBlocks = {"allocator.segments", "host.pinned-block"};

TEST(Rules, EachIsSomeSlotsReason) {
  for (const Rule& rule : rules()) {
    if (kOfBlocks.contains(rule.id)) continue;
    EXPECT_NE(use().of_rule.count(rule.id), 0U) << rule.id;
  }
}

TEST(Rules, AreSentencesWithSources) {
  std::set<std::string> seen;
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(seen.insert(rule.id).second) << rule.id << " is written twice";
    EXPECT_GE(rule.sentence.size(), 30U) << rule.id;
    EXPECT_TRUE(rule.sentence.ends_with(".")) << rule.id;
    EXPECT_GE(rule.source.size(), 8U) << rule.id;
    EXPECT_NE(rule.id.find('.'), std::string::npos) << rule.id;
  }
  EXPECT_GE(seen.size(), 100U);
}

TEST(Rules, AreFoundByTheirName) {
  const Rule* rule = find_rule("op.silu.saved-input");
  ASSERT_NE(rule, nullptr);
  EXPECT_NE(rule->source.find("derivatives.yaml"), std::string::npos);
  EXPECT_EQ(find_rule("op.silu"), nullptr);
  EXPECT_EQ(find_rule(""), nullptr);
}

}  // namespace
}  // namespace steelyard
