#include <fmt/format.h>

#include "sources/literal_row.h"

namespace steelyard {
namespace {

// The settings of the paper's Tables 1 (1F1B) and 2 (V-Half), by devices.
struct Setting {
  int devices, layers, hidden, heads;
  const char* size;
};
constexpr Setting kOn8{8, 32, 3072, 24, "~4B"}, kOn16{16, 48, 4096, 32, "~10B"};
constexpr Setting kVOn16{16, 32, 4096, 32, "~7B"}, kVOn24{24, 48, 5120, 40, "~16B"};

struct Result {
  const char* schedule;  // "1F1B / Baseline"
  int sequence;
  const char* words;  // "128k"
  double gibibytes, model_flops_utilization;
};

LiteralRow row_of(const Setting& setting, const Result& result) {
  const std::string_view schedule = result.schedule;
  const bool v_half = schedule.starts_with("V-Half");
  return LiteralRow(fmt::format(
      R"row({{"id": "vocabpp24-t{}-{}gpu-s{}-{}-v{}",
        "source": {{"title": "Yeung et al. 2024, Balancing Pipeline Parallelism with Vocabulary Parallelism",
        "url_or_repo": "arXiv:2411.05288 (MLSys 2025)",
        "where": "Table {} (results), Table {} (settings), section 6"}},
        "model": {{"name": "GPT-like {}", "layers": {}, "hidden": {}, "heads": {},
        "vocab": "{}", "params": "{}"}}, "hardware": {{"gpu": "NVIDIA A100 SXM 80GB",
        "gpu_memory_gib": 80, "gpus": {}}}, "framework": {{"name": "Megatron-LM based"}},
        "train": {{"seq_len": {}, "micro_batch": 1, "global_batch": 128, "grad_accum": 128}},
        "parallel": {{"dp": 1, "tp": 1, "pp": {}, {}"schedule": "{}"}},
        "measured": {{"peak_reported": {}, "oom": false, "mfu": {}}}}})row",
      v_half ? 6 : 5, setting.devices, result.sequence, schedule.substr(schedule.find(" / ") + 3),
      result.words, v_half ? 6 : 5, v_half ? 2 : 1, setting.size, setting.layers, setting.hidden,
      setting.heads, result.words, setting.size, setting.devices, result.sequence, setting.devices,
      v_half ? R"("vpp": 2, )" : "", schedule, result.gibibytes, result.model_flops_utilization));
}

// 128k is 128,000 words.
TEST(Yeung2024, ThousandsOfWords) {
  const LiteralRow row = row_of(kOn8, {"1F1B / Baseline", 2048, "128k", 19.25, 33.11});
  EXPECT_EQ(row.source(), "yeung-2024");
  EXPECT_EQ(row.says("model.vocab_size"), "128000");
  EXPECT_EQ(row.says("model.tie_word_embeddings"), "false");
  EXPECT_EQ(row.says("training.gradient_accumulation"), "128");
  EXPECT_EQ(row.says("training.precision"), R"("fp16-mixed")");
  EXPECT_EQ(row.says("training.dropout"), "0");
  EXPECT_EQ(row.mapped().inferred, "");
  ASSERT_EQ(row.mapped().readings.size(), 1U);
  EXPECT_EQ(row.reads(0), (std::pair(Meter::kAllocated, std::int64_t{20'669'530'112})));
  EXPECT_EQ(row.mapped().stage, std::nullopt);
  EXPECT_EQ(row.mapped().out_of_memory, std::optional(false));
}

// The head of 128,000 words costs as much as three layers.
TEST(Yeung2024, BalancedStages) {
  const LiteralRow row = row_of(kOn8, {"1F1B / Redis", 2048, "128k", 19.25, 44.22});
  EXPECT_EQ(row.source(), "yeung-2024");
  EXPECT_EQ(row.says("parallel.pipeline_layout"), "[4, 4, 4, 4, 5, 5, 5, 1]");
}

TEST(Yeung2024, SchedulesAndTheirVocabularies) {
  struct Named {
    Setting setting;
    Result result;
    const char* says;  // schedule, virtual_pipeline, vocabulary
  };
  const Named all[] = {
      {kVOn16, {"V-Half / Baseline", 2048, "256k", 46.77, 19.99}, R"("v-half" 2 nothing)"},
      {kOn8, {"1F1B / Vocab-1", 4096, "256k", 27.34, 50.66}, R"("1f1b" nothing "vocabulary-1")"},
      {kOn16, {"1F1B / Vocab-2", 2048, "64k", 23.83, 50.49}, R"("1f1b" nothing "vocabulary-2")"},
      {kOn8, {"1F1B / Interlaced", 2048, "128k", 18.43, 50.97}, R"("1f1b" nothing "interlaced")"},
      {kVOn24, {"V-Half / Vocab-1", 2048, "32k", 21.08, 56.7}, R"("v-half" 2 "vocabulary-1")"}};
  for (const Named& named : all) {
    const LiteralRow row = row_of(named.setting, named.result);
    EXPECT_EQ(fmt::format("{} {} {}", row.says("parallel.schedule"),
                          row.says("parallel.virtual_pipeline"), row.says("parallel.vocabulary")),
              named.says)
        << named.result.schedule;
    EXPECT_EQ(row.mapped().readings.size(), 1U);
  }
}

}  // namespace
}  // namespace steelyard
