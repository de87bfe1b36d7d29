#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "cli/machine_world.h"
#include "cli/read_invocation.h"
#include "cli/run_input.h"

namespace steelyard {
namespace {

std::vector<std::string> words_of(std::string_view example) {
  std::istringstream text{std::string(example)};
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

// No two flags of a command may have one name, be they ours or the run file's.
TEST(Commands, AcceptTheirOwnFlags) {
  for (const Command& command : commands()) {
    EXPECT_TRUE(read_invocation(command, {}, {}, {})) << command.name;
    for (const Flag& flag : flags())
      for (const std::string_view name : words_in(flag.commands)) {
        // A call of the library alone.
        if (name == "estimate") continue;
        EXPECT_NE(find_command(name), nullptr) << flag.name;
      }
  }
}

// What the help shows works as pasted.
TEST(Commands, ExamplesAreUnderstood) {
  MachineWorld machine;
  const InWorld here(machine);
  for (const Command& command : commands())
    for (const std::string_view example : command.examples) {
      std::vector<std::string> words = words_of(example);
      ASSERT_GE(words.size(), 2U) << example;
      EXPECT_EQ(words[0], "steelyard") << example;
      EXPECT_EQ(words[1], command.name) << example;
      words.erase(words.begin(), words.begin() + 2);
      const auto invocation = read_invocation(command, words, {}, {});
      ASSERT_TRUE(invocation) << example;
      if (command.name != "weigh" && command.name != "sweep" && command.name != "compare") continue;
      for (const std::string& word : invocation->words) {
        auto input = read_run(word);
        ASSERT_TRUE(input) << example;
        lay_over(input->document, edits_of(invocation->keys));
        EXPECT_TRUE(weigh_document(input->document, input->folder).prediction) << example;
      }
    }
}

TEST(Commands, ShortHelpIsOneScreen) {
  Style style;
  for (const Command& command : commands()) {
    const std::string text = short_help(command, style);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 45) << command.name;
  }
  const std::string overview = overview_text(style);
  EXPECT_LE(std::count(overview.begin(), overview.end(), '\n'), 24);
}

TEST(ReadInvocation, SwitchesHaveTheirOpposite) {
  const Command& weigh = *find_command("weigh");
  const auto said = read_invocation(
      weigh, {"7b", "--compile", "--no-sequence-parallel", "--micro-batch", "-1"}, {}, {});
  ASSERT_TRUE(said);
  ASSERT_EQ(said->keys.size(), 3U);
  for (const SaidKey& key : said->keys) {
    if (key.flag == "--compile") {
      EXPECT_EQ(key.text, "true");
    }
    if (key.flag == "--sequence-parallel") {
      EXPECT_EQ(key.text, "false");
    }
    if (key.flag == "--micro-batch") {
      EXPECT_EQ(key.text, "-1");
    }
  }
}

TEST(ReadInvocation, AliasesAndTheLastWordWin) {
  const auto said =
      read_invocation(*find_command("weigh"), {"7b", "--tp", "2", "--tensor", "4"}, {}, {});
  ASSERT_TRUE(said);
  ASSERT_EQ(said->keys.size(), 1U);
  EXPECT_EQ(said->keys[0].key, "parallel.tensor");
  EXPECT_EQ(said->keys[0].text, "4");
  EXPECT_EQ(said->words, (std::vector<std::string>{"7b"}));
}

TEST(Edits, OnSetsDeviceAndCount) {
  const std::vector<KeyEdit> both = edits_of({{"", "8 x H100", "--on"}});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].key, "cluster.devices");
  EXPECT_EQ(both[0].value.as_integer(), 8);
  EXPECT_EQ(both[1].value.as_string(), "H100");
  EXPECT_EQ(edits_of({{"", "24gb", "--on"}}).size(), 1U);
}

}  // namespace
}  // namespace steelyard
