#include "sources/sources.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace steelyard {
namespace {

TEST(Sources, NamesAreTold) {
  std::set<std::string_view> names;
  for (const RowSource& source : row_sources()) {
    EXPECT_TRUE(names.insert(source.name).second) << source.name;
    EXPECT_NE(source.about, "");
    EXPECT_EQ(source.name.find('_'), std::string_view::npos);
  }
}

}  // namespace
}  // namespace steelyard
