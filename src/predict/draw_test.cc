#include "predict/draw.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

using Steps = std::vector<std::vector<double>>;
using Order = std::vector<std::size_t>;

TEST(Draw, IsOfThoseThatDrawTheOneThatLosesLeast) {
  struct Case {
    const char* what;
    Steps steps;
    Order order;
  };
  for (const Case& one : {
           Case{"one machine: the fastest, the earlier of equals",
                {{2.0}, {2.0}, {1.99}},
                {2, 0, 1}},
           Case{"a draw here, behind there", {{1.000, 2.0}, {1.005, 1.5}}, {1, 0}},
           Case{"no draw here, however far ahead there", {{1.00, 9.0}, {1.02, 1.0}}, {0}},
           Case{"the least of the greatest losses, not of their sum",
                {{1.0, 1.2, 1.2}, {1.0, 1.0, 1.3}, {1.0, 1.3, 1.0}},
                {0, 1, 2}},
           Case{"what is no draw does not say what is lost",
                {{1.000, 2.0}, {1.001, 2.0}, {1.500, 0.1}},
                {0, 1}},
           Case{"nothing", {}, {}},
       })
    EXPECT_EQ(steadiest_first(one.steps), one.order) << one.what;
}

}  // namespace
}  // namespace steelyard
