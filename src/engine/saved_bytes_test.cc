// What a layer keeps for backward, by token: the published formulas, to the letter and to the byte.
//
// Letters: h hidden, a query width, k key/value width, f feed-forward width, n heads, S sequence, t tensor ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "document/read.h"
#include "engine/stage_program.h"
#include "job/read.h"

namespace steelyard {
namespace {

struct Kept {
  std::string formula;      // of what grows with tokens
  std::int64_t bytes = 0;   // for each token
  std::int64_t beside = 0;  // in all, of what does not grow with tokens
};

// The small state of flash attention's random numbers: 16 and 8 bytes for each call.
constexpr std::int64_t kRandomState = 24;

Kept kept_of_run(const std::string& text) {
  const ReadJob job = read_job(*read_json(text, "job"));
  Kept kept;
  if (!job) {
    ADD_FAILURE() << job.error().front().message << ": " << text;
    return kept;
  }
  StagePrograms<Traced> stages(*job);
  Traced by_token, beside;
  const bool again = job->recompute.mode == RecomputeMode::kFull ||
                     job->recompute.mode == RecomputeMode::kOperators;
  for (const SlotId slot : stages.kept_of_kind(0, again)) {
    const Formula& formula = stages.book().formulas[static_cast<std::size_t>(slot)];
    const Traced bytes = Traced(bits_of(formula.type) / 8) * formula.elements;
    (bytes.without({"b", "s"}).empty() ? beside : by_token) += bytes;
  }
  const std::int64_t tokens = job->training.micro_batch * job->training.sequence_length;
  EXPECT_EQ(by_token.value() % tokens, 0);
  return {by_token.without({"b", "s"}), by_token.value() / tokens, beside.value()};
}

struct Asked {
  std::string model = R"("llama-3-8b")";
  std::string engine = "ddp";
  std::string training = R"("precision": "bf16-pure")";
  std::string parallel = {};   // "tensor": 8 ...
  std::string recompute = {};  // "mode": "full" ...
  int devices = 1;
  int micro_batch = 1;
  int sequence = 1024;
  std::string implementation = {};
};

Kept kept_of(const Asked& asked) {
  return kept_of_run(fmt::format(
      R"({{"model": {}, "engine": "{}", {} "cluster": {{"device": "h100-sxm-80gb", "devices": {}}},
          "training": {{"sequence_length": {}, "micro_batch": {}, {}}}, "parallel": {{{}}}, "recompute": {{{}}}}})",
      asked.model, asked.engine,
      asked.implementation.empty()
          ? ""
          : fmt::format(R"("implementation": "{}",)", asked.implementation),
      asked.devices, asked.sequence, asked.micro_batch, asked.training, asked.parallel,
      asked.recompute));
}

// Llama-3-8B: h = a = 4096, k = 1024, f = 14336, n = 32.
constexpr std::int64_t kHidden = 4096, kKeyValue = 1024, kFeed = 14336, kHeads = 32;

