// The judge of the search: on random small problems the pruned, parallel search gives the answers of weighing everything
// one by one, and no bound is above what it bounds.
#include "plan/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <thread>

#include "document/read.h"
#include "job/engine_rules.h"
#include "plan/question.h"
#include "plan/recipe_changes.h"

namespace steelyard {
namespace {

// Every second piece elsewhere, from the end on: another order, two threads.
SearchHelp parallel() {
  SearchHelp help = serial_help();
  help.share = [](std::size_t count, const std::function<void(std::size_t)>& work) {
    std::thread other([&] {
      for (std::size_t i = 0; i < count; ++i)
        if (i % 2 == 1) work(i);
    });
    for (std::size_t i = count; i-- > 0;)
      if (i % 2 == 0) work(i);
    other.join();
  };
  return help;
}

class Problems {
 public:
  explicit Problems(unsigned seed) : random_(seed) {}
  std::string next() {
    const auto one_of = [&](auto... choices) {
      const std::vector<std::common_type_t<decltype(choices)...>> all = {choices...};
      return all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random_)];
    };
    const int devices = one_of(1, 2, 3, 4, 6, 8, 16, 32);
    const bool experts = one_of(0, 0, 0, 1) == 1;
    const int layers = one_of(2, 3, 4, 6, 8, 12);
    const int hidden = one_of(1024, 2048, 4096);
    const std::string model = fmt::format(
        R"({{"model_type": "{}", "vocab_size": {}, "hidden_size": {}, "intermediate_size": {},)"
        R"( "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": {},)"
        R"( "max_position_embeddings": 65536, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,)"
        R"( "tie_word_embeddings": {}{}}})",
        experts ? "mixtral" : "llama", one_of(32000, 128256), hidden, hidden * one_of(2, 3), layers,
        hidden / 128, one_of(1, 2, 4), one_of("true", "false"),
        experts ? R"(, "num_local_experts": 8, "num_experts_per_tok": 2)" : "");
    // Most of a space is left out, so that many problems are asked: an engine, and sometimes more, is said.
    std::string fixed =
        fmt::format(R"("engine": "{}",)", one_of("ddp", "fsdp1", "fsdp2", "deepspeed", "megatron",
                                                 "megatron", "nanotron", "fsdp2", "scaling"));
    std::string machine;
    if (one_of(0, 0, 0, 0, 0, 1) == 1) {
      fixed += fmt::format(R"( "offload": {{"{}": "cpu"}},)",
                           one_of("optimizer", "activations", "parameters"));
      // The host is a limit, too.
      machine = fmt::format(R"(, "machine": {{"host": {{"memory": "{}"}}}})",
                            one_of("8 GB", "32 GB", "128 GB", "2 TB"));
    }
    const std::string precision = one_of("bf16-mixed", "bf16-mixed", "bf16-autocast", "fp32");
    std::string parallel;
    if (one_of(0, 1, 2) > 0) parallel += fmt::format(R"("tensor": {})", one_of(1, 1, 2, 4));
    if (one_of(0, 1, 2) > 0)
      parallel += fmt::format(R"({}"context": {})", parallel.empty() ? "" : ", ", one_of(1, 1, 2));
    return fmt::format(
        R"({{"model": {}, {} "cluster": {{"device": "{}", "devices": {}{}}},)"
        R"( "training": {{"precision": "{}", "sequence_length": {}, "global_batch": {}{}}},)"
        R"( "parallel": {{{}}}}})",
        model, fixed, one_of("rtx-4090", "a100-sxm-40gb", "h100-sxm-80gb", "l4"), devices, machine,
        precision, one_of(2048, 8192, 16384), devices * one_of(2, 4, 6, 8),
        one_of(R"(, "micro_batch": 1)", R"(, "micro_batch": 2)", ""), parallel);
  }

 private:
  std::mt19937 random_;
};

void expect_same(const std::vector<WeighedLayout>& a, const std::vector<WeighedLayout>& b,
                 const std::string& problem) {
  ASSERT_EQ(a.size(), b.size()) << problem;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].layout, b[i].layout) << problem;
    EXPECT_EQ(a[i].seconds, b[i].seconds) << problem;
    EXPECT_EQ(a[i].bytes, b[i].bytes) << problem;
  }
}

// Where they are faster than what fits: a plan shows them then.
std::vector<WeighedLayout> fastest_tight(const SearchResult& result, const Space& space,
                                         std::size_t count) {
  std::vector<WeighedLayout> tight = best_unlike(result, space, count, Fate::kTight);
  std::erase_if(tight, [&](const WeighedLayout& weighed) {
    return weighed.seconds >= result.best()->seconds;
  });
  return tight;
}

