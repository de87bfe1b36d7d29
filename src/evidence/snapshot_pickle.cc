#include "evidence/snapshot_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "evidence/pickle_input.h"
#include "evidence/pickle_opcode.h"
#include "evidence/snapshot_builder.h"

namespace steelyard {
namespace {

constexpr std::size_t kFewValues = std::size_t{1} << 20;
constexpr std::size_t kMostMarks = 4096;  // nested containers; a snapshot has eight

class SnapshotPickle {
 public:
  SnapshotPickle(std::string_view bytes, std::string_view name)
      : name_(name),
        input_(bytes, name),
        builder_(bytes.size()),
        most_stacked_(bytes.size() / 8 + kFewValues),
        most_remembered_(bytes.size() / 16 + kFewValues) {}

  tl::expected<MemoryHistory, Diagnostics> run() && {
    if (input_.bytes().size() > (std::size_t{64} << 20)) memo_.reserve(input_.bytes().size() / 72);
    if (input_.is_pickle())
      while (!input_.ended()) step(input_.opcode());
    if (input_.problems().empty() && !ended_well_) input_.stop("the pickle ends without a value");
    if (!input_.problems().empty()) return tl::unexpected(std::move(input_.problems()));
    memo_ = {};
    MemoryHistory history = builder_.finish(stack_.back());
    if (!builder_.fault().empty()) {
      Diagnostic problem;
      problem.code = "E115";
      problem.message = "the pickle holds no memory snapshot: " + builder_.fault();
      problem.place.source = std::string(name_);
      return tl::unexpected(Diagnostics{problem});
    }
    return history;
  }

 private:
  using Value = SnapshotBuilder::Value;
  using Kind = SnapshotBuilder::Kind;

  void push(const Value& value) {
    if (stack_.size() >= most_stacked_) return input_.stop("more values than a snapshot has");
    stack_.push_back(value);
  }
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
  bool has(std::size_t count) {
    if (stack_.size() >= bottom() + count) return true;
    input_.stop("an opcode takes more values than there are");
    return false;
  }
  bool take_mark(std::size_t& begin) {
    if (marks_.empty()) {
      input_.stop("an opcode asks for a mark that is not there");
      return false;
    }
    begin = marks_.back();
    marks_.pop_back();
    return true;
  }
  std::span<const Value> from(std::size_t begin) const {
    return std::span<const Value>(stack_).subspan(begin);
  }

