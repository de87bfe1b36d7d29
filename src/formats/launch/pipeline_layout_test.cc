#include "formats/launch/pipeline_layout.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

using Layers = std::vector<std::int64_t>;

TEST(PipelineLayout, RepetitionsAreUnrolledAsMegatronDoes) {
  EXPECT_EQ(layers_of_layout("Ettt|(tt|)*3,m|L"), (Layers{3, 2, 2, 2, 0, 0}));
  EXPECT_EQ(layers_of_layout("Et*7|t*7mL"), (Layers{7, 7}));
  EXPECT_EQ(layers_of_layout("Et*3|(tt|)*6mL"), (Layers{3, 2, 2, 2, 2, 2, 2, 0}));
  EXPECT_EQ(layers_of_layout("Et*2|(tt|)*5t|tmL"), (Layers{2, 2, 2, 2, 2, 2, 1, 1}));
}

TEST(PipelineLayout, WhatIsNoneIsNothing) {
  for (const char* text :
       {"", "(tt", "()*3", "(tt|)", "Et*3|x", "t*", "(t|)*999999999", "t*9999999"})
    EXPECT_FALSE(layers_of_layout(text)) << text;
}

TEST(PipelineLayout, WhatIsWrittenIsRead) {
  const Layers layers = {4, 5, 1, 0};
  EXPECT_EQ(layout_of_layers(layers), "Et*4|t*5|t*1|L");
  EXPECT_EQ(layers_of_layout(layout_of_layers(layers)), layers);
}

}  // namespace
}  // namespace steelyard
