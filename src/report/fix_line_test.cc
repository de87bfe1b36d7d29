#include "report/fix_line.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

std::string of(std::string before, std::string after) {
  return fix_line_text({"f", {7, std::move(before), std::move(after)}});
}

TEST(FixLine, SaysTheKeyAndBothValues) {
  EXPECT_EQ(of("  micro_batch_size: 16", "  micro_batch_size: 1"), "f:7 micro_batch_size: 16 -> 1");
  EXPECT_EQ(of("loss = \"full\"  # as ever", "loss = \"chunked\"  # as ever"),
            "f:7 loss = \"full\" -> \"chunked\"");
  EXPECT_EQ(of("torchrun train.py --bs 8 --lr 1", "torchrun train.py --bs 2 --lr 1"),
            "f:7 --bs 8 -> 2");
  EXPECT_EQ(of("  --bs 8 \\", "  --bs 2 \\"), "f:7 --bs 8 -> 2");
}

TEST(FixLine, OfALineThatJoinsOrGoes) {
  EXPECT_EQ(of("", "gradient_checkpointing: true"), "f:7 + gradient_checkpointing: true");
  EXPECT_EQ(of("load_in_8bit: true", ""), "f:7 - load_in_8bit: true");
  EXPECT_EQ(of("", "  --bf16 \\"), "f:7 + --bf16");
  EXPECT_EQ(of("run.py --lr 1", "run.py --lr 1 --gradient_checkpointing"),
            "f:7 + --gradient_checkpointing");
  EXPECT_EQ(of("run.py --lr 1 --fp32", "run.py --lr 1"), "f:7 - --fp32");
}

TEST(FixLine, ALongWordIsCutBetweenCharacters) {
  std::string text = of("", "k: " + std::string(58, 'x') + "\xC3\xA9 more and more");
  EXPECT_EQ(text, "f:7 + k: " + std::string(58, 'x') + "...");
}

}  // namespace
}  // namespace steelyard
