#include "predict/step_band.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "document/read.h"
#include "job/read.h"
#include "predict/prediction.h"

namespace steelyard {
namespace {

Job job_on(const std::string& device, int devices, const std::string& engine) {
  const auto document = read_document(
      "model = \"llama-3.2-1b\"\nengine = \"" + engine + "\"\n[cluster]\ndevice = \"" + device +
          "\"\ndevices = " + std::to_string(devices) + "\n[training]\nsequence_length = 1024\n",
      "run.toml");
  return *read_job(*document);
}

const ObservedStepError* observed(const std::string& device, const std::string& engine) {
  for (const ObservedStepError& error : observed_step_errors())
    if (error.device == device && error.engine == engine && error.several) return &error;
  return nullptr;
}

TEST(StepBand, EveryErrorHoldsNothingAndNamesItsSource) {
  std::set<std::string> known;
  for (const ObservedStepError& error : observed_step_errors()) {
    EXPECT_LE(error.low, 0) << error.device;
    EXPECT_GT(error.low, -1) << error.device;
    EXPECT_GE(error.high, 0) << error.device;
    EXPECT_FALSE(error.source.empty());
    EXPECT_NE(find_device(error.device).device, nullptr) << error.device;
    EXPECT_TRUE(known
                    .insert(error.device + " " + error.engine + " " + error.implementation +
                            (error.several ? " several" : " one"))
                    .second);
  }
}

TEST(StepBand, IsThatOfTheDeviceAndEngineWhereRowsBackIt) {
  const ObservedStepError* error = observed("rtx-3090", "deepspeed");
  ASSERT_NE(error, nullptr);
  const Job job = job_on("rtx-3090", 8, "deepspeed");
  const StepBand band = step_band(job);
  EXPECT_TRUE(band.backed);
  EXPECT_NEAR(band.high, error->high * 1.2, 1e-9);  // another cluster
  EXPECT_EQ(band.says, error->source);
  const StepTime time = *predict_time(job);
  EXPECT_GE(time.high.value(), time.step.value() * (1 + error->high * 1.2) * (1 - 1e-9));
}

// Nobody published steps of FSDP2 on several L40S: their peers reach each other through PCIe, as those of RTX 3090s do.
TEST(StepBand, IsTheWidestOfItsClassWhereNoneDo) {
  const StepBand band = step_band(job_on("l40s", 8, "fsdp2"));
  EXPECT_FALSE(band.backed);
  EXPECT_GE(band.high, observed("rtx-3090", "deepspeed")->high);
  EXPECT_NE(band.says.find("no published step of fsdp2"), std::string::npos);
  // What stands behind a switch is no evidence of them, nor they of it; of its own architecture there is evidence.
  const StepBand hopper = step_band(job_on("h100-sxm-80gb", 8, "fsdp2"));
  EXPECT_FALSE(hopper.backed);
  EXPECT_LT(hopper.high, band.high);
  EXPECT_NE(hopper.says.find("sm_90"), std::string::npos);
  // One device exchanges nothing.
  EXPECT_LT(step_band(job_on("rtx-3090", 1, "ddp")).high, 1);
}

}  // namespace
}  // namespace steelyard
