#include "machine/machine.h"

#include <gtest/gtest.h>

namespace steelyard {
namespace {

TEST(Machine, EachIsBuiltWithDevicesThatAreKnown) {
  for (const Machine& machine : machines()) {
    EXPECT_FALSE(machine.devices.empty()) << machine.name;
    for (const std::string& device : machine.devices)
      EXPECT_NE(find_device(device).device, nullptr) << machine.name << ": " << device;
    EXPECT_GT(machine.interface_bandwidth.value(), 1e9) << machine.name;
    EXPECT_GE(machine.host_memory, 100_GiB) << machine.name;
  }
}

TEST(Machine, EachDeviceStandsInOne) {
  for (const Device& device : devices()) EXPECT_NE(usual_machine(device), nullptr) << device.name;
}

TEST(Machine, TheWayOutIsSharedByItsDevices) {
  EXPECT_DOUBLE_EQ(find_machine("hgx-h100")->network_per_device().value(), 50e9);
  EXPECT_DOUBLE_EQ(find_machine("aws-p4d")->network_per_device().value(), 6.25e9);
  EXPECT_EQ(usual_machine(*find_device("h100").device)->name, "hgx-h100");
  EXPECT_EQ(find_machine("hgx-z100"), nullptr);
}

TEST(Machine, AFasterNetworkReachesMoreAndSendingAnythingElseIsNotMeasured) {
  Machine p5 = *find_machine("aws-p5");
  ASSERT_TRUE(p5.measured.some());
  const Machine wider = p5.widened(2);
  EXPECT_DOUBLE_EQ(wider.network().value(), 2 * p5.network().value());
  EXPECT_DOUBLE_EQ(wider.measured.gather[0].bus.value(), 2 * p5.measured.gather[0].bus.value());
  EXPECT_EQ(wider.measured.ring_step, p5.measured.ring_step);
  p5.send(BytesPerSecond(1e9));
  EXPECT_FALSE(p5.measured.some());
}

}  // namespace
}  // namespace steelyard