  void push_long(std::uint64_t length) {
    const std::string_view digits = input_.take(length);
    if (input_.ended()) return;
    const bool negative =
        !digits.empty() && (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
    std::uint64_t bits = negative && digits.size() < 8 ? ~std::uint64_t{0} : 0;
    // An unsigned value of 2^63 and more has nine bytes; its bits tell an address from others.
    for (std::size_t i = std::min<std::size_t>(digits.size(), 8); i-- > 0;)
      bits = (bits << 8U) | static_cast<unsigned char>(digits[i]);
    push(SnapshotBuilder::integer(static_cast<std::int64_t>(bits)));
  }
  void push_text(std::uint64_t length) {
    const std::string_view text = input_.take(length);
    if (!input_.ended()) push(builder_.text(text));
  }

  void put(std::uint64_t index) {
    if (!has(1)) return;
    // Each place is written once, and an event of a real file takes more than a hundred bytes.
    if (index >= most_remembered_) return input_.stop("a place of the memo is out of reason");
    if (index >= memo_.size())
      memo_.resize(static_cast<std::size_t>(index) + 1, {0, 0, Kind::kUnwritten});
    stack_.back().slot = static_cast<std::uint32_t>(index) + 1;
    memo_[static_cast<std::size_t>(index)] = stack_.back();
  }
  void get(std::uint64_t index) {
    if (input_.ended()) return;
    if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)].kind == Kind::kUnwritten)
      return input_.stop("a place of the memo is read that was not written");
    push(memo_[static_cast<std::size_t>(index)]);
  }
  // A container has grown: its place in the memo, too.
  void grown(std::size_t at, const Value& value) {
    const std::uint32_t slot = stack_[at].slot;
    stack_[at] = value;
    stack_[at].slot = slot;
    if (slot > 0) memo_[slot - 1] = stack_[at];
  }
  void fill(std::size_t begin, bool dict) {
    if (begin <= bottom() || begin > stack_.size())
      return input_.stop("an opcode fills a container that is not there");
    const std::size_t at = begin - 1;
    const Kind kind = stack_[at].kind;
    const bool is_dict = kind == Kind::kEmptyDict || kind == Kind::kDict ||
                         (kind >= Kind::kEvent && kind <= Kind::kPast);
    const bool is_list = kind == Kind::kEmptyList || kind == Kind::kStack || kind == Kind::kRows ||
                         kind == Kind::kList;
    if (dict ? !is_dict : !is_list)
      return input_.stop("an opcode fills what is no container of its kind");
    if (dict && (stack_.size() - begin) % 2 != 0)
      return input_.stop("a key stands without a value");
    grown(at,
          dict ? builder_.dict(stack_[at], from(begin)) : builder_.list(stack_[at], from(begin)));
    stack_.resize(begin);
    check();
  }
  void check() {
    if (!builder_.fault().empty() && !input_.ended())
      input_.stop("the pickle holds no memory snapshot: " + builder_.fault());
  }
  void make_tuple(std::size_t begin) {
    const Value made = builder_.tuple(from(begin));
    stack_.resize(begin);
    push(made);
    check();
  }

  bool step_scalar(int opcode) {
    switch (opcode) {
      case kNone:
        push({});
        return true;
      case kNewTrue:
      case kNewFalse:
        push(SnapshotBuilder::truth(opcode == kNewTrue));
        return true;
      case kBinInt:
        push(SnapshotBuilder::integer(
            static_cast<std::int32_t>(static_cast<std::uint32_t>(input_.number(4)))));
        return true;
      case kBinInt1:
        push(SnapshotBuilder::integer(static_cast<std::int64_t>(input_.number(1))));
        return true;
      case kBinInt2:
        push(SnapshotBuilder::integer(static_cast<std::int64_t>(input_.number(2))));
        return true;
      case kLong1:
        push_long(input_.number(1));
        return true;
      case kLong4:
        push_long(input_.number(4));
        return true;
      case kBinFloat: {
        std::uint64_t bits = 0;
        for (const char digit : input_.take(8))
          bits = (bits << 8U) | static_cast<unsigned char>(digit);
        double number = 0;  // the page's compiler has no std::bit_cast
        std::memcpy(&number, &bits, sizeof number);
        push(SnapshotBuilder::number(number));
        return true;
      }
      case kShortBinUnicode:
      case kShortBinString:
      case kShortBinBytes:
        push_text(input_.number(1));
        return true;
      case kBinUnicode:
      case kBinString:
      case kBinBytes:
        push_text(input_.number(4));
        return true;
      case kBinUnicode8:
      case kBinBytes8:
        push_text(input_.number(8));
        return true;
      default:
        return false;
    }
  }

