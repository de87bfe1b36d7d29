#include "data/embedded.h"

#include <gtest/gtest.h>

#include <string>

#include "data/version.h"

namespace steelyard {
namespace {

TEST(Embedded, PathsAreSortedAndUnique) {
  const auto files = embedded_files();
  for (std::size_t i = 1; i < files.size(); ++i) {
    EXPECT_LT(files[i - 1].path, files[i].path);
  }
}

TEST(Embedded, EveryFileIsFoundByItsPathAndInItsFolder) {
  for (const EmbeddedFile& file : embedded_files()) {
    EXPECT_EQ(embedded_text(file.path), file.text);
    const auto slash = file.path.find('/');
    if (slash == std::string_view::npos) continue;
    bool found = false;
    for (const EmbeddedFile& neighbour : embedded_files_in(file.path.substr(0, slash))) {
      EXPECT_TRUE(neighbour.path.substr(0, slash + 1) == file.path.substr(0, slash + 1));
      found = found || neighbour.path == file.path;
    }
    EXPECT_TRUE(found) << file.path;
  }
}

TEST(Embedded, UnknownNamesAreAbsentNotErrors) {
  EXPECT_EQ(embedded_text("models/no-such-model.json"), std::nullopt);
  EXPECT_EQ(embedded_text(""), std::nullopt);
  EXPECT_TRUE(embedded_files_in("no-such-folder").empty());
}

TEST(Embedded, VersionHasThreeNumbers) {
  const std::string text(version());
  int dots = 0;
  for (const char c : text) dots += c == '.' ? 1 : 0;
  EXPECT_EQ(dots, 2) << text;
}

}  // namespace
}  // namespace steelyard
