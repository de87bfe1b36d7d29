// What is written is read again: import(export(x)) = x for everything that a format can say.
#include "formats/launch/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "document/read.h"
#include "document/render.h"
#include "formats/launch/arguments.h"
#include "formats/launch/shell.h"

namespace steelyard {
namespace {

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  bool heads() { return number(2) == 0; }
  std::size_t number(std::size_t sides) { return engine_() % sides; }
  std::string one_of(std::initializer_list<const char*> words) {
    return *(words.begin() + number(words.size()));
  }
  std::int64_t count(std::initializer_list<std::int64_t> counts) {
    return *(counts.begin() + number(counts.size()));
  }

 private:
  std::mt19937 engine_;
};

void put(Value& run, std::string_view key, Value value) {
  set_path(run, key, std::move(value), Place{});
}
void put(Value& run, std::string_view key, const std::string& word) {
  put(run, key, Value::string(word));
}
void put(Value& run, std::string_view key, std::int64_t count) {
  put(run, key, Value::integer(count));
}

// A run that this target could launch, keys drawn at random.
Value random_run(std::string_view target, Dice& dice) {
  Value run = Value::table();
  const bool own_engine = target == "deepspeed" || target == "megatron" || target == "nanotron";
  put(run, "model", dice.one_of({"llama-3.1-8b", "llama-3.1-70b"}));
  std::string engine(target);
  if (target == "torchtitan" || target == "fsdp2")
    engine = "fsdp2";
  else if (!own_engine)
    engine = dice.one_of({"ddp", "fsdp1", "fsdp2", "deepspeed"});
  put(run, "engine", engine);
  if (target == "torchtitan") put(run, "implementation", std::string("torchtitan"));
  const bool meshed = target == "megatron" || target == "nanotron" || target == "torchtitan";
  const std::int64_t tensor = meshed ? dice.count({1, 2, 4}) : 1;
  const std::int64_t pipeline = meshed && target != "torchtitan" ? dice.count({1, 2}) : 1;
  const std::int64_t data = dice.count({2, 4, 8});
  put(run, "cluster.device", std::string("h100-sxm-80gb"));
  put(run, "cluster.devices", data * tensor * pipeline);
  put(run, "cluster.devices_per_node", std::min<std::int64_t>(data * tensor * pipeline, 8));
  put(run, "training.sequence_length", dice.count({512, 2048, 8192}));
  put(run, "training.micro_batch", dice.count({1, 2, 4}));
  if (target != "megatron")
    put(run, "training.gradient_accumulation", dice.count({1, 2, 8}));
  else
    put(run, "training.global_batch", data * 4 * dice.count({1, 4}));
  put(run, "training.optimizer",
      engine == "deepspeed" || engine == "ddp" || engine == "fsdp1"
          ? dice.one_of({"adamw", "adamw-8bit", "lion"})
          : std::string("adamw"));
  if (target != "megatron") put(run, "training.attention", std::string("flash"));
  put(run, "training.gradient_clip",
      dice.number(3) == 0 ? Value::boolean(false) : Value::number(dice.heads() ? 1.0 : 0.5));
  if (engine == "ddp")
    put(run, "training.precision",
        dice.one_of({"bf16-autocast", "fp16-autocast", "bf16-pure", "fp32"}));
  else if (engine == "deepspeed")
    put(run, "training.precision",
        dice.one_of({"bf16-mixed", "fp16-mixed", "bf16-mixed-fp32-gradients"}));
  else if (target == "megatron")
    put(run, "training.precision",
        dice.one_of({"bf16-mixed-fp32-gradients", "fp16-mixed"}));  // bf16-mixed is the same there
  else if (target == "nanotron")
    put(run, "training.precision", dice.one_of({"bf16-mixed-fp32-gradients", "bf16-pure", "fp32"}));
  else
    put(run, "training.precision", dice.one_of({"bf16-mixed", "bf16-pure", "fp32"}));
  put(run, "recompute.mode",
      target == "torchtitan" ? dice.one_of({"none", "full", "operators"})
                             : dice.one_of({"none", "full"}));
  if (meshed) {
    put(run, "parallel.tensor", tensor);
    put(run, "parallel.pipeline", pipeline);
    if (target != "torchtitan" && tensor > 1)
      put(run, "parallel.sequence_parallel", Value::boolean(dice.heads()));
  }
  if (target == "megatron" && pipeline == 2 && dice.heads()) {
    const std::int64_t layers = word_of(*run.find("model")) == "llama-3.1-8b" ? 32 : 80;
    const std::int64_t first = layers / 2 - dice.count({0, 1, 5});
    put(run, "parallel.pipeline_layout",
        Value::array({Value::integer(first), Value::integer(layers - first)}));
  }
  if (engine == "deepspeed") put(run, "parallel.zero_stage", dice.count({1, 2, 3}));
  if (engine == "fsdp1" || engine == "fsdp2") put(run, "parallel.zero_stage", dice.count({2, 3}));
  if (target == "megatron" || target == "nanotron")
    put(run, "parallel.zero_stage", dice.count({0, 1}));
  if (target == "megatron" && word_of(*run.at("training.precision")).starts_with("bf16") &&
      word_of(*run.at("parallel.zero_stage")) == "1" && dice.heads()) {
    put(run, "types.master", std::string("fp32"));
    put(run, "types.first_moment", dice.one_of({"fp32", "bf16", "fp16", "fp8"}));
    put(run, "types.second_moment", dice.one_of({"fp32", "bf16"}));
  }
  if (engine == "deepspeed" && dice.heads())
    put(run, "buckets.reduce", dice.count({100'000'000, 500'000'000}));
  if (target == "megatron" && dice.heads()) put(run, "training.hidden_dropout", Value::number(0.1));
  if (target == "megatron" && dice.heads())
    put(run, "training.attention_dropout", Value::number(0.0));
  const bool trainer = target == "accelerate" || target == "axolotl" || target == "llama-factory";
  if (trainer && dice.heads()) {
    put(run, "adapter.method", dice.one_of({"lora", "dora"}));
    put(run, "adapter.rank", dice.count({8, 16, 64}));
    if (dice.heads())
      put(run, "adapter.target_modules", std::string("all-linear"));
    else
      put(run, "adapter.target_modules",
          Value::array({Value::string("q_proj"), Value::string("v_proj")}));
    if (dice.heads()) {
      put(run, "adapter.base", std::string("nf4"));
      put(run, "adapter.double_quantization", Value::boolean(dice.heads()));
    }
  }
  // Axolotl loads 16 bits of what is trained whole, which DDP and FSDP2 keep: it has no word for fp32 weights beside bf16.
  const std::string precision = word_of(*run.at("training.precision"));
  if (target == "axolotl" && run.at("adapter.method") == nullptr &&
      (precision == "bf16-autocast" || (engine == "fsdp2" && precision == "bf16-mixed")))
    put(run, "training.precision", std::string("bf16-pure"));
  // And LLaMA-Factory keeps the checkpoint's 16 bits beside an adapter.
  if (target == "llama-factory" && run.at("adapter.method") != nullptr && precision == "fp32")
    put(run, "training.precision", std::string("bf16-pure"));
  return run;
}

// The keys of `run` that `again` says otherwise.
std::string differences(const Value& run, const Value& again, const Exported& exported,
                        bool sizes) {
  std::string text;
  const auto compare = [&](const std::string& key, const Value& value) {
    if (sizes && key == "model") return;
    for (const ConfigWriter::Loss& loss : exported.losses)
      if (loss.key == key) return;
    const Value* other = again.at(key);
    if (other != nullptr && value.is_number() && other->is_number() &&
        value.as_number() == other->as_number())
      return;
    if (other == nullptr || shown(*other) != shown(value))
      text += key + " = " + shown(value) + " became " +
              (other == nullptr ? "nothing" : shown(*other)) + "\n";
  };
  for (const Value::Member& section : run.members())
    if (section.value.is_table())
      for (const Value::Member& member : section.value.members())
        compare(section.key + "." + member.key, member.value);
    else
      compare(section.key, section.value);
  return text;
}

class RoundTrip : public testing::TestWithParam<std::string_view> {};

TEST_P(RoundTrip, WhatIsExportedIsImportedAsItWas) {
  Dice dice(7);
  int written = 0;
  for (int i = 0; i < 200; ++i) {
    const Value run = random_run(GetParam(), dice);
    for (const bool slurm : {false, true}) {
      ExportChoice choice;
      choice.slurm = slurm;
      const Exported exported = export_launch(run, GetParam(), choice);
      if (!exported.problems.empty()) continue;
      ++written;
      const Imported imported = import_launch(exported.script, "launch.sh");
      ASSERT_FALSE(imported.failed()) << render(imported.problems, "") << exported.script;
      const bool sizes = GetParam() == "megatron" || GetParam() == "nanotron";
      ASSERT_EQ(differences(run, imported.run, exported, sizes), "") << exported.script;
      // And what was imported is a fixed point.
      const Exported second = export_launch(imported.run, GetParam(), choice);
      ASSERT_TRUE(second.problems.empty()) << render(second.problems, "") << exported.script;
      const Imported third = import_launch(second.script, "launch.sh");
      ASSERT_EQ(differences(imported.run, third.run, second, false), "")
          << exported.script << second.script;
    }
  }
  EXPECT_GT(written, 60);
}

INSTANTIATE_TEST_SUITE_P(Targets, RoundTrip,
                         testing::ValuesIn(std::vector<std::string_view>(export_targets().begin(),
                                                                         export_targets().end())),
                         [](const auto& target) {
                           std::string name(target.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Shell, VariablesArraysAndArithmeticAreFollowed) {
  const ShellScript script = read_shell(
      "G=8\nN=${NNODES:-2}\nW=$((G * N))\nA=(--a 1 # no\n  --b \"two words\")\nA+=(--w $W)\n"
      "torchrun --nnodes $N train.py \"${A[@]}\" --data $DATA\n",
      "job.sh");
  ASSERT_EQ(script.commands.size(), 1U);
  std::string words;
  for (const Value& word : script.commands[0].words) words += word.as_string() + "|";
  EXPECT_EQ(words, "torchrun|--nnodes|2|train.py|--a|1|--b|two words|--w|16|--data|${DATA}|");
  EXPECT_EQ(script.commands[0].words[4].place().line, 4);
}

std::string words_of(const ShellCommand& command) {
  std::string words;
  for (const Value& word : command.words) words += word.as_string() + "|";
  return words;
}

TEST(Shell, TestsThatAreJoinedAreFollowed) {
  const auto taken = [](const std::string& condition) {
    const ShellScript script = read_shell(
        "A=${3:-\"MOCK\"}\nif " + condition + "; then\necho yes\nelse\necho no\nfi\n", "job.sh");
    return script.commands.empty() ? "unknown" : script.commands[0].words[1].as_string();
  };
  EXPECT_EQ(taken("[[ \"$A\" == \"MOCK\" ]] || [[ -z \"$A\" ]]"), "yes");
  EXPECT_EQ(taken("[[ -z $A ]] || [ $A = MOCK ]"), "yes");
  EXPECT_EQ(taken("[[ $A == MOCK && -z $A ]]"), "no");
  EXPECT_EQ(taken("[[ $A == MOCK || $NOBODY == 1 ]]"), "yes");  // what decides alone decides
  EXPECT_EQ(taken("[[ $A == MOCK && $NOBODY == 1 ]]"), "unknown");
  EXPECT_EQ(taken("[[ $A == other && $NOBODY == 1 ]]"), "no");
  EXPECT_EQ(taken("[[ $A == MOCK ]] && ! [[ -z $A ]]"), "yes");
}

TEST(Shell, AnArrayInATextHasBlanksBetween) {
  const ShellScript script = read_shell(
      "A=(--a 1)\nA=(\n \"${A[@]}\"\n --b 2\n)\nC=\"run ${A[@]} --c 3\"\n$C\n", "job.sh");
  ASSERT_EQ(script.commands.size(), 1U);
  EXPECT_EQ(words_of(script.commands[0]), "run|--a|1|--b|2|--c|3|");
}

TEST(Shell, TheJobThatAScriptSubmitsIsRead) {
  const ShellScript script = read_shell(
      "N=4\nexport E=1\nsbatch <<END\n#!/bin/bash\n#SBATCH --nodes=$N\nsrun train "
      "\\$SLURM_NNODES\nEND\n",
      "submit.sh");
  ASSERT_EQ(script.commands.size(), 2U);
  EXPECT_EQ(words_of(script.commands[1]), "srun|train|4|");
  ASSERT_NE(script.directives.find("nodes"), nullptr);
  EXPECT_EQ(script.directives.find("nodes")->as_integer(), 4);
}

TEST(Shell, ConstantConditionsDecide) {
  const std::string text =
      "TP=2\nif [ $TP -gt 1 ]; then\nA=yes\nelse\nA=no\nfi\nif [ -n \"$X\" ]; then B=1; fi\nrun $A "
      "$B\n";
  const ShellScript script = read_shell(text, "job.sh");
  ASSERT_EQ(script.commands.size(), 1U);
  EXPECT_EQ(script.commands[0].words[1].as_string(), "yes");
  EXPECT_EQ(script.commands[0].words[2].as_string(), "${B}");
  ASSERT_EQ(script.problems.size(), 1U);
  EXPECT_EQ(script.problems[0].place.line, 7);
}

TEST(Shell, NothingGrowsBeyondReason) {
  std::string text = "A=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 60; ++i) text += "A=$A$A\n";
  text += "torchrun $A\n";
  const ShellScript script = read_shell(text, "job.sh");
  EXPECT_FALSE(script.problems.empty());
}

TEST(Import, ConflictsBetweenFilesAreErrors) {
  const Imported imported = import_launch(
      "cat > ds.json <<'E'\n{\"train_micro_batch_size_per_gpu\": 4, \"zero_optimization\": "
      "{\"stage\": 2}}\nE\n"
      "deepspeed --num_gpus 8 train.py --deepspeed ds.json --per_device_train_batch_size 2 "
      "--model_name_or_path gpt2\n",
      "job.sh");
  ASSERT_TRUE(imported.failed());
  EXPECT_NE(render(imported.problems, "").find("training.micro_batch is said twice: 2 and 4"),
            std::string::npos)
      << render(imported.problems, "");
}

TEST(Import, ALauncherWithoutCountsStartsOneProcess) {
  const Imported imported = import_launch(
      "torchrun train.py --model_name_or_path gpt2 --per_device_train_batch_size 1\n", "job.sh");
  ASSERT_FALSE(imported.failed());
  EXPECT_EQ(imported.run.at("cluster.devices")->as_integer(), 1);
}

TEST(Import, MoreRanksThanDevicesAreAnError) {
  const Imported imported = import_launch(
      "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=4\n"
      "srun torchrun --nnodes 2 --nproc-per-node 8 train.py --model_name_or_path gpt2 "
      "--per_device_train_batch_size 1\n",
      "job.sbatch");
  EXPECT_TRUE(imported.failed());
}

}  // namespace
}  // namespace steelyard