TEST(SavedBytes, LlamaInBf16WithFlashAttention) {
  const Kept kept = kept_of({.sequence = 8192});
  EXPECT_EQ(kept.formula, "20h + 4k + 8f + 4n + 8");
  EXPECT_EQ(kept.bytes, 200'840);
  EXPECT_EQ(kept.beside, kRandomState);
}

// What aot_autograd's partitioner keeps of transformers' layer (torch 2.11): its input, both norms' outputs, q, k, v, attention's
// output and that of its projection, gate, up and their product.
TEST(SavedBytes, CompiledLlamaKeepsWhatProductsRead) {
  const Kept kept = kept_of({.training = R"("precision": "bf16-pure", "compile": true)"});
  EXPECT_EQ(kept.formula, "12h + 4k + 6f + 4n");
}

// torchtitan's selective checkpoints. Eager, all that was chosen waits; of a compiled layer the last product's output does not
// cross, since backward does not read it: input, q, v, attention, gate (the same block under aot_eager_decomp_partition,
// torch 2.11). With 8-bit factors the same products are chosen.
TEST(SavedBytes, OfChosenOperatorsACompiledLayerKeepsWhatBackwardReads) {
  const auto kept = [](const char* precision, const char* compile) {
    return kept_of(
        {.engine = "fsdp2",
         .training = fmt::format(R"("precision": "{}", "compile": {})", precision, compile),
         .recompute = R"("mode": "operators")",
         .devices = 8,
         .implementation = "torchtitan"});
  };
  EXPECT_EQ(kept("bf16-mixed", "false").formula, "8h + 2k + 2f + 4n");
  EXPECT_EQ(kept("bf16-mixed", "true").formula, "6h + 2k + 2f + 4n");
  EXPECT_EQ(kept("fp8-rowwise", "true").formula, "6h + 2k + 2f + 4n");
}

TEST(SavedBytes, DoNotDependOnBatchOrSequence) {
  EXPECT_EQ(kept_of({.micro_batch = 7, .sequence = 100}).bytes, 200'840);
  EXPECT_EQ(kept_of({.micro_batch = 1, .sequence = 1}).bytes, 200'840);
}

TEST(SavedBytes, FullRecomputationKeepsTheInput) {
  const Kept kept = kept_of({.recompute = R"("mode": "full")"});
  EXPECT_EQ(kept.formula, "2h");
  EXPECT_EQ(kept.bytes, 2 * kHidden);
  EXPECT_EQ(kept.beside, 0);
}

TEST(SavedBytes, LlamaUnderAutocast) {
  const Kept kept = kept_of({.training = R"("precision": "bf16-autocast")"});
  EXPECT_EQ(kept.formula, "30h + 4k + 8f + 4n + 8");
  EXPECT_EQ(kept.bytes, 241'800);
  EXPECT_EQ(kept.beside - kRandomState, 436'207'616);  // 16-bit copies of the weights of one layer
  const Kept again =
      kept_of({.training = R"("precision": "bf16-autocast")", .recompute = R"("mode": "full")"});
  EXPECT_EQ(again.formula, "4h");  // the residual stream is fp32
}

TEST(SavedBytes, EagerAttentionKeepsTheScores) {
  for (const int sequence : {128, 1024, 4096}) {
    const Kept kept = kept_of(
        {.training = R"("precision": "bf16-pure", "attention": "eager")", .sequence = sequence});
    EXPECT_EQ(kept.formula, "6s·n + 24h + 8f + 8");
    EXPECT_EQ(kept.bytes, 24 * kHidden + 8 * kFeed + 6 * kHeads * sequence + 8);
  }
  // One byte more for each score with a dropout mask, two with the dropped copy instead of the probabilities' own.
  EXPECT_EQ(kept_of({.training = R"("precision": "bf16-pure", "attention": "eager",
                                    "attention_dropout": 0.1)"})
                .bytes,
            24 * kHidden + 8 * kFeed + 7 * kHeads * 1024 + 8);
}

// The memory-efficient kernel has no grouped form: transformers' call is written out, in fp32.
TEST(SavedBytes, GroupedHeadsWithoutTheFlashKernelKeepTheScores) {
  const Kept kept = kept_of({.training = R"("precision": "bf16-pure", "attention": "efficient")"});
  EXPECT_EQ(kept.formula, "4s·n + 30h + 8f + 8");
}

TEST(SavedBytes, FusedNormsKeepTheirInputOnly) {
  const Kept kept = kept_of({.implementation = "torchtitan"});
  EXPECT_EQ(kept.formula, "12h + 4k + 8f + 4n + 8");
  EXPECT_EQ(kept.bytes, 12 * kHidden + 4 * kKeyValue + 8 * kFeed + 4 * kHeads + 8);
}

std::string gpt2(const std::string& activation) {
  return fmt::format(
      R"({{"model_type": "gpt2", "n_embd": 768, "n_layer": 2, "n_head": 12, "n_positions": 1024, "vocab_size": 50257, "activation_function": "{}"}})",
      activation);
}

TEST(SavedBytes, Gpt2WithDropout) {
  const std::string training = R"("precision": "bf16-pure", "dropout": 0.1)";
  EXPECT_EQ(kept_of({.model = gpt2("gelu_new"), .training = training}).bytes,
            58 * 768 + 4 * 12 + 16);
  for (const char* fused : {"gelu", "gelu_pytorch_tanh"})
    EXPECT_EQ(kept_of({.model = gpt2(fused), .training = training}).bytes, 34 * 768 + 4 * 12 + 16);
  EXPECT_EQ(kept_of({.model = R"("gpt2")", .training = training}).formula,
            "14h + 4k + 10f + 4n + 16");
}

// arXiv 2205.05198: s·b·h·(34 + 5·n·s/h), and 34·s·b·h when core attention is computed again; /t with sequence
// parallelism. The 16 bytes beside it are LayerNorm's statistics, which the paper leaves out.
TEST(SavedBytes, TheFormulaOfSelectiveRecomputation) {
  const std::string training = R"("precision": "bf16-mixed", "attention": "eager", "dropout": 0.1)";
  const std::int64_t hidden = 12'288, heads = 96, sequence = 2'048;
  const Asked asked = {.model = R"("gpt3-175b")",
                       .engine = "megatron",
                       .training = training,
                       .parallel = R"("tensor": 8)",
                       .devices = 8,
                       .sequence = 2'048};
  EXPECT_EQ(kept_of(asked).bytes, (34 * hidden + 5 * heads * sequence + 16) / 8);
  Asked selective = asked;
  selective.recompute = R"("mode": "selective")";
  EXPECT_EQ(kept_of(selective).bytes, (34 * hidden + 16) / 8);
}

// Tokens of sequence-parallel regions Ts(8h + 8), of tensor-parallel ones T/t(4a + 4k + 6f + 4n). Both norms keep
// their row statistics, 4 bytes each.
TEST(SavedBytes, Megatron) {
  for (const int tensor : {1, 2, 4, 8}) {
    const Kept kept = kept_of({.engine = "megatron",
                               .training = R"("precision": "bf16-mixed")",
                               .parallel = fmt::format(R"("tensor": {})", tensor),
                               .devices = tensor});
    EXPECT_EQ(kept.formula, tensor == 1 ? "12h + 4k + 6f + 4n + 8" : "(12h + 4k + 6f + 4n + 8)/t");
    EXPECT_EQ(kept.bytes, (8 * kHidden + 8) / tensor +
                              (4 * kHidden + 4 * kKeyValue + 6 * kFeed + 4 * kHeads) / tensor);
  }
  // Without sequence parallelism the norms' part stands whole on every rank.
  EXPECT_EQ(kept_of({.engine = "megatron",
                     .training = R"("precision": "bf16-mixed")",
                     .parallel = R"("tensor": 8, "sequence_parallel": false)",
                     .devices = 8})
                .bytes,
            8 * kHidden + 8 + (4 * kHidden + 4 * kKeyValue + 6 * kFeed + 4 * kHeads) / 8);
}

TEST(SavedBytes, MegatronByModule) {
  const auto of = [](const char* module) {
    return kept_of({.engine = "megatron",
                    .training = R"("precision": "bf16-mixed")",
                    .parallel = R"("tensor": 8)",
                    .recompute = fmt::format(R"("mode": "modules", "modules": ["{}"])", module),
                    .devices = 8})
        .formula;
  };
  EXPECT_EQ(of("core_attention"), "(12h + 4k + 6f + 8)/t");  // its inputs and its output stay
  EXPECT_EQ(of("norms"), "(8h + 4k + 6f + 4n)/t");           // outputs are made again from inputs
  EXPECT_EQ(of("mlp"), "(12h + 4k + 4n + 8)/t");             // its input stays
}

TEST(SavedBytes, TorchtitanKeepsTheGatheredInputs) {
  const Kept kept = kept_of({.engine = "fsdp2",
                             .training = R"("precision": "bf16-mixed")",
                             .parallel = R"("tensor": 8)",
                             .devices = 16,
                             .implementation = "torchtitan"});
  EXPECT_EQ(
      kept.bytes,
      (4 * kHidden + 8 + 4 * kHidden + 4 * kKeyValue + 8 * kFeed + 4 * kHeads) / 8 + 4 * kHidden);
}

class SavedByNanotron : public testing::Test {
 protected:
  static Kept of(const char* model, int tensor, bool scatter, int micro_batch) {
    return kept_of(
        {.model = fmt::format(R"("{}")", model),
         .engine = "nanotron",
         .training = R"("precision": "bf16-mixed-fp32-gradients")",
         .parallel = fmt::format(R"("tensor": {}, "sequence_parallel": {})", tensor, scatter),
         .devices = tensor,
         .micro_batch = micro_batch});
  }
  // 8h + 8 of the norms and the residual stream, the rest of products and attention; a = h.
  static constexpr std::int64_t kNorms = 8 * kHidden + 8;
  static constexpr std::int64_t kGrouped = 4 * kHidden + 4 * kKeyValue + 8 * kFeed + 4 * kHeads;
};

// torchao's products make their 8-bit factors again in backward: what is kept has 16 bits, compiled or not.
TEST(SavedBytes, EightBitFactorsOfTorchaoAreNotKept) {
  for (const char* compile : {"false", "true"}) {
    const auto kept = [&](const char* precision) {
      return kept_of(
          {.engine = "fsdp2",
           .training = fmt::format(R"("precision": "{}", "compile": {})", precision, compile),
           .devices = 8});
    };
    for (const char* precision : {"fp8-tensorwise", "fp8-rowwise"})
      EXPECT_EQ(kept(precision).formula, kept("bf16-mixed").formula) << precision << compile;
  }
}

TEST_F(SavedByNanotron, OnOneRank) {
  EXPECT_EQ(of("llama-3-8b", 1, false, 1).bytes, kNorms + kGrouped);
  // Several sequences: the output projection keeps a copy of attention's output.
  EXPECT_EQ(of("llama-3-8b", 1, false, 2).bytes, kNorms + kGrouped + 2 * kHidden);
}

TEST_F(SavedByNanotron, WithAllReduce) {
  for (const int tensor : {2, 4, 8}) {
    EXPECT_EQ(of("llama-3-8b", tensor, false, 1).bytes, kNorms + kGrouped / tensor);
    EXPECT_EQ(of("llama-3-8b", tensor, false, 4).bytes, kNorms + (kGrouped + 2 * kHidden) / tensor);
  }
}

TEST_F(SavedByNanotron, WithReduceScatter) {
  for (const int tensor : {2, 4, 8})
    for (const int micro_batch : {1, 4})  // the asynchronous product keeps a view
      EXPECT_EQ(of("llama-3-8b", tensor, true, micro_batch).bytes, (kNorms + kGrouped) / tensor);
}

// As many key/value heads as query heads: 12a in place of 4a + 4k. Llama-2-7B: h = 4096, f = 11008, n = 32.
TEST_F(SavedByNanotron, WithoutGroupedHeads) {
  const std::int64_t rest = 12 * kHidden + 8 * 11'008 + 4 * kHeads;
  EXPECT_EQ(of("llama-2-7b", 1, false, 1).bytes, kNorms + rest);
  EXPECT_EQ(of("llama-2-7b", 2, false, 1).bytes, kNorms + rest / 2);
  EXPECT_EQ(of("llama-2-7b", 4, true, 1).bytes, (kNorms + rest) / 4);
}

TEST_F(SavedByNanotron, RecomputedKeepsTheInput) {
  EXPECT_EQ(kept_of({.engine = "nanotron",
                     .parallel = R"("tensor": 4)",
                     .recompute = R"("mode": "full")",
                     .devices = 4})
                .formula,
            "2h/t");
}

// Norms operator by operator in 16 bits (x, what is normalised, the result), rotary tables by token for q and for k, and a gathered
// sequence that is kept whole.
TEST(SavedBytes, ScalingKeepsWhatItsOperatorsRead) {
  const auto of = [](int tensor, bool scatter, const char* kernels) {
    return kept_of(
        {.engine = "scaling",
         .training = fmt::format(R"("precision": "bf16-mixed", "kernels": "{}")", kernels),
         .parallel = fmt::format(R"("tensor": {}, "sequence_parallel": {})", tensor, scatter),
         .devices = tensor});
  };
  constexpr std::int64_t kTables = 4 * 2 * 128;
  constexpr std::int64_t kBlocks = 4 * kHidden + 4 * kKeyValue + 8 * kFeed + 4 * kHeads;
  EXPECT_EQ(of(1, false, "own").bytes, 12 * kHidden + 4 + kTables + kBlocks);
  EXPECT_EQ(of(1, false, "flash-attn").bytes, 8 * kHidden + 8 + kTables + kBlocks);
  EXPECT_EQ(of(4, false, "own").bytes, 12 * kHidden + 4 + kTables + kBlocks / 4);
  EXPECT_EQ(of(4, true, "own").bytes, (8 * kHidden + 4) / 4 + 4 * kHidden + kTables + kBlocks / 4);
}

// What is allocated bears the names of the model's modules as long as the program stands: LitGPT's one product for query, key and
// value was called by a copy that had gone.
TEST(SavedBytes, LitgptsQueryBearsItsModulesName) {
  const ReadJob job = read_job(*read_json(
      R"({"model": "llama-3-8b", "engine": "ddp", "implementation": "litgpt", "cluster": {"device": "h100-sxm-80gb", "devices": 1},)"
      R"( "training": {"sequence_length": 512, "precision": "bf16-pure"}})",
      "job"));
  ASSERT_TRUE(job);
  const StagePrograms<Traced> stages(*job);
  const Program& program = stages.program();
  int found = 0;
  for (std::size_t id = 0; id < program.slot_count(); ++id) {
    const Slot& slot = program.slot_at(static_cast<SlotId>(id));
    found += std::string(slot.owner) == "self_attn.q_proj" && std::string(slot.name) == "output";
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace steelyard
