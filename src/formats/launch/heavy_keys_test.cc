#include "formats/launch/heavy_keys.h"

#include <gtest/gtest.h>

#include "formats/launch/launch.h"

namespace steelyard {
namespace {

TEST(HeavyKeys, NameWhatChangesMemory) {
  struct Case {
    const char* name;
    bool heavy;
  };
  constexpr Case kCases[] = {
      {"zero_stage", true},
      {"lora_enable", true},
      {"use-lora", true},
      {"bits", true},
      {"load_in_4bit", true},
      {"offload_param_device", true},
      {"freeze_backbone", true},
      {"teacher_model", true},
      {"model_max_length", true},
      {"megatron_amp_O2", true},
      {"learning_rate", false},
      {"output_dir", false},
      {"seed", false},
      {"eval_max_length", false},
      {"lora_dropout", false},
      {"lora_path", false},
      {"fp8_amax_history_len", false},
      {"weight_decay", false},
  };
  for (const Case& one : kCases) EXPECT_EQ(!what_changes(one.name).empty(), one.heavy) << one.name;
}

TEST(HeavyKeys, AreWarnedOfOnceWhereTheyStand) {
  const Imported imported = import_launch(
      "torchrun --nproc_per_node 8 train.py --model_name_or_path m --ring_attn_size 2 "
      "--freeze_backbone False --per_device_train_batch_size 1 --use_flash_attention True "
      "--output_dir out\n",
      "run.sh", {});
  EXPECT_EQ(imported.unread, (std::vector<std::string>{"ring_attn_size", "use_flash_attention"}));
  int told = 0;
  for (const Diagnostic& problem : imported.problems)
    told += problem.message == "ring_attn_size = 2 is not read";
  EXPECT_EQ(told, 1);
}

TEST(HeavyKeys, OfEvaluationAreNoPartOfTheStep) {
  Imported into;
  Value document = Value::table();
  set_path(document, "data.validation_ds.max_seq_length", Value::integer(8192), Place{});
  set_path(document, "data.train_ds.max_seq_length", Value::integer(4096), Place{});
  ConfigReader reading(document, "nemo", into);
  reading.carry_rest();
  warn_of_heavy_keys(into);
  EXPECT_EQ(into.unread, std::vector<std::string>{"data.train_ds.max_seq_length"});
}

TEST(HeavyKeys, AnIdleKeyIsKeptInSilence) {
  Imported into;
  Value document = Value::table();
  set_path(document, "lora_r", Value::integer(16), Place{});
  ConfigReader reading(document, "axolotl", into);
  reading.idle({"lora_r"});
  reading.carry_rest();
  warn_of_heavy_keys(into);
  EXPECT_TRUE(into.unread.empty());
  EXPECT_NE(into.run.at("carried.axolotl.lora_r"), nullptr);
}

}  // namespace
}  // namespace steelyard
