// A table of config.json's keys in the making, each where a launch file said it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "document/value.h"

namespace steelyard {

class ModelTable {
 public:
  // `at`: where keys stand that nobody wrote.
  explicit ModelTable(const Value& at) : at_(at.mark()) { table_.set_mark(at_); }

  void put(std::string_view key, Value value, const Value* from = nullptr) {
    const Mark mark = from == nullptr ? at_ : from->mark();
    value.set_mark(mark);
    table_.members().push_back({std::string(key), mark, std::move(value)});
  }

  Value value() && { return std::move(table_); }

 private:
  Mark at_;
  Value table_ = Value::table();
};

}  // namespace steelyard
