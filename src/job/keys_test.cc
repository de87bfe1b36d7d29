#include "job/keys.h"

#include <gtest/gtest.h>

#include <set>

#include "document/read.h"
#include "job/job.h"

namespace steelyard {
namespace {

TEST(Keys, EveryRowIsWholeAndUnlikeTheOthers) {
  std::set<std::string> paths, flags;
  for (const Key& key : run_file_keys()) {
    SCOPED_TRACE(key.path);
    EXPECT_TRUE(paths.insert(key.path).second);
    EXPECT_TRUE(flags.insert(key.flag).second) << key.flag;
    for (const std::string& alias : key.flag_aliases)
      EXPECT_TRUE(flags.insert(alias).second) << alias;
    EXPECT_FALSE(key.help.empty());
    EXPECT_FALSE(key.fallback.empty());
    EXPECT_EQ(&key_of(key.id), &key);
    EXPECT_EQ(find_flag(key.flag), &key);
    EXPECT_EQ(find_key_by_path(key.path), &key);
    const bool named = key.kind == KeyKind::kName || key.kind == KeyKind::kNames;
    // A number may have names beside it: uniform, worst.
    if (key.kind == KeyKind::kNumber) continue;
    EXPECT_EQ(named, !key.names.empty());
  }
}

// The names of the table stand in the order of the enumerations; after the last one come those not weighed yet.
TEST(Keys, NamesFollowTheEnumerations) {
  EXPECT_EQ(name_of(Engine::kScaling), "scaling");
  EXPECT_EQ(name_of(Implementation::kScaling), "scaling");
  EXPECT_EQ(name_of(Implementation::kTorchtune), "torchtune");
  EXPECT_EQ(name_of(KernelLibrary::kMegatron), "megatron");
  EXPECT_EQ(name_of(AttentionKernel::kFlash), "flash");
  EXPECT_EQ(name_of(AttentionKernel::kCudnn), "cudnn");
  EXPECT_EQ(name_of(LossKernel::kFusedLinear), "fused-linear");
  EXPECT_EQ(name_of(OptimizerForm::kLoop), "loop");
  EXPECT_EQ(name_of(PipelineSchedule::kOneForwardOneBackward), "1f1b");
  EXPECT_EQ(name_of(PipelineSchedule::kDualPipeV), "dualpipe-v");
  EXPECT_EQ(name_of(ContextMethod::kUlysses), "ulysses");
  EXPECT_EQ(name_of(RecomputeMode::kModules), "modules");
  EXPECT_EQ(name_of(RecomputeModule::kSharedExperts), "shared_experts");
  EXPECT_EQ(name_of(OffloadTarget::kNvme), "nvme");
  EXPECT_EQ(name_of(CheckpointSave::kFullRankZero), "full-rank0");
  for (const auto& [path, last] : {std::pair{"engine", "scaling"},
                                   {"implementation", "torchtune"},
                                   {"training.attention", "cudnn"},
                                   {"checkpoint.save", "full-rank0"}})
    EXPECT_EQ(find_key_by_path(path)->names.back(), last);
}

TEST(Keys, AreFoundByTheirOtherNames) {
  EXPECT_EQ(find_key("parallel", "tp")->name, "tensor");
  EXPECT_EQ(find_key("parallel", "TP")->name, "tensor");
  EXPECT_EQ(find_key("training", "sequence-length")->name, "sequence_length");
  EXPECT_EQ(find_key("training", "tp"), nullptr);
  EXPECT_EQ(find_key_by_path("sequence_length")->path, "training.sequence_length");
  EXPECT_EQ(find_key_by_path("recompute")->path, "recompute.mode");
  EXPECT_EQ(find_key_by_path("nothing"), nullptr);
  EXPECT_EQ(find_flag("--tp")->path, "parallel.tensor");
  EXPECT_EQ(find_flag("--recompute-mode")->path, "recompute.mode");
  EXPECT_EQ(find_flag("--optimizer")->path, "training.optimizer");
  EXPECT_EQ(find_flag("--offload-optimizer")->path, "offload.optimizer");
}

TEST(Keys, CompletionKnowsTheValues) {
  EXPECT_GE(accepted_names(key_of(KeyId::kModel)).size(), 110U);
  EXPECT_GE(accepted_names(key_of(KeyId::kDevice)).size(), 30U);
  EXPECT_GE(accepted_names(key_of(KeyId::kOptimizer)).size(), 18U);
  EXPECT_EQ(accepted_names(key_of(KeyId::kEngine)).size(), 7U);
  EXPECT_EQ(accepted_names(key_of(KeyId::kCompile)).size(), 2U);
  EXPECT_TRUE(accepted_names(key_of(KeyId::kTensor)).empty());
}

TEST(Keys, OtherSpellingsBecomeTheTablesOwn) {
  Value document = *read_toml(
      "recompute = \"full\"\n[parallel]\ntp = 4\npp = 2\npipeline = 2\n[carried.deepspeed]\ntp = "
      "1\n",
      "run.toml");
  use_canonical_keys(document);
  EXPECT_EQ(document.at("parallel.tensor")->as_integer(), 4);
  EXPECT_NE(document.at("parallel.pp"), nullptr);  // given twice: left for the reader's complaint
  EXPECT_EQ(document.at("recompute.mode")->as_string(), "full");
  EXPECT_EQ(document.at("carried.deepspeed.tp")->as_integer(), 1);
}

}  // namespace
}  // namespace steelyard
