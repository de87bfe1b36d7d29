// DCGM's exporter, as Prometheus reads it.
//
//   DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-5",pod="train-0"} 70123
//   DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-5"} 11436
//
// MiB. The numbers from 2^63 - 16 on are its codes for "no data", which no size is as large as.
#include <array>

#include "evidence/log_line_readers.h"
#include "evidence/printed.h"

namespace steelyard {
namespace {

constexpr std::array<std::string_view, 1> kDcgmWords = {"DCGM_FI_DEV_FB_"};

bool read_dcgm_line(const LogLine& line, LogState& state, bool called) {
  if (!called || line.text.find("# ") == 0) return false;
  const std::string_view text = line.text;
  const auto name = behind(text, "DCGM_FI_DEV_FB_");
  const auto value = behind(text, "} ");
  if (!name || !value) return false;
  std::string_view rest = *value;
  const auto number = take_printed_number(rest);
  const auto size = number ? printed_bytes(*number, kMebibyte) : std::nullopt;
  if (!size) return false;
  std::optional<std::int64_t> device;
  if (auto gpu = behind(text, "gpu=\"")) device = take_printed_integer(*gpu);
  auto& readings = state.evidence.readings;
  const bool goes_on =
      !readings.empty() && readings.back().source == "dcgm" && readings.back().device == device;
  // Used, then free, reserved and total of one device are one reading; an exporter groups by name, so mostly they are not.
  if (name->starts_with("USED{")) {
    MemoryReading reading;
    reading.source = "dcgm";
    reading.device = device;
    reading.label = "device";
    reading.device_used = size;
    state.add(std::move(reading), line);
  } else if (name->starts_with("FREE{")) {
    for (std::size_t i = readings.size(); i-- > 0 && readings.size() - i <= 64;) {
      MemoryReading& before = readings[i];
      if (before.source != "dcgm" || before.device != device || before.device_total) continue;
      before.device_total = before.device_used.value_or(Bytes(0)) + *size;
      break;
    }
  } else if (name->starts_with("TOTAL{") && goes_on) {
    readings.back().device_total = size;
  }
  return false;
}

}  // namespace

const LogLineReader kDcgmLines{"dcgm", kDcgmWords, read_dcgm_line};

}  // namespace steelyard
