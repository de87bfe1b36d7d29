// OmegaConf's references to numbers of the same file, as NeMo's configurations write them.
//
//   ${multiply:4, ${.hidden_size}}   ${model.hidden_size}   ${training.model.hidden_size}   ${divide_ceil:${.a}, 8}
//
// What is not resolved stays what it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "document/value.h"

namespace steelyard {

class References {
 public:
  explicit References(const Value& document) : document_(document) {}

  // `section`: the table that the value stands in, for references that begin with a dot.
  Value resolved(const Value& value, std::string_view section, int depth = 0) const;

 private:
  std::optional<std::int64_t> number(std::string_view text, std::string_view section,
                                     int depth) const;
  std::optional<std::int64_t> computed(std::string_view text, std::string_view section,
                                       int depth) const;

  const Value& document_;
};

}  // namespace steelyard