// What layouts of one form share changes nothing: the bytes and seconds are those of the predictor.
void expect_as_predicted(const WeighedLayout& weighed, const PlanQuestion& question,
                         const Space& space) {
  const Layout& layout = layout_of(space, weighed);
  const ReadJob job = read_job(run_of(question.run, layout, space, question.target.model->layers));
  ASSERT_TRUE(job);
  const Prediction prediction = estimate(*job);
  EXPECT_EQ(weighed.bytes, prediction.peak.device.value().value()) << words_of(layout, " ");
  EXPECT_EQ(weighed.high, prediction.peak.high.value().value()) << words_of(layout, " ");
  EXPECT_EQ(weighed.pipeline, prediction.peak.pipeline) << words_of(layout, " ");
  EXPECT_EQ(weighed.fate == Fate::kFits, prediction.verdict == Verdict::kFits)
      << words_of(layout, " ");
  if (weighed.seconds > 0) {
    EXPECT_EQ(weighed.seconds, predict_time(*job)->step.value()) << words_of(layout, " ");
  }
}

std::int64_t sum_of(const SearchCounts& counts) {
  return counts.not_allowed + counts.certainly_too_large + counts.cannot_be_faster +
         counts.not_asked + counts.weighed();
}

struct Judged {
  std::int64_t fitting = 0, spared = 0, compared = 0;
};

void judge(const std::string& problem, const Value& document,
           const std::vector<RecipeChange>& allowed, Judged& judged) {
  const auto question = question_of(document, serial_help(), allowed);
  if (!question) return;
  const Space space = space_of(*question);
  SearchWish wish;
  wish.best = 3;
  wish.tight = 3;
  SearchWish all = wish, front = wish;
  all.everything = true;
  front.front = true;
  const auto ask = [&](const SearchWish& asked, const SearchHelp& help) {
    return search(question->run, question->target, space, asked, help);
  };
  const SearchResult whole = ask(all, serial_help());
  const SearchResult pruned = ask(wish, parallel());
  const SearchResult fronted = ask(front, parallel());
  for (const SearchResult* result : {&whole, &pruned, &fronted})
    EXPECT_EQ(sum_of(result->counts), result->counts.layouts) << problem;
  for (const WeighedLayout& weighed : whole.weighed) {
    const Layout& layout = layout_of(space, weighed);
    if (judged.compared++ % 3 == 0) expect_as_predicted(weighed, *question, space);
    EXPECT_LE(weighed.least_bytes, static_cast<double>(weighed.bytes))
        << words_of(layout, " ") << "\n"
        << problem;
    EXPECT_LE(weighed.least_high, static_cast<double>(weighed.high))
        << words_of(layout, " ") << "\n"
        << problem;
    if (weighed.seconds > 0) {
      EXPECT_LE(weighed.least_seconds, weighed.seconds * (1 + 1e-9))
          << words_of(layout, " ") << "\n"
          << problem;
    }
  }
  ASSERT_EQ(whole.best() == nullptr, pruned.best() == nullptr) << problem;
  if (whole.best() == nullptr) return;
  ++judged.fitting;
  judged.spared += whole.counts.weighed() - pruned.counts.weighed();
  expect_same(best_unlike(whole, space, 3), best_unlike(pruned, space, 3), problem);
  expect_same(front_of(whole), front_of(fronted), problem);
  expect_same(fastest_tight(whole, space, wish.tight), fastest_tight(pruned, space, wish.tight),
              problem);
  EXPECT_EQ(simplest_within(whole, space, wish.within)->layout,
            simplest_within(pruned, space, wish.within)->layout)
      << problem;
}

