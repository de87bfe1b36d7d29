// The values that a pickle's opcodes make: the stack with its marks, the memo, and the containers that take from them.
//
//   push_integer(1)          [1]
//   mark(), push_text(...)   [1 | "a"]
//   make_since_mark(kTuple)  [1 ("a",)]
//
// An opcode that asks for what is not there stops the reading; so does a container that might contain itself.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evidence/pickle.h"
#include "evidence/pickle_input.h"

namespace steelyard {

class PickleStack {
 public:
  using Kind = PickleValue::Kind;
  static constexpr bool kReadsOn = true;  // after what is refused (pickle_machine.h)

  explicit PickleStack(PickleInput& input) : input_(input) { pickle_.bytes_ = input.bytes(); }

  void push_none() { stack_.push_back(new_node(Kind::kNone)); }
  void push_integer(std::int64_t integer, Kind kind = Kind::kInteger) {
    if (input_.ended()) return;
    stack_.push_back(new_node(kind));
    node(stack_.back()).content.integer = integer;
  }
  void push_number(double number) {
    if (input_.ended()) return;
    stack_.push_back(new_node(Kind::kNumber));
    node(stack_.back()).content.number = number;
  }
  void push_text(std::uint64_t length, Kind kind) {
    const auto begin = static_cast<std::uint32_t>(input_.at());
    const std::string_view text = input_.take(length);
    if (input_.ended()) return;
    stack_.push_back(new_node(kind));
    node(stack_.back()).content.stretch = {begin, static_cast<std::uint32_t>(text.size())};
  }
  // Two's complement, little-endian, of any length.
  void push_long(std::uint64_t length);

  // So many values above the last mark; else the reading stops.
  bool has(std::size_t count) {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() >= bottom + count) return true;
    input_.stop("an opcode takes more values than there are");
    return false;
  }
  void drop(std::size_t count) {
    if (has(count)) stack_.resize(stack_.size() - count);
  }
  void mark() { marks_.push_back(stack_.size()); }
  // False where there is no mark.
  bool drop_since_mark();
  // What stands `below` values under the top, as text; "?" when it is none.
  std::string text(std::size_t below) const;

  void make(Kind kind, std::size_t begin);
  void make_empty(Kind kind) { make(kind, stack_.size()); }
  void make_of_last(Kind kind, std::size_t count) {
    if (has(count)) make(kind, stack_.size() - count);
  }
  void make_since_mark(Kind kind) {
    if (const auto begin = take_mark()) make(kind, *begin);
  }
  void fill_of_last(Kind kind, std::size_t count) {
    if (has(count + 1)) fill_below(stack_.size() - count, kind);
  }
  void fill_since_mark(Kind kind) {
    if (const auto begin = take_mark()) fill_below(*begin, kind);
  }

  void put(std::uint64_t index);
  void put_next() { put(memo_.size()); }
  void get(std::uint64_t index);

  // At STOP: what remains is the pickle's value.
  void end();
  Pickle taken() && { return std::move(pickle_); }

 private:
  using Node = Pickle::Node;
  static constexpr std::uint32_t kNothing = std::numeric_limits<std::uint32_t>::max();

  Node& node(std::uint32_t id) { return pickle_.nodes_[id]; }
  const Node& node(std::uint32_t id) const { return pickle_.nodes_[id]; }
  std::uint32_t new_node(Kind kind) {
    Node& made = pickle_.nodes_.emplace_back();
    made.kind = kind;
    made.offset = static_cast<std::uint32_t>(input_.start());
    return static_cast<std::uint32_t>(pickle_.nodes_.size() - 1);
  }
  // Where the values since the last mark begin.
  std::optional<std::size_t> take_mark();
  // Puts the values from `begin` on into the container `id`, and takes them off the stack.
  void fill(std::uint32_t id, std::size_t begin);
  // The container below `begin` takes what stands from there on.
  void fill_below(std::size_t begin, Kind kind);

  PickleInput& input_;
  Pickle pickle_;
  std::vector<std::uint32_t> stack_, memo_;
  std::vector<std::size_t> marks_;
};

}  // namespace steelyard
