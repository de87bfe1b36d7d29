#include "report/json_values.h"

#include <nlohmann/json.hpp>

namespace steelyard {

nlohmann::ordered_json json_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNull:
      break;
    case Value::Kind::kBool:
      return value.as_bool();
    case Value::Kind::kInteger:
      return value.as_integer();
    case Value::Kind::kNumber:
      return value.as_number();
    case Value::Kind::kString:
      return value.as_string();
    case Value::Kind::kArray: {
      auto list = nlohmann::ordered_json::array();
      for (const Value& item : value.items()) list.push_back(json_of(item));
      return list;
    }
    case Value::Kind::kTable: {
      auto table = nlohmann::ordered_json::object();
      for (const Value::Member& member : value.members()) table[member.key] = json_of(member.value);
      return table;
    }
  }
  return nullptr;
}

}  // namespace steelyard