void judge(unsigned seed, int problems) {
  Problems random(seed);
  Judged judged;
  for (int i = 0; i < problems; ++i) {
    const std::string problem = random.next();
    const auto document = read_json(problem, "problem");
    ASSERT_TRUE(document) << problem;
    std::vector<RecipeChange> allowed;
    // Each offload, and each sort of graphs, in turn.
    if (i % 5 == 0 && document->find("offload") == nullptr)
      allowed.push_back(recipe_changes()[static_cast<std::size_t>(i / 5) % 9].change);
    judge(problem, *document, allowed, judged);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(judged.fitting, problems / 4);
  EXPECT_GT(judged.spared, 0);
  EXPECT_GT(judged.compared, 20 * problems);
}

// In eight, for cores to share.
class SearchJudged : public testing::TestWithParam<unsigned> {};
TEST_P(SearchJudged, AnswersAsWeighingEverythingDoes) { judge(GetParam(), 25); }
INSTANTIATE_TEST_SUITE_P(Eighths, SearchJudged, testing::Range(1U, 9U));

// STEELYARD_JUDGE_PROBLEMS=2000 asks as many more.
TEST(Search, AnswersSoForAsManyAsAreAsked) {
  const char* asked = std::getenv("STEELYARD_JUDGE_PROBLEMS");
  if (asked == nullptr) GTEST_SKIP() << "STEELYARD_JUDGE_PROBLEMS says how many";
  judge(9, std::stoi(asked));
}

// Every engine of the table has layouts: none is left out by hand.
TEST(Search, PlansEveryEngineOfTheTable) {
  for (const EngineRules& rules : engine_rules()) {
    const auto document =
        read_json(fmt::format(R"({{"model": "llama-3.2-1b", "engine": "{}",)"
                              R"( "cluster": {{"device": "h100-sxm-80gb", "devices": 2}},)"
                              R"( "training": {{"sequence_length": 2048, "global_batch": 4}}}})",
                              name_of(rules.engine)),
                  "problem");
    ASSERT_TRUE(document);
    const auto question = question_of(*document, serial_help());
    ASSERT_TRUE(question) << name_of(rules.engine);
    const Space space = space_of(*question);
    SearchWish wish;
    wish.first_that_fits = true;
    const SearchResult found = search(question->run, question->target, space, wish, serial_help());
    EXPECT_NE(found.best(), nullptr) << name_of(rules.engine);
  }
}

// What waits on the host is a limit: of two machines the one with more memory has more that fits.
TEST(Search, TheHostIsALimit) {
  std::int64_t fits[2] = {0, 0};
  for (const int large : {0, 1}) {
    const auto document = read_json(
        fmt::format(
            R"({{"model": "llama-3.2-1b", "engine": "ddp", "offload": {{"activations": "cpu"}},)"
            R"( "cluster": {{"device": "h100-sxm-80gb", "devices": 8, "machine": {{"host": {{"memory": "{}"}}}}}},)"
            R"( "training": {{"sequence_length": 8192, "global_batch": 64}}}})",
            large == 1 ? "4 TB" : "200 GB"),
        "problem");
    ASSERT_TRUE(document);
    const auto question = question_of(*document, serial_help());
    ASSERT_TRUE(question);
    const Space space = space_of(*question);
    SearchWish wish;
    wish.everything = true;
    const SearchResult found = search(question->run, question->target, space, wish, serial_help());
    fits[large] = found.counts.fits;
    const bool host = std::any_of(found.too_large.begin(), found.too_large.end(),
                                  [](const TooLarge& group) { return group.host; });
    EXPECT_EQ(host, large == 0);
  }
  EXPECT_LT(fits[0], fits[1]);
}

// Out of time after any number of looks at the clock, every layout is accounted for; with time enough the answer is the same.
TEST(Search, StopsWhereverTheTimeIsUp) {
  const auto document = read_json(
      R"({"model": "llama-3.2-1b", "engine": "megatron", "cluster": {"device": "h100-sxm-80gb", "devices": 4},)"
      R"( "training": {"sequence_length": 8192, "global_batch": 16, "micro_batch": 1}})",
      "problem");
  ASSERT_TRUE(document);
  const auto question = question_of(*document, serial_help());
  ASSERT_TRUE(question);
  const Space space = space_of(*question);
  const SearchResult whole = search(question->run, question->target, space, {}, serial_help());
  bool finished = false;
  for (int looks = 1; !finished; looks *= 2) {
    SearchHelp help = serial_help();
    int left = looks;
    help.expired = [&left] { return left <= 0 || --left <= 0; };
    const SearchResult stopped = search(question->run, question->target, space, {}, help);
    EXPECT_EQ(sum_of(stopped.counts), stopped.counts.layouts) << looks;
    finished = !stopped.interrupted;
    if (!finished) continue;
    EXPECT_EQ(stopped.counts.not_asked, 0);
    ASSERT_NE(stopped.best(), nullptr);
    EXPECT_EQ(stopped.best()->layout, whole.best()->layout);
  }
}

// Models of two stacks: their layers keep what other stacks have made, or let go what theirs hand out.
TEST(Search, JudgesModelsOfTwoStacks) {
  Judged judged;
  for (
      const char* model :
      {R"("model": "t5-base", "training": {"sequence_length": 512, "target_sequence_length": 128, "global_batch": 64)",
       R"("model": "t5-large", "engine": "deepspeed", "training": {"sequence_length": 1024, "global_batch": 256)",
       R"("model": "siglip-base-patch16-224", "training": {"global_batch": 1024)",
       R"("model": "clip-vit-large-patch14", "engine": "ddp", "training": {"precision": "bf16-autocast", "global_batch": 512)",
       R"("model": "llava-1.5-7b", "training": {"frozen": ["*vision_tower*"], "sequence_length": 1024, "global_batch": 32)",
       R"("model": "llava-1.5-7b", "engine": "fsdp2", "training": {"sequence_length": 1024, "global_batch": 16)"})
    for (const char* device : {"rtx-4090", "h100-sxm-80gb"}) {
      const std::string problem =
          fmt::format(R"({{{}}}, "cluster": {{"device": "{}", "devices": 8}}}})", model, device);
      const auto document = read_json(problem, "problem");
      ASSERT_TRUE(document) << problem;
      judge(problem, *document, {}, judged);
    }
  EXPECT_GE(judged.fitting, 8);
  EXPECT_GT(judged.compared, 100);
}

// What a run file may fix beside the layout: whose code runs, adapters, other states and kernels.
TEST(Search, JudgesWhatARunFileFixes) {
  Judged judged;
  for (
      const std::string run :
      {R"("engine": "ddp", "implementation": "torchtune", "training": {"global_batch": 64)",
       R"("implementation": "torchtune", "offload": {"activations": "cpu"}, "recompute": {"mode": "full"}, "training": {"global_batch": 16)",
       R"("engine": "fsdp1", "implementation": "litgpt", "training": {"global_batch": 64)",
       R"("adapter": {"method": "lora", "base": "nf4"}, "training": {"global_batch": 64)",
       R"("engine": "deepspeed", "adapter": {"method": "dora"}, "training": {"global_batch": 32)",
       R"("engine": "fsdp2", "training": {"optimizer": "adamw-8bit", "compile": true, "global_batch": 32)",
       R"("engine": "deepspeed", "training": {"precision": "fp16-mixed", "loss": "chunked", "global_batch": 32)",
       R"("engine": "nanotron", "parallel": {"pipeline": 2}, "training": {"optimizer": "adamw", "global_batch": 64)",
       R"("engine": "fsdp2", "implementation": "torchtitan", "parallel": {"pipeline": 2}, "overlap": {"reduce": false}, "training": {"global_batch": 64)",
       R"("engine": "fsdp1", "parallel": {"reshard_after_forward": "never"}, "training": {"precision": "bf16-autocast", "gradient_clip": 1.0, "global_batch": 64)",
       R"("engine": "ddp", "training": {"packing": "padded", "mean_length": 700, "length_deviation": 300, "global_batch": 64)",
       R"("engine": "megatron", "parallel": {"zero_stage": 2}, "training": {"global_batch": 64)",
       R"("engine": "megatron", "parallel": {"zero_stage": 3}, "training": {"global_batch": 64)",
       R"("implementation": "torchtitan", "recompute": {"mode": "operators"}, "training": {"global_batch": 64)",
       R"("engine": "megatron", "cuda_graphs": "module", "training": {"global_batch": 32)",
       R"("engine": "megatron", "cuda_graphs": "iteration", "parallel": {"pipeline": 2}, "training": {"global_batch": 32)",
       R"("engine": "megatron", "recompute": {"mode": "modules", "modules": ["mlp", "norms"]}, "training": {"global_batch": 32)",
       R"("engine": "megatron", "training": {"precision": "mxfp8", "frozen": ["*layers.0.*"], "global_batch": 16)"}) {
    const std::string problem = fmt::format(
        R"({{"model": "llama-3.2-1b", {}, "sequence_length": 2048}}, "cluster": {{"device": "{}", "devices": 4}}}})",
        run,
        run.find("mxfp8") != std::string::npos ? "b200" : "rtx-4090");  // whose products those are
    const auto document = read_json(problem, "problem");
    ASSERT_TRUE(document) << problem;
    const std::int64_t before = judged.compared;
    judge(problem, *document, {}, judged);
    EXPECT_GT(judged.compared, before) << problem;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GE(judged.fitting, 13);  // of 18
}

TEST(Search, AsksTheReadersForWhatIsAllowed) {
  const auto document =
      read_json(R"({"model": "llama-3.1-8b", "cluster": {"device": "h100-sxm-80gb", "devices": 8},)"
                R"( "parallel": {"tensor": 3}})",
                "run");
  const auto question = question_of(*document, serial_help());
  ASSERT_TRUE(question);
  EXPECT_TRUE(space_of(*question).empty());
}

TEST(Search, KeepsTheGlobalBatchAndWhatIsSaid) {
  const auto document = read_json(R"({"model": "llama-3.1-8b", "engine": "megatron",)"
                                  R"( "cluster": {"device": "h100-sxm-80gb", "devices": 16},)"
                                  R"( "training": {"global_batch": 48}, "parallel": {"tp": 2}})",
                                  "run");
  const auto question = question_of(*document, serial_help());
  ASSERT_TRUE(question);
  const Space space = space_of(*question);
  ASSERT_FALSE(space.empty());
  for (std::uint32_t number = 0; number < space.size(); ++number) {
    const Layout layout = space.layout(number);
    EXPECT_EQ(layout.devices(), 16);
    EXPECT_EQ(layout.tensor, 2);
    EXPECT_EQ(layout.engine, Engine::kMegatron);
    EXPECT_EQ(std::int64_t{1} * layout.micro_batch * layout.accumulation * layout.data, 48);
  }
}

}  // namespace
}  // namespace steelyard
