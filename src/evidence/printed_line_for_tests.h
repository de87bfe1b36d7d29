// What a memory line of a framework or a tool must be read as; for tests alone.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "evidence/log_reader.h"
#include "evidence/printed.h"

namespace steelyard {

inline std::optional<Bytes> of(double amount, double unit) { return printed_bytes(amount, unit); }

struct PrintedLine {
  std::string text, source, label;
  std::optional<std::int64_t> rank, device, step;
  std::optional<Bytes> allocated, max_allocated, reserved, max_reserved, used, total, host;
  std::optional<double> seconds = {};
  std::optional<std::int64_t> retries = {}, ooms = {};
};

inline void expect_reading(const PrintedLine& want, const MemoryReading& got) {
  EXPECT_EQ(got.source, want.source);
  EXPECT_EQ(got.label, want.label);
  EXPECT_EQ(got.rank, want.rank);
  EXPECT_EQ(got.device, want.device);
  EXPECT_EQ(got.step, want.step);
  EXPECT_EQ(got.allocated, want.allocated);
  EXPECT_EQ(got.max_allocated, want.max_allocated);
  EXPECT_EQ(got.reserved, want.reserved);
  EXPECT_EQ(got.max_reserved, want.max_reserved);
  EXPECT_EQ(got.device_used, want.used);
  EXPECT_EQ(got.device_total, want.total);
  EXPECT_EQ(got.host_used, want.host);
  EXPECT_EQ(got.step_seconds, want.seconds);
  EXPECT_EQ(got.retries, want.retries);
  EXPECT_EQ(got.ooms, want.ooms);
}

// Each line is one reading, and no failure.
inline void expect_each_read(const std::vector<PrintedLine>& lines) {
  for (const PrintedLine& line : lines) {
    SCOPED_TRACE(line.text);
    const Evidence evidence = read_log(line.text + "\n", "train.log");
    ASSERT_EQ(evidence.readings.size(), 1U);
    expect_reading(line, evidence.readings.front());
    EXPECT_TRUE(evidence.failures.empty());
  }
}

}  // namespace steelyard
