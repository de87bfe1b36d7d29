// For tests: a published row as it stands in a test, and what its mapper makes of it.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "document/read.h"
#include "job/read.h"
#include "sources/sources.h"
#include "validate/measured_row.h"

namespace steelyard {

class LiteralRow {
 public:
  explicit LiteralRow(std::string_view json) : document_(read_json(json, "row").value()) {
    MeasuredRow row(document_);
    for (const RowSource& source : row_sources())
      if (source_ == nullptr && source.owns(row)) source_ = &source;
    if (source_ != nullptr) mapped_ = source_->map(row);
  }

  std::string_view source() const { return source_ == nullptr ? "none" : source_->name; }
  std::string left_out() const { return mapped_ ? "not left out" : mapped_.error().why; }
  const MappedRun& mapped() const { return mapped_.value(); }
  std::pair<Meter, std::int64_t> reads(std::size_t index) const {
    const Reading& reading = mapped().readings.at(index);
    return {reading.meter, reading.bytes.value().value()};
  }
  // What the run file says at a key, as a person would type it.
  std::string says(std::string_view key) const {
    const Value* value = mapped_ ? mapped().run.at(key) : nullptr;
    return value == nullptr ? "nothing" : shown(*value);
  }

 private:
  Value document_;
  const RowSource* source_ = nullptr;
  Mapped mapped_ = steelyard::left_out("no source");
};

}  // namespace steelyard
