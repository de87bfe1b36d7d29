#include "machine/device.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "data/embedded.h"
#include "data/fact.h"

namespace steelyard {
namespace {

TEST(Device, TheContractsNames) {
  const std::vector<std::string> expected = {"v100-sxm-16gb",
                                             "v100-sxm-32gb",
                                             "t4",
                                             "a10g",
                                             "a100-sxm-40gb",
                                             "a100-sxm-80gb",
                                             "a100-pcie-40gb",
                                             "a100-pcie-80gb",
                                             "rtx-a6000",
                                             "l4",
                                             "l40s",
                                             "rtx-3090",
                                             "rtx-4090",
                                             "rtx-5090",
                                             "h100-sxm-80gb",
                                             "h100-sxm-96gb",
                                             "h100-pcie-80gb",
                                             "h100-nvl-94gb",
                                             "h20",
                                             "h800",
                                             "h200-sxm",
                                             "gh200-96gb",
                                             "gh200-144gb",
                                             "b200",
                                             "gb200",
                                             "b300",
                                             "gb300",
                                             "mi250x",
                                             "mi300x",
                                             "mi325x",
                                             "mi355x"};
  std::vector<std::string> names;
  for (const Device& device : devices()) names.push_back(device.name);
  EXPECT_EQ(names, expected);
}

TEST(Device, BandsAreInOrderAndOfTheSizeThatIsSold) {
  for (const Device& device : devices()) {
    EXPECT_LE(device.capacity, device.capacity_high) << device.name;
    EXPECT_LE(device.context_low, device.context) << device.name;
    EXPECT_LE(device.context, device.context_high) << device.name;
    EXPECT_LT(device.context_high, 1_GiB) << device.name;
    EXPECT_GT(device.cublas_workspace, 8_MiB) << device.name;
    const std::string path = "devices/" + device.name + ".json";
    const FactFile file(path, *embedded_text(path));
    const double sold =
        static_cast<double>(file.root()["marketing_memory"]["value"].bytes().value().value());
    const double seen = static_cast<double>(device.capacity.value().value());
    EXPECT_GT(seen / sold, 0.97) << device.name;
    EXPECT_LT(seen / sold, 1.08) << device.name;
  }
}

TEST(Device, ShortFormsSayWhatTheyWereTakenFor) {
  const auto taken = [](const char* name) {
    const DeviceMatch match = find_device(name);
    EXPECT_TRUE(match.short_form) << name;
    return match.device == nullptr ? "nothing" : match.device->name;
  };
  EXPECT_EQ(taken("h100"), "h100-sxm-80gb");
  EXPECT_EQ(taken("H100"), "h100-sxm-80gb");
  EXPECT_EQ(taken("a100"), "a100-sxm-80gb");
  EXPECT_EQ(taken("a100-80gb"), "a100-sxm-80gb");
  EXPECT_EQ(taken("4090"), "rtx-4090");
  EXPECT_EQ(taken("h200"), "h200-sxm");
  EXPECT_EQ(taken("mi300"), "mi300x");
}

TEST(Device, ShortFormsAreUniqueAndNoCanonicalName) {
  std::set<std::string> names;
  for (const Device& device : devices()) names.insert(device.name);
  for (const Device& device : devices())
    for (const std::string& form : device.short_forms) {
      EXPECT_TRUE(names.insert(form).second) << form;
      EXPECT_EQ(find_device(form).device->name, device.name);
    }
}

TEST(Device, CanonicalAndUnknownNames) {
  EXPECT_FALSE(find_device("h100-sxm-80gb").short_form);
  EXPECT_EQ(find_device("H100-SXM-80GB").device, find_device("h100-sxm-80gb").device);
  for (const char* name : {"", "h1000", "name", "../runtime", "\"h100\"", "value", "read"})
    EXPECT_EQ(find_device(name).device, nullptr) << name;
}

TEST(Device, Figure26EightBitsAreTwiceAsFastAsSixteen) {
  const DeviceRates& rates = find_device("h100").device->rates;
  EXPECT_NEAR(rates.fp8->value() / rates.bf16->value(), 2, 0.01);
}

TEST(Device, WorkspacesFollowTheArchitecture) {
  EXPECT_EQ(find_device("h100").device->cublas_workspace, 33'554'432_B);
  EXPECT_EQ(find_device("b200").device->cublas_workspace, 32_MiB);
  EXPECT_EQ(find_device("rtx-5090").device->cublas_workspace, 32_MiB);
  EXPECT_EQ(find_device("a100").device->cublas_workspace, 8'519'680_B);
  EXPECT_EQ(find_device("mi250x").device->cublas_workspace, 32_MiB);
  EXPECT_EQ(find_device("mi300x").device->cublas_workspace, 128_MiB);
}

// Every amount stands beside a source, and no number stands without a unit.
void expect_sourced(const nlohmann::json& node, const std::string& where, bool below_source) {
  if (node.is_object()) {
    const bool sourced = below_source || node.contains("source");
    if (node.contains("source")) {
      ASSERT_TRUE(node["source"].is_string()) << where;
      EXPECT_GT(node["source"].get<std::string>().size(), 8U) << where;
    }
    for (const auto& [key, value] : node.items()) {
      if (value.is_string() && key != "name" && key != "description") {
        EXPECT_TRUE(sourced) << where << ' ' << key;
      }
      expect_sourced(value, std::string(where).append(" ").append(key), sourced);
    }
  } else if (node.is_array()) {
    for (const auto& item : node) expect_sourced(item, where, below_source);
  } else if (node.is_string()) {
    EXPECT_FALSE(node.get<std::string>().empty()) << where;
  }
}

TEST(DeviceData, EveryFactHasItsOwnSource) {
  for (const EmbeddedFile& file : embedded_files_in("devices")) {
    const auto json = nlohmann::json::parse(file.text);
    for (const auto& [key, value] : json.items())
      if (value.is_object()) {
        EXPECT_TRUE(value.contains("source")) << file.path << ' ' << key;
        expect_sourced(value, std::string(file.path) + ' ' + key, false);
      } else if (value.is_number()) {
        EXPECT_EQ(key, "list_order") << file.path << ": a bare number has no unit";
      }
  }
  expect_sourced(nlohmann::json::parse(*embedded_text("runtime.json")), "runtime.json", false);
  expect_sourced(nlohmann::json::parse(*embedded_text("host_work.json")), "host_work.json", false);
}

TEST(DeviceData, EveryAmountHasAUnitThatReads) {
  for (const EmbeddedFile& file : embedded_files_in("devices")) {
    const FactFile facts(file.path, file.text);
    const Fact root = facts.root();
    EXPECT_GT(root["memory_bandwidth"]["value"].bytes_per_second().value(), 1e11) << file.path;
    if (root["link"].has("bandwidth_per_direction")) {
      EXPECT_GT(root["link"]["bandwidth_per_direction"].bytes_per_second().value(), 1e10);
    }
    const std::string power = root["power"]["value"].text();
    EXPECT_EQ(power.substr(power.size() - 2), " W") << file.path;
  }
}

TEST(DeviceData, MarksAreOfTheKnownKinds) {
  for (const Device& device : devices()) {
    const std::set<std::string> known = {"read", "second hand", "vendor, unconfirmed"};
    EXPECT_TRUE(known.count(device.capacity_mark)) << device.name << ' ' << device.capacity_mark;
  }
}

}  // namespace
}  // namespace steelyard
