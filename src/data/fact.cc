#include "data/fact.h"

#include <nlohmann/json.hpp>

#include "quantity/parse.h"

namespace steelyard {
namespace {

template <class Value>
Value parsed_or_fail(const Fact& fact, Parsed<Value> (*parse)(std::string_view)) {
  auto value = parse(fact.text());
  if (!value) fact.fail(value.error().message);
  return *value;
}

}  // namespace

void Fact::fail(const std::string& complaint) const { throw DataError(where_ + ": " + complaint); }

bool Fact::has(std::string_view key) const {
  return node_->is_object() && node_->contains(std::string(key));
}

Fact Fact::operator[](std::string_view key) const {
  if (!node_->is_object()) fail("is no object");
  const auto found = node_->find(std::string(key));
  if (found == node_->end()) fail("lacks \"" + std::string(key) + '"');
  return Fact(*found, where_ + ' ' + std::string(key));
}

std::vector<Fact> Fact::items() const {
  if (!node_->is_array()) fail("is no list");
  std::vector<Fact> items;
  for (std::size_t i = 0; i < node_->size(); ++i)
    items.emplace_back((*node_)[i], where_ + '[' + std::to_string(i) + ']');
  return items;
}

std::vector<std::string> Fact::keys() const {
  if (!node_->is_object()) fail("is no object");
  std::vector<std::string> keys;
  for (const auto& [key, value] : node_->items()) keys.push_back(key);
  return keys;
}

std::string Fact::text() const {
  if (!node_->is_string()) fail("is no text");
  return node_->get<std::string>();
}

std::int64_t Fact::integer() const {
  if (!node_->is_number_integer()) fail("is no integer");
  return node_->get<std::int64_t>();
}

double Fact::number() const {
  if (!node_->is_number()) fail("is no number");
  return node_->get<double>();
}

bool Fact::flag() const {
  if (!node_->is_boolean()) fail("is neither true nor false");
  return node_->get<bool>();
}

ElementType Fact::element_type() const {
  const auto type = element_type_named(text());
  if (!type) fail('"' + text() + "\" names no element type");
  return *type;
}

Bytes Fact::bytes() const { return parsed_or_fail(*this, parse_bytes); }

BytesPerSecond Fact::bytes_per_second() const {
  return parsed_or_fail(*this, parse_bytes_per_second);
}

FlopsPerSecond Fact::flops_per_second() const {
  return parsed_or_fail(*this, parse_flops_per_second);
}

std::string Fact::text_or(std::string_view key, std::string otherwise) const {
  return has(key) ? (*this)[key].text() : std::move(otherwise);
}

std::int64_t Fact::integer_or(std::string_view key, std::int64_t otherwise) const {
  return has(key) ? (*this)[key].integer() : otherwise;
}

double Fact::number_or(std::string_view key, double otherwise) const {
  return has(key) ? (*this)[key].number() : otherwise;
}

bool Fact::flag_or(std::string_view key, bool otherwise) const {
  return has(key) ? (*this)[key].flag() : otherwise;
}

std::optional<ElementType> Fact::optional_element_type(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  return (*this)[key].element_type();
}

std::vector<std::string> Fact::texts_or_none(std::string_view key) const {
  std::vector<std::string> texts;
  if (has(key))
    for (const Fact& item : (*this)[key].items()) texts.push_back(item.text());
  return texts;
}

FactFile::FactFile(std::string_view path, std::string_view text) : path_(path) {
  try {
    json_ = std::make_shared<const nlohmann::json>(nlohmann::json::parse(text));
  } catch (const nlohmann::json::exception& fault) {
    throw DataError(path_ + ": " + fault.what());
  }
}

Fact FactFile::root() const { return Fact(*json_, path_); }

}  // namespace steelyard
