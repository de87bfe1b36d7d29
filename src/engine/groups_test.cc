// Sequences and experts over several ranks, counted by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/engine_check.h"

namespace steelyard {
namespace {

std::string run(const std::string& model, const std::string& engine, const std::string& rest) {
  return "model = \"" + model + "\"\nengine = \"" + engine +
         "\"\n[cluster]\ndevice = \"h100-sxm-80gb\"\ndevices = 8\n[training]\nsequence_length = "
         "4096\noptimizer = \"adamw\"\nprecision = \"bf16-mixed\"\n" +
         rest;
}

// Bytes of the largest slot of that name.
Bytes slot_bytes(const Job& job, const std::string& owner, const std::string& name) {
  StagePrograms<Checked> stages(job);
  stages.build(0);
  Bytes bytes{};
  for (std::size_t i = 0; i < stages.program().slot_count(); ++i) {
    const Slot& slot = stages.program().slot_at(static_cast<SlotId>(i));
    if (slot.owner == owner && slot.name == name) bytes = std::max(bytes, slot.bytes);
  }
  return bytes;
}

TEST(ContextParallel, IsSoundInEveryForm) {
  for (const char* rest :
       {"[parallel]\ncontext = 2\n", "[parallel]\ncontext = 4\ncontext_method = \"ring\"\n",
        "[parallel]\ncontext = 8\nreplicate = 1\n[recompute]\nmode = \"full\"\n"})
    expect_sound(job_of(run("llama-3.1-8b", "fsdp2", rest)));
  for (const char* method : {"ring", "allgather", "ulysses"})
    for (const char* recompute : {"none", "selective", "full"})
      expect_sound(
          job_of(run("llama-3.1-8b", "megatron",
                     std::string("[parallel]\ncontext = 4\ntensor = 2\ncontext_method = \"") +
                         method + "\"\n[recompute]\nmode = \"" + recompute + "\"\n")));
  expect_sound(job_of(run("llama-3.1-8b", "megatron",
                          "[parallel]\ncontext = 8\ncontext_method = \"ring+ulysses\"\n"
                          "context_inner = 4\n")));
  expect_sound(job_of(run("deepseek-v2-lite", "megatron", "[parallel]\ncontext = 4\n")));
  expect_sound(
      job_of(run("llama-3.1-8b", "deepspeed", "[parallel]\ncontext = 8\nzero_stage = 3\n")));
}

// 8 key/value heads of 128: a pair of keys and values is 2 x 1,024 numbers for each of 1,024 tokens.
TEST(ContextParallel, RingsHoldPairsOfKeysAndValues) {
  constexpr std::int64_t kPair = 2 * 1'024 * 1'024 * 2;
  const Job ring =
      job_of(run("llama-3.1-8b", "fsdp2", "[parallel]\ncontext = 4\ncontext_method = \"ring\"\n"));
  EXPECT_EQ(slot_bytes(ring, "attention", "keys and values on their way"), Bytes(3 * kPair));
  EXPECT_EQ(slot_bytes(ring, "attention", "partial outputs, fp32"), Bytes(4 * 1'024 * 4'096 * 4));
  const Job gathered = job_of(run("llama-3.1-8b", "fsdp2", "[parallel]\ncontext = 4\n"));
  EXPECT_EQ(slot_bytes(gathered, "attention", "keys and values of all ranks"), Bytes(5 * kPair));
  const Job engine = job_of(run("llama-3.1-8b", "megatron", "[parallel]\ncontext = 4\n"));
  EXPECT_EQ(slot_bytes(engine, "attention", "keys and values of the other steps"),
            Bytes(3 * kPair));
  EXPECT_EQ(slot_bytes(engine, "attention", "keys and values of the last step"), Bytes(kPair));
}

// States are divided by all ranks that share them, context among them.
TEST(ContextParallel, SharesStatesWithData) {
  for (const char* engine : {"fsdp2", "megatron", "deepspeed"}) {
    const std::string stage = std::string(engine) == "fsdp2" ? "3" : "1";
    const Job data =
        job_of(run("llama-3.1-8b", engine, "[parallel]\nzero_stage = " + stage + "\n"));
    const Job both = job_of(
        run("llama-3.1-8b", engine, "[parallel]\ncontext = 4\nzero_stage = " + stage + "\n"));
    EXPECT_EQ(resident(data)[Pile::kOptimizerMoments], resident(both)[Pile::kOptimizerMoments]);
  }
}

TEST(ExpertParallel, IsSoundInEveryForm) {
  for (const char* dispatcher : {"all-to-all", "allgather"})
    for (const char* layout :
         {"expert = 8\n", "tensor = 2\nexpert = 2\n", "tensor = 2\nexpert = 8\nexpert_tensor = 1\n",
          "context = 2\nexpert = 4\n", "pipeline = 2\nexpert = 4\nzero_stage = 1\n"})
      for (const char* recompute : {"none", "full"})
        expect_sound(job_of(run("mixtral-8x7b", "megatron",
                                std::string("[parallel]\n") + layout +
                                    "[experts]\nimbalance = 1.25\ndispatcher = \"" + dispatcher +
                                    "\"\n[recompute]\nmode = \"" + recompute + "\"\n")));
  for (const char* capacity :
       {"capacity_factor = 1.0\n", "capacity_factor = 1.0\npad_to_capacity = true\n"})
    expect_sound(job_of(run("mixtral-8x7b", "megatron",
                            std::string("[parallel]\nexpert = 8\n[experts]\ndispatcher = "
                                        "\"all-to-all\"\n") +
                                capacity)));
  expect_sound(job_of("implementation = \"torchtitan\"\n" +
                      run("mixtral-8x7b", "fsdp2", "[parallel]\nexpert = 4\nreplicate = 2\n")));
}

// 8 experts of 3 x 4,096 x 14,336 in 32 layers: one of them is here, and its states are whole; all else is divided by 8.
TEST(ExpertParallel, DividesExpertsAndTheirStates) {
  constexpr std::int64_t kExpert = 3LL * 4'096 * 14'336 * 32;
  const Job job =
      job_of(run("mixtral-8x7b", "megatron", "[parallel]\nexpert = 8\nzero_stage = 1\n"));
  EXPECT_EQ(expert_data_ranks(job), 1);
  const ModelUnits<Checked> units = units_of<Checked>(job);
  const Unit<Checked>& layer = units.kinds.front();
  EXPECT_EQ(layer.expert_elements * Checked(32), Checked(kExpert));
  const Checked dense = (layer.elements - layer.expert_elements) * Checked(32) +
                        units.embedding.elements + units.head.elements;
  const Piles held = resident(job);
  constexpr std::int64_t kFrequencies = 512;  // of the rotary embedding
  EXPECT_EQ(held[Pile::kParameters],
            Bytes((Checked(kExpert) + dense) * Checked(2) + Checked(kFrequencies)));
  EXPECT_EQ(held[Pile::kGradients], Bytes((Checked(kExpert) + dense) * Checked(4)));
  EXPECT_EQ(held[Pile::kMasterWeights],
            Bytes((Checked(kExpert) + dense / Checked(8)) * Checked(4)));
}

// 4,096 tokens choose 2 of 8 experts: 8,192 pairs come to a rank, or half as many again, or all that there are.
TEST(ExpertParallel, TheFullestRankReceivesMore) {
  const auto received = [](const char* imbalance) {
    return slot_bytes(job_of(run("mixtral-8x7b", "megatron",
                                 std::string("[parallel]\nexpert = 8\n[experts]\ndispatcher = "
                                             "\"all-to-all\"\nimbalance = ") +
                                     imbalance + "\n")),
                      "mlp.experts", "received input");
  };
  constexpr std::int64_t kBalanced = 8'192LL * 4'096 * 2;
  EXPECT_EQ(received("\"uniform\""), Bytes(kBalanced));
  EXPECT_EQ(received("1.5"), Bytes(kBalanced + kBalanced / 2));
  EXPECT_EQ(received("\"worst\""), Bytes(kBalanced * 4));
}

}  // namespace
}  // namespace steelyard
