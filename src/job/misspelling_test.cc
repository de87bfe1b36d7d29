// Two hundred slips of the keyboard: the right name comes first in at least 95 of 100, and nonsense gets no name.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "document/edit_distance.h"
#include "job/keys.h"
#include "job/slipped.h"

namespace steelyard {
namespace {

struct Tally {
  int first = 0, all = 0;
};

Tally try_slips(const std::vector<std::string>& names, int count, int slips, std::mt19937& random) {
  Tally tally;
  while (tally.all < count) {
    const std::string& name =
        names[std::uniform_int_distribution<std::size_t>(0, names.size() - 1)(random)];
    std::string word = name;
    for (int i = 0; i < slips; ++i) word = slipped(word, random);
    if (word == name || std::find(names.begin(), names.end(), word) != names.end()) continue;
    ++tally.all;
    const auto near = nearest_names(word, std::span<const std::string>(names));
    if (!near.empty() && near.front() == name) ++tally.first;
  }
  return tally;
}

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (const Key& key : run_file_keys())
    if (key.section == "training" || key.section == "parallel" || key.section == "cluster")
      names.emplace_back(key.name);
  return names;
}

TEST(Misspelling, TheRightNameComesFirst) {
  std::mt19937 random(20);
  Tally total;
  const auto add = [&](const std::vector<std::string>& names, int count, int slips) {
    const Tally tally = try_slips(names, count, slips, random);
    total.first += tally.first;
    total.all += tally.all;
  };
  add(key_names(), 60, 1);
  add(accepted_names(key_of(KeyId::kDevice)), 40, 1);
  add(accepted_names(key_of(KeyId::kModel)), 60, 1);
  // Two slips where the word is long enough to survive them.
  std::vector<std::string> long_names;
  for (const std::string& name : key_names())
    if (name.size() >= 9) long_names.push_back(name);
  add(long_names, 40, 2);
  EXPECT_EQ(total.all, 200);
  EXPECT_GE(total.first, 190) << "of " << total.all;
}

TEST(Misspelling, NonsenseGetsNoName) {
  std::mt19937 random(7);
  std::vector<std::string> names = key_names();
  for (const KeyId id : {KeyId::kDevice, KeyId::kModel, KeyId::kOptimizer, KeyId::kEngine})
    for (const std::string& name : accepted_names(key_of(id))) names.push_back(name);
  for (int i = 0; i < 200; ++i) {
    std::string word;
    const int length = std::uniform_int_distribution<int>(6, 14)(random);
    for (int k = 0; k < length; ++k)
      word += "bcdfghjkqvwxz"[std::uniform_int_distribution<int>(0, 12)(random)];
    EXPECT_TRUE(nearest_names(word, std::span<const std::string>(names)).empty()) << word;
  }
}

}  // namespace
}  // namespace steelyard
