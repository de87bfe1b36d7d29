// Names of models and devices are taken or offered only when they are near: slips of the keyboard find the preset that was
// meant, and products that are not known get no other product's name.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "document/edit_distance.h"
#include "job/device_choice.h"
#include "job/slipped.h"
#include "model/catalogue.h"

namespace steelyard {
namespace {

TEST(ProductNames, SlipsFindThePresetThatWasMeant) {
  const std::vector<std::string_view> names = preset_names();
  ASSERT_GE(names.size(), 163U);
  std::mt19937 random(29);
  for (const int slips : {1, 2}) {
    int first = 0, all = 0;
    for (int round = 0; round < 10; ++round)
      for (const std::string_view name : names) {
        std::string word(name);
        for (int i = 0; i < slips; ++i) word = slipped(word, random);
        if (std::find(names.begin(), names.end(), word) != names.end()) continue;
        ++all;
        const auto near = nearest_products(word, names, MustKeep::kNumbers);
        if (!near.empty() && near.front() == name) ++first;
      }
    EXPECT_GE(first, all * 95 / 100) << slips << " slips";
  }
}

TEST(ProductNames, NoOtherModelIsTakenOrOffered) {
  for (const char* name : {"deepseek-v4",
                           "kimi-k3",
                           "glm-4.6",
                           "gpt-4",
                           "gpt-5",
                           "llama-5-8b",
                           "llama-3.1-7b",
                           "llama-4-behemoth",
                           "mistral-small-19b",
                           "mpt-7b",
                           "baichuan-7b",
                           "internlm-7b",
                           "gpt-oss-200b",
                           "qwen3-max",
                           "gemma-3n-4b",
                           "olmo-7b",
                           "stablelm-2-12b",
                           "granite-3b",
                           "phi-5",
                           "grok-1"}) {
    Diagnostics problems;
    const auto found = find_model(name, {}, problems);
    EXPECT_FALSE(found) << name << " was taken for " << (found ? found->architecture->name : "");
    ASSERT_FALSE(problems.empty()) << name;
    EXPECT_EQ(problems.front().help.find("the model "), std::string::npos)
        << name << ": " << problems.front().help;
  }
}

TEST(ProductNames, NoOtherDeviceIsTakenOrOffered) {
  for (const char* name : {"RTX PRO 6000", "RTX PRO 6000 Blackwell",
                           "RTX 6000 Ada", "rtx-6000",
                           "H300",         "B100",
                           "A800",         "A800-SXM-80GB",
                           "8xA800",       "L40",
                           "A10",          "A30",
                           "A40",          "MI300A",
                           "L20",          "GB100",
                           "V100S",        "RTX 4080",
                           "RTX 5080",     "sxm",
                           "pcie",         "P100",
                           "Gaudi3",       "TPU v5"}) {
    Diagnostics problems;
    const auto found = choose_device(name, {}, problems);
    EXPECT_FALSE(found) << name << " was taken for " << (found ? found->device->name : "");
    ASSERT_FALSE(problems.empty()) << name;
    EXPECT_EQ(problems.front().help.find("the device "), std::string::npos)
        << name << ": " << problems.front().help;
  }
}

TEST(ProductNames, WhatIsNearIsOffered) {
  const auto offered = [](const char* name) {
    Diagnostics problems;
    choose_device(name, {}, problems);
    return problems.empty() ? std::string() : problems.front().help;
  };
  EXPECT_NE(offered("h100-smx-80gb").find("h100-sxm-80gb"), std::string::npos);
  EXPECT_NE(offered("rxt-4090").find("rtx-4090"), std::string::npos);
  EXPECT_NE(offered("a100-pice").find("a100-pcie"), std::string::npos);
}

}  // namespace
}  // namespace steelyard
