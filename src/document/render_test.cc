#include "document/render.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace steelyard {
namespace {

const Diagnostic kMisspelt{Severity::kError,
                           "E104",
                           "unknown key \"sequence_lenght\"",
                           {"run.toml", 11, 1, "sequence_lenght = 16384", 15},
                           "not a key of [training]",
                           "the key is \"sequence_length\""};

// The form that the design shows, to the letter.
TEST(Render, OneBlock) {
  EXPECT_EQ(render(kMisspelt),
            "error[E104]: unknown key \"sequence_lenght\"                      run.toml:11:1\n"
            "   11 | sequence_lenght = 16384\n"
            "      | ^^^^^^^^^^^^^^^ not a key of [training]\n"
            "help: the key is \"sequence_length\"\n");
}

TEST(Render, AllBlocksAndWhatDidNotHappen) {
  const Diagnostic product{Severity::kError,
                           "E210",
                           "8 x 2 x 3 = 48 is not 64 devices",
                           {"run.toml", 20, 1, "pipeline = 3", 12},
                           "tensor 8 · pipeline 3 · data 2 (line 18)",
                           "pipeline = 4 keeps data 2; pipeline = 2 with data 4 also fits 64"};
  const std::string text = render({kMisspelt, product}, "nothing weighed");
  EXPECT_TRUE(text.ends_with(
      "\n"
      "error[E210]: 8 x 2 x 3 = 48 is not 64 devices                   run.toml:20:1\n"
      "   20 | pipeline = 3\n"
      "      | ^^^^^^^^^^^^ tensor 8 · pipeline 3 · data 2 (line 18)\n"
      "help: pipeline = 4 keeps data 2; pipeline = 2 with data 4 also fits 64\n"
      "\n"
      "2 problems, nothing weighed. `steelyard explain E210` says why the rule exists\n"))
      << text;
}

TEST(Render, AFlagHasNoLine) {
  const Diagnostic problem{Severity::kError,  "E107", "tensor is 0", {"--tensor", 0, 0, {}, 0},
                           "needs 1 or more", {}};
  EXPECT_EQ(render(problem),
            "error[E107]: tensor is 0                                        --tensor\n"
            "   needs 1 or more\n");
}

TEST(Render, LongLinesAreCutAroundTheWord) {
  Diagnostic problem = kMisspelt;
  problem.place.text = std::string(3000, 'a') + "HERE" + std::string(3000, 'b');
  problem.place.column = 3001;
  problem.place.length = 4;
  const std::string text = render(problem);
  EXPECT_NE(text.find("HERE"), std::string::npos);
  EXPECT_LT(text.size(), 400U);
  const std::size_t line = text.find("   11 | ");
  const std::size_t under = text.find("      | ");
  EXPECT_EQ(text.find("HERE") - line, text.find("^^^^") - under);
}

TEST(Render, CaretStaysUnderItsWordAfterWideText) {
  Diagnostic problem = kMisspelt;
  problem.place.text = "\tü = \"x\"";
  problem.place.column = 6;
  problem.place.length = 3;
  EXPECT_NE(render(problem).find("   11 |  ü = \"x\"\n      |      ^^^ "), std::string::npos)
      << render(problem);
}

TEST(Render, AFileCannotSteerTheTerminal) {
  Diagnostic problem = kMisspelt;
  problem.place.text = "\x1b[2Jx";
  problem.message = "\x1b[31m";
  EXPECT_EQ(render(problem).find('\x1b'), std::string::npos);
  EXPECT_NE(render(problem, {.colour = true}).find("\x1b[31merror[E104]\x1b[0m"),
            std::string::npos);
}

TEST(Render, Json) {
  EXPECT_EQ(problems_as_json({kMisspelt}),
            "{\"schema\":\"steelyard.error/"
            "1\",\"problems\":[{\"code\":\"E104\",\"message\":\"unknown key "
            "\\\"sequence_lenght\\\"\",\"source\":\"run.toml\",\"line\":11,\"column\":1,\"label\":"
            "\"not a key of "
            "[training]\",\"help\":\"the key is \\\"sequence_length\\\"\"}]}");
  Diagnostic broken = kMisspelt;
  broken.message = "not UTF-8: \xff";
  EXPECT_TRUE(nlohmann::json::accept(problems_as_json({broken})));
}

}  // namespace
}  // namespace steelyard
