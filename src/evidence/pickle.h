// Reads a pickle without running it: the values it builds, or what is wrong with it.
//
//   const auto pickle = read_pickle(bytes, "snapshot.pickle");
//   if (!pickle) print(pickle.error());
//   for (PickleValue device : pickle->root().find("device_traces")->items()) ...
//
// A pickle is a program for a small machine with a stack. Here that machine knows None, bool, int, float, str, bytes,
// list, tuple and dict, as protocols 2 to 5 write them, and nothing else: what would import a name or call it is refused
// by name and offset, and reading goes on, so that all such places are told at once. Depth is bounded, memory is a small
// multiple of the file, and a value cannot contain itself.
//
// Values share what the file shares (the memo): equal ids are the same value.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "document/diagnostic.h"

namespace steelyard {

class Pickle;

// A value of a pickle; valid as long as the Pickle and the bytes it was read from.
class PickleValue {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,
    kNumber,
    kString,
    kBytes,
    kList,
    kTuple,
    kDict
  };
  Kind kind() const;
  bool is_list() const { return kind() == Kind::kList || kind() == Kind::kTuple; }
  bool is_dict() const { return kind() == Kind::kDict; }
  // Nothing of another kind.
  std::optional<bool> as_bool() const;
  std::optional<std::int64_t> as_integer() const;  // of a bool too, as Python has it
  std::optional<double> as_number() const;         // of an integer too
  std::optional<std::string_view> as_string() const;

  std::size_t size() const;  // of a list, tuple or dict; else 0
  PickleValue item(std::size_t index) const;
  PickleValue key(std::size_t index) const;
  PickleValue value(std::size_t index) const;
  // Of a dict: what that key has; of a key given twice the later, as Python has it.
  std::optional<PickleValue> find(std::string_view key) const;

  std::size_t offset() const;  // of its opcode in the file
  std::uint32_t id() const { return id_; }

 private:
  friend class Pickle;
  PickleValue(const Pickle& pickle, std::uint32_t id) : pickle_(&pickle), id_(id) {}

  const Pickle* pickle_;
  std::uint32_t id_;
};

class Pickle {
 public:
  PickleValue root() const { return {*this, root_}; }

 private:
  friend class PickleValue;
  friend class PickleStack;
  struct Node {
    union Content {
      std::int64_t integer;
      double number;
      struct {
        std::uint32_t begin, size;
      } stretch;  // of the bytes, or of `children_`
      Content() : integer(0) {}
    } content;
    std::uint32_t offset = 0;
    std::uint32_t capacity = 0;  // of a list or dict, in children
    PickleValue::Kind kind = PickleValue::Kind::kNone;
    std::uint8_t depth = 0;
    bool placed = false;  // in another value, or taken from the memo: it cannot change any more
  };
  const Node& at(std::uint32_t id) const { return nodes_[id]; }

  std::string_view bytes_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> children_;
  std::uint32_t root_ = 0;
};

// What is larger is no snapshot that anybody could look at.
constexpr std::size_t kMaximumPickleBytes = std::size_t{2} << 30;
// `bytes` must outlive the result.
tl::expected<Pickle, Diagnostics> read_pickle(std::string_view bytes, std::string_view source_name);

}  // namespace steelyard
