#include "report/error_codes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace steelyard {
namespace {

// Every code that a source writes in quotes, tests and this list apart.
std::set<std::string> codes_in_sources() {
  std::set<std::string> codes;
  const std::regex code("\"([A-Z][0-9]{3})\"");
  for (const auto& entry : std::filesystem::recursive_directory_iterator("src")) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".cc" || path.find("_test.cc") != std::string::npos ||
        path.find("error_codes.cc") != std::string::npos)
      continue;
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    const std::string source = text.str();
    for (std::sregex_iterator at(source.begin(), source.end(), code), end; at != end; ++at)
      codes.insert((*at)[1]);
  }
  return codes;
}

TEST(ErrorCodes, AreExactlyThoseThatTheSourcesUse) {
  std::set<std::string> listed;
  for (const ErrorCode& known : error_codes()) {
    EXPECT_TRUE(listed.insert(std::string(known.code)).second) << known.code << " stands twice";
    EXPECT_FALSE(known.title.empty() || known.why.empty()) << known.code;
  }
  EXPECT_EQ(listed, codes_in_sources());
}

// "E220" of a problem, written in any case.
TEST(ErrorCodes, AreFoundHoweverTheyAreWritten) {
  ASSERT_NE(find_error_code("e220"), nullptr);
  EXPECT_EQ(find_error_code("e220"), find_error_code("E220"));
  EXPECT_EQ(find_error_code("E000"), nullptr);
}

TEST(ErrorCodes, SayWhichMeanThatTheRunDiesAtStart) {
  EXPECT_TRUE(dies_at_start({{Severity::kWarning, "E260", {}, {}, {}, {}}}));
  EXPECT_FALSE(dies_at_start({{Severity::kWarning, "E220", {}, {}, {}, {}}}));
  EXPECT_FALSE(dies_at_start({}));
}

}  // namespace
}  // namespace steelyard
