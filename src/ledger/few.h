// A short list with its place inside the object: operators have a handful of inputs, and building one allocates nothing.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>

namespace steelyard {

template <class T, std::size_t kCapacity>
class Few {
 public:
  Few() = default;
  Few(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }
  void push_back(const T& item) {
    if (size_ == kCapacity)
      throw std::length_error("an operator has more operands than its list holds");
    items_[size_++] = item;
  }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* begin() const { return items_.data(); }
  const T* end() const { return items_.data() + size_; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  T& operator[](std::size_t i) { return items_[i]; }

 private:
  std::array<T, kCapacity> items_{};
  std::size_t size_ = 0;
};

}  // namespace steelyard
