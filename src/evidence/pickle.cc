#include "evidence/pickle.h"

namespace steelyard {

PickleValue::Kind PickleValue::kind() const { return pickle_->at(id_).kind; }

std::size_t PickleValue::offset() const { return pickle_->at(id_).offset; }

std::optional<bool> PickleValue::as_bool() const {
  if (kind() != Kind::kBool) return std::nullopt;
  return pickle_->at(id_).content.integer != 0;
}

std::optional<std::int64_t> PickleValue::as_integer() const {
  if (kind() != Kind::kInteger && kind() != Kind::kBool) return std::nullopt;
  return pickle_->at(id_).content.integer;
}

std::optional<double> PickleValue::as_number() const {
  if (kind() == Kind::kNumber) return pickle_->at(id_).content.number;
  const auto integer = as_integer();
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

std::optional<std::string_view> PickleValue::as_string() const {
  if (kind() != Kind::kString) return std::nullopt;
  const auto& stretch = pickle_->at(id_).content.stretch;
  return pickle_->bytes_.substr(stretch.begin, stretch.size);
}

std::size_t PickleValue::size() const {
  if (is_list()) return pickle_->at(id_).content.stretch.size;
  return is_dict() ? pickle_->at(id_).content.stretch.size / 2 : 0;
}

PickleValue PickleValue::item(std::size_t index) const {
  return {*pickle_, pickle_->children_[pickle_->at(id_).content.stretch.begin + index]};
}

PickleValue PickleValue::key(std::size_t index) const { return item(2 * index); }

PickleValue PickleValue::value(std::size_t index) const { return item(2 * index + 1); }

std::optional<PickleValue> PickleValue::find(std::string_view key) const {
  if (!is_dict()) return std::nullopt;
  for (std::size_t index = size(); index-- > 0;)
    if (this->key(index).as_string() == key) return value(index);
  return std::nullopt;
}

}  // namespace steelyard
