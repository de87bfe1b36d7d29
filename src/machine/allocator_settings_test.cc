#include "machine/allocator_settings.h"

#include <gtest/gtest.h>

#include <vector>

namespace steelyard {
namespace {

TEST(AllocatorSettings, NothingSaidIsPyTorchsDefault) {
  for (const char* text : {"", " ", "backend:native", "pinned_num_register_threads:8,",
                           "release_lock_on_cudamalloc:True,pinned_use_background_threads:False"}) {
    const auto settings = read_allocator_settings(text, "test");
    ASSERT_TRUE(settings) << text;
    EXPECT_EQ(*settings, AllocatorSettings{}) << text;
  }
}

TEST(AllocatorSettings, EveryOption) {
  const auto settings = read_allocator_settings(
      "max_split_size_mb:128, max_non_split_rounding_mb:40 ,garbage_collection_threshold:0.8,"
      "expandable_segments:True,large_segment_size_mb:64,per_process_memory_fraction:0.75",
      "PYTORCH_ALLOC_CONF");
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->max_split_size, 128_MiB);
  EXPECT_EQ(settings->max_non_split_rounding, 40_MiB);
  EXPECT_EQ(settings->garbage_collection_threshold, 0.8);
  EXPECT_TRUE(settings->expandable_segments);
  EXPECT_EQ(settings->large_segment, 64_MiB);
  EXPECT_EQ(settings->memory_fraction, 0.75);
  EXPECT_EQ(read_allocator_settings("per_process_memory_fraction:1.0", "")->memory_fraction,
            std::nullopt);
}

TEST(AllocatorSettings, DivisionsForAllSizesOrBySize) {
  using Divisions = std::array<std::int64_t, kRoundupIntervals>;
  Divisions all{};
  all.fill(8);
  EXPECT_EQ(read_allocator_settings("roundup_power2_divisions:8", "")->roundup_divisions, all);
  // 64 MiB is the sixth interval: the first that is named also holds below itself.
  EXPECT_EQ(read_allocator_settings("roundup_power2_divisions:[64:8,128:2,512:4,>:1]", "")
                ->roundup_divisions,
            (Divisions{8, 8, 8, 8, 8, 8, 8, 2, 0, 4, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(read_allocator_settings("roundup_power2_divisions:[65536:2]", "")->roundup_divisions,
            (Divisions{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(read_allocator_settings("roundup_power2_divisions:[>:4]", "")->roundup_divisions,
            (Divisions{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}));
}

TEST(AllocatorSettings, ProblemsSayWhereAndWhatToWrite) {
  struct Case {
    const char* text;
    const char* code;
    int column;
    const char* message;
    const char* help;
  };
  const std::vector<Case> cases = {
      {"expandable_segment:True", "E104", 1, "unknown option \"expandable_segment\"",
       "the option is \"expandable_segments\""},
      {"max_split_size:128", "E104", 1, "unknown option \"max_split_size\"",
       "the option is \"max_split_size_mb\""},
      {"qwertz:1", "E104", 1, "unknown option \"qwertz\"",
       "the options are those of PYTORCH_ALLOC_CONF"},
      {"expandable_segments:true", "E105", 21, "expandable_segments is \"true\"",
       "PyTorch takes exactly True or False, with a capital"},
      {"max_split_size_mb:19", "E107", 19, "max_split_size_mb is 19",
       "PyTorch refuses less than 20"},
      {"max_split_size_mb:128MB", "E105", 19, "max_split_size_mb is \"128MB\"",
       "write a whole number, as in max_split_size_mb:512"},
      {"garbage_collection_threshold:1", "E107", 30, "garbage_collection_threshold is \"1\"",
       "write a number above 0 and below 1, as in garbage_collection_threshold:0.8"},
      {"roundup_power2_divisions:[256:3]", "E107", 31, "roundup_power2_divisions holds 3",
       "intervals and divisions are powers of two: 1, 2, 4, 8 ..."},
      {"garbage_collection_threshold:most", "E105", 30, "garbage_collection_threshold is \"most\"",
       "write a number above 0 and below 1, as in garbage_collection_threshold:0.8"},
      {"backend:mine", "E106", 9, "backend is \"mine\"",
       "the backends are native and cudaMallocAsync"},
      {"backend:cudaMallocAsync", "E320", 9, "backend:cudaMallocAsync is not simulated",
       "it is the driver's allocator, whose rules are not public: weigh with backend:native"},
      {"expandable_segments=True", "E104", 1, "unknown option \"expandable_segments=True\"",
       "the option is \"expandable_segments\""},
      {"expandable_segments", "E112", 20,
       "the text ends where the value of expandable_segments is due",
       "write option:value, separated by commas"},
      {"roundup_power2_divisions:[256:2", "E112", 32,
       "the text ends where a comma between two intervals is due",
       "write option:value, separated by commas"},
      {",", "E112", 1, "\",\" where the name of an option is due",
       "write option:value, separated by commas"},
  };
  for (const Case& expected : cases) {
    const auto settings = read_allocator_settings(expected.text, "PYTORCH_ALLOC_CONF");
    ASSERT_FALSE(settings) << expected.text;
    const Diagnostic& problem = settings.error().front();
    EXPECT_EQ(settings.error().size(), 1U) << expected.text;
    EXPECT_EQ(problem.code, expected.code) << expected.text;
    EXPECT_EQ(problem.message, expected.message);
    EXPECT_EQ(problem.help, expected.help) << expected.text;
    EXPECT_EQ(problem.place.column, expected.column) << expected.text;
    EXPECT_EQ(problem.place.source, "PYTORCH_ALLOC_CONF");
  }
}

TEST(AllocatorSettings, AllProblemsAtOnce) {
  const auto settings = read_allocator_settings(
      "expandable_segments:yes,roundup_power2_divisions:[3:1,4:2],max_split_size_mb:x", "");
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().size(), 3U);
}

}  // namespace
}  // namespace steelyard
