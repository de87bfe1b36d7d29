#include "job/environment_keys.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace steelyard {
namespace {

std::string source_of(const char* path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Every name that the reader asks for stands in the table, and the table marks no other as read.
TEST(EnvironmentKeys, AreExactlyThoseThatAreRead) {
  const std::string source = source_of("src/job/environment_choice.cc");
  ASSERT_FALSE(source.empty());
  std::set<std::string> asked;
  const std::regex lookup(R"((?:said_version|named)\(document,\s*"([^"]+)\")");
  for (std::sregex_iterator at(source.begin(), source.end(), lookup), end; at != end; ++at)
    asked.insert((*at)[1]);
  // Named by constants.
  asked.insert({"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "TORCH_DISTRIBUTED_DEBUG"});
  std::set<std::string> listed;
  for (const EnvironmentKey& key : environment_keys()) {
    EXPECT_FALSE(key.takes.empty() || key.absent.empty() || key.changes.empty() ||
                 key.source.empty())
        << key.name;
    if (key.is_read) {
      EXPECT_TRUE(listed.insert(std::string(key.name)).second) << key.name << " stands twice";
    }
  }
  EXPECT_EQ(listed, asked);
}

}  // namespace
}  // namespace steelyard