  bool step_container(int opcode) {
    std::size_t begin = 0;
    switch (opcode) {
      case kMark:
        if (marks_.size() >= kMostMarks)
          input_.stop(fmt::format("values are nested deeper than {}", kMostMarks));
        else
          marks_.push_back(stack_.size());
        return true;
      case kEmptyList:
      case kEmptyTuple:
        push({0, 0, Kind::kEmptyList});
        return true;
      case kEmptyDict:
        push({0, 0, Kind::kEmptyDict});
        return true;
      case kList:
        if (take_mark(begin)) {
          const Value made = builder_.list({0, 0, Kind::kEmptyList}, from(begin));
          stack_.resize(begin);
          push(made);
          check();
        }
        return true;
      case kDict:
        if (take_mark(begin)) {
          if ((stack_.size() - begin) % 2 != 0) {
            input_.stop("a key stands without a value");
            return true;
          }
          const Value made = builder_.dict({0, 0, Kind::kEmptyDict}, from(begin));
          stack_.resize(begin);
          push(made);
          check();
        }
        return true;
      case kTuple:
        if (take_mark(begin)) make_tuple(begin);
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3: {
        const auto count = static_cast<std::size_t>(opcode - kTuple1 + 1);
        if (has(count)) make_tuple(stack_.size() - count);
        return true;
      }
      case kAppend:
        if (has(2)) fill(stack_.size() - 1, false);
        return true;
      case kAppends:
        if (take_mark(begin)) fill(begin, false);
        return true;
      case kSetItem:
        if (has(3)) fill(stack_.size() - 2, true);
        return true;
      case kSetItems:
        if (take_mark(begin)) fill(begin, true);
        return true;
      default:
        return false;
    }
  }

  void step(int opcode) {
    if (input_.ended()) return;
    // By frequency: seven opcodes of ten fetch from the memo.
    if (opcode == kBinGet) return get(input_.number(1));
    if (opcode == kLongBinGet) return get(input_.number(4));
    if (step_scalar(opcode) || step_container(opcode)) return;
    std::size_t begin = 0;
    switch (opcode) {
      case kProto:
        if (const std::uint64_t version = input_.number(1);
            !input_.ended() && (version < 2 || version > 5))
          input_.stop(fmt::format("protocol {} is not one of 2 to 5", version));
        return;
      case kFrame:
        input_.take(8);
        return;
      case kBinPut:
        return put(input_.number(1));
      case kLongBinPut:
        return put(input_.number(4));
      case kMemoize:
        return put(memo_.size());
      case kPop:
        if (has(1)) stack_.pop_back();
        return;
      case kPopMark:
        if (take_mark(begin)) stack_.resize(begin);
        return;
      case kStop:
        if (!marks_.empty() || stack_.size() != 1)
          return input_.stop("the pickle ends with more or less than one value");
        ended_well_ = true;
        input_.end();
        return;
      default:
        refuse(opcode);
    }
  }

  // What would import, call or make anything ends the reading, by its name.
  void refuse(int opcode) {
    std::string what;
    if (opcode == kGlobal || opcode == kInst) {
      const std::string module(input_.line());
      what = "import " + module + "." + std::string(input_.ended() ? "" : input_.line());
    } else if (opcode == kStackGlobal && stack_.size() >= 2) {
      what = fmt::format("import {}.{}", builder_.shown(stack_[stack_.size() - 2]),
                         builder_.shown(stack_.back()));
    } else if (opcode == kReduce || opcode == kBuild || opcode == kObj || opcode == kNewObj ||
               opcode == kNewObjEx) {
      what = "call a function or make an object";
    } else if (opcode == kExt1 || opcode == kExt2 || opcode == kExt4 || opcode == kPersId ||
               opcode == kBinPersId || opcode == kNextBuffer || opcode == kReadonlyBuffer) {
      what = "fetch an object from outside";
    } else if (opcode == kEmptySet || opcode == kFrozenSet || opcode == kAddItems) {
      what = "make a set";
    }
    if (input_.ended()) return;
    if (what.empty()) return input_.stop(fmt::format("{:#04x} is no opcode that is read", opcode));
    input_.refuse(what);
    input_.end();
  }

  std::string_view name_;
  PickleInput input_;
  SnapshotBuilder builder_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Value> memo_;
  std::size_t most_stacked_ = 0, most_remembered_ = 0;
  bool ended_well_ = false;
};

}  // namespace

tl::expected<MemoryHistory, Diagnostics> read_snapshot_pickle(std::string_view bytes,
                                                              std::string_view name) {
  return SnapshotPickle(bytes, name).run();
}

}  // namespace steelyard
