// [ ] and { }.
#include <fmt/format.h>

#include "document/yaml_reader.h"

namespace steelyard {
Value YamlReader::flow(int depth) {
  if (depth > kMaximumDepth)
    throw YamlFault{
        "E103", fmt::format("nested more than {} deep", kMaximumDepth), at_, "too deep", {}};
  ++flow_depth_;
  Value value = peek() == '[' ? flow_list(at_, depth) : flow_table(at_, depth);
  --flow_depth_;
  return value;
}

Value YamlReader::flow_value(int depth) {
  Properties properties;
  while (peek() == '&' || peek() == '!') {
    if (peek() == '&') {
      ++at_;
      properties.anchor = word_of_property();
    } else {
      properties.tag = word_of_property();
      check_tag(properties.tag);
    }
    skip_space();
  }
  const std::size_t from = at_;
  Mark mark = mark_here();
  if (peek() == '*') return alias(depth);
  Value value = peek() == '[' || peek() == '{' ? flow(depth + 1) : scalar(0, properties);
  return finish(properties, std::move(value), std::move(mark), from);
}

Value YamlReader::flow_list(std::size_t from, int depth) {
  Value list = Value::array();
  ++at_;
  for (;;) {
    need_more(from);
    if (peek() == ']') break;
    const std::size_t item = at_;
    list.items().push_back(flow_value(depth));
    need_more(from);
    if (peek() == ':')
      throw YamlFault{
          "E101", "not understood here", item, "a list holds values, not `key: value`", {}};
    if (peek() == ',') {
      ++at_;
    } else if (peek() != ']') {
      throw YamlFault{"E101", "not YAML here", at_, "expected a comma or ]", {}};
    }
  }
  ++at_;
  return list;
}

Value YamlReader::flow_table(std::size_t from, int depth) {
  Value table = Value::table();
  std::vector<Value> merged;
  RepeatedKeys keys;
  ++at_;
  for (;;) {
    need_more(from);
    if (peek() == '}') break;
    const std::size_t key_from = at_;
    if (is_flow_sign(peek()) || peek() == ':')
      throw YamlFault{"E101", "not YAML here", at_, "expected a key", {}};
    Mark mark = mark_here();
    std::string key = peek() == '"' || peek() == '\'' ? quoted().as_string() : plain_line();
    close(mark, key_from, at_);
    need_more(from);
    Value value;
    value.set_mark(mark);
    if (peek() == ':') {
      ++at_;
      need_more(from);
      if (peek() != ',' && peek() != '}') value = flow_value(depth);
    }
    add(table, keys, merged, std::move(key), std::move(mark), std::move(value));
    need_more(from);
    if (peek() == ',') {
      ++at_;
    } else if (peek() != '}') {
      throw YamlFault{"E101", "not YAML here", at_, "expected a comma or }", {}};
    }
  }
  ++at_;
  merge(table, keys, merged);
  return table;
}

}  // namespace steelyard
