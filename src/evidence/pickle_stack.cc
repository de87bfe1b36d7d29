#include "evidence/pickle_stack.h"

#include <fmt/format.h>

#include <algorithm>

#include "document/read.h"

namespace steelyard {

void PickleStack::push_long(std::uint64_t length) {
  const std::string_view digits = input_.take(length);
  if (input_.ended()) return;
  const bool negative = !digits.empty() && (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
  if (digits.size() <= 8) {
    std::uint64_t bits = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = digits.size(); i-- > 0;)
      bits = (bits << 8U) | static_cast<unsigned char>(digits[i]);
    return push_integer(static_cast<std::int64_t>(bits));
  }
  // No size or address is that large; a hash may be.
  double number = negative ? -1 : 0;
  for (std::size_t i = digits.size(); i-- > 0;)
    number = number * 256 + static_cast<unsigned char>(digits[i]);
  push_number(number);
}

std::optional<std::size_t> PickleStack::take_mark() {
  if (marks_.empty()) {
    input_.stop("an opcode asks for a mark that is not there");
    return std::nullopt;
  }
  const std::size_t begin = marks_.back();
  marks_.pop_back();
  return begin;
}

bool PickleStack::drop_since_mark() {
  const auto begin = take_mark();
  if (begin) stack_.resize(*begin);
  return begin.has_value();
}

std::string PickleStack::text(std::size_t below) const {
  const Node& said = node(stack_[stack_.size() - 1 - below]);
  if (said.kind != Kind::kString) return "?";
  const auto& stretch = said.content.stretch;
  return std::string(input_.bytes().substr(stretch.begin, stretch.size));
}

void PickleStack::fill(std::uint32_t id, std::size_t begin) {
  const auto count = static_cast<std::uint32_t>(stack_.size() - begin);
  if (node(id).kind == Kind::kDict && count % 2 != 0)
    return input_.stop("a key stands without a value");
  std::uint8_t deepest = 0;
  for (std::size_t i = begin; i < stack_.size(); ++i) {
    node(stack_[i]).placed = true;
    deepest = std::max(deepest, node(stack_[i]).depth);
  }
  Node& into = node(id);
  if (into.placed && count > 0)
    return input_.stop("a value grows after it was used, so it may contain itself");
  if (deepest >= kMaximumDepth)
    return input_.stop(fmt::format("values are nested deeper than {}", kMaximumDepth));
  into.depth = std::max<std::uint8_t>(into.depth, static_cast<std::uint8_t>(deepest + 1));
  std::vector<std::uint32_t>& children = pickle_.children_;
  auto& stretch = into.content.stretch;
  const std::uint32_t size = stretch.size + count;
  if (size > into.capacity) {
    // Filled at once it takes what it needs; filled again it doubles.
    const auto from = static_cast<std::uint32_t>(children.size());
    into.capacity = stretch.size == 0 ? size : std::max(size, 2 * into.capacity);
    if (children.size() + into.capacity >= kNothing)
      return input_.stop("more values than can be numbered");
    children.resize(children.size() + into.capacity);
    const std::uint32_t* old = children.data() + stretch.begin;
    std::copy(old, old + stretch.size, children.data() + from);
    stretch.begin = from;
  }
  std::copy(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end(),
            children.data() + stretch.begin + stretch.size);
  stretch.size = size;
  stack_.resize(begin);
}

void PickleStack::make(Kind kind, std::size_t begin) {
  const std::uint32_t id = new_node(kind);
  fill(id, begin);
  if (!input_.ended()) stack_.push_back(id);
}

void PickleStack::fill_below(std::size_t begin, Kind kind) {
  const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
  if (begin <= bottom) return input_.stop("an opcode fills a container that is not there");
  const std::uint32_t into = stack_[begin - 1];
  if (node(into).kind != kind)
    return input_.stop("an opcode fills what is no container of its kind");
  fill(into, begin);
}

void PickleStack::put(std::uint64_t index) {
  if (!has(1)) return;
  // Each put takes two bytes, and picklers count upwards.
  if (index >= input_.bytes().size()) return input_.stop("a place of the memo is out of reason");
  if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1, kNothing);
  memo_[static_cast<std::size_t>(index)] = stack_.back();
}

void PickleStack::get(std::uint64_t index) {
  if (input_.ended()) return;
  if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == kNothing)
    return input_.stop("a place of the memo is read that was not written");
  stack_.push_back(memo_[static_cast<std::size_t>(index)]);
  node(stack_.back()).placed = true;
}

void PickleStack::end() {
  if (!marks_.empty() || stack_.size() != 1)
    return input_.stop("the pickle ends with more or less than one value");
  pickle_.root_ = stack_.back();
  input_.end();
}

}  // namespace steelyard
