// The machine that a pickle is a program for, with values and nothing else.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>

#include "document/read.h"
#include "formats/pickle.h"
#include "formats/pickle_opcode.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostProblems = 8;

// What is no pickle, told by its first bytes.
struct OtherFile {
  std::string_view start, what;
};
constexpr std::array<OtherFile, 4> kOtherFiles = {{
    {"\x1f\x8b", "compressed with gzip: unpack it first"},
    {"PK", "a zip archive, as torch.save writes it, not a memory snapshot"},
    {"{", "JSON, not a pickle"},
    {"<", "a page of HTML: the snapshot is inside it, encoded"},
}};

}  // namespace

class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, std::string_view source) : bytes_(bytes), source_(source) {
    pickle_.bytes_ = bytes;
  }

  tl::expected<Pickle, Diagnostics> run() && {
    if (!is_pickle()) return tl::unexpected(std::move(problems_));
    while (!ended_) {
      start_ = at_;
      if (at_ == bytes_.size()) {
        stop("the file ends before its STOP");
        break;
      }
      step(static_cast<unsigned char>(bytes_[at_++]));
    }
    if (!problems_.empty()) return tl::unexpected(std::move(problems_));
    return std::move(pickle_);
  }

 private:
  using Kind = PickleValue::Kind;
  using Node = Pickle::Node;

  bool is_pickle() {
    if (bytes_.size() > kMaximumPickleBytes) {
      stop(fmt::format("{} bytes are more than the {} that are read", bytes_.size(),
                       kMaximumPickleBytes));
      return false;
    }
    if (bytes_.size() > 1 && static_cast<unsigned char>(bytes_[0]) == kProto) return true;
    for (const OtherFile& other : kOtherFiles)
      if (bytes_.substr(0, other.start.size()) == other.start) {
        stop(std::string(other.what));
        return false;
      }
    stop("not a pickle of protocol 2 to 5");
    return false;
  }

  // ---- problems

  void report(std::string message, std::string code, std::string help) {
    Diagnostic problem;
    problem.code = std::move(code);
    problem.message = std::move(message);
    problem.place.source = fmt::format("{}, byte {}", source_, start_);
    problem.help = std::move(help);
    problems_.push_back(std::move(problem));
    if (problems_.size() >= kMostProblems) ended_ = true;
  }
  void stop(std::string message) {
    report(std::move(message), "E113",
           "torch.cuda.memory._dump_snapshot(file) writes a snapshot that can be read");
    ended_ = true;
  }
  void refuse(const std::string& what) {
    report("the pickle wants to " + what, "E114",
           "values alone are read: nothing of a pickle is ever run");
  }

  // ---- the bytes behind an opcode

  std::string_view take(std::uint64_t length) {
    if (length > bytes_.size() - at_) {
      stop("the file ends within a value");
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(length));
    at_ += taken.size();
    return taken;
  }
  std::uint64_t number_of(int length) {
    std::uint64_t number = 0;
    const std::string_view taken = take(static_cast<std::uint64_t>(length));
    for (std::size_t i = 0; i < taken.size(); ++i)
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
    return number;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      stop("the file ends within a name");
      return {};
    }
    const std::string_view taken = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return taken;
  }

  // ---- values

  Node& node(std::uint32_t id) { return pickle_.nodes_[id]; }
  std::uint32_t new_node(Kind kind) {
    Node& made = pickle_.nodes_.emplace_back();
    made.kind = kind;
    made.offset = static_cast<std::uint32_t>(start_);
    return static_cast<std::uint32_t>(pickle_.nodes_.size() - 1);
  }
  void push_none() { stack_.push_back(new_node(Kind::kNone)); }
  void push_integer(std::int64_t integer, Kind kind = Kind::kInteger) {
    if (ended_) return;
    stack_.push_back(new_node(kind));
    node(stack_.back()).content.integer = integer;
  }
  void push_number(double number) {
    if (ended_) return;
    stack_.push_back(new_node(Kind::kNumber));
    node(stack_.back()).content.number = number;
  }
  void push_text(std::uint64_t length, Kind kind) {
    const auto begin = static_cast<std::uint32_t>(at_);
    const std::string_view text = take(length);
    if (ended_) return;
    stack_.push_back(new_node(kind));
    node(stack_.back()).content.stretch = {begin, static_cast<std::uint32_t>(text.size())};
  }
  // Two's complement, little-endian, of any length.
  void push_long(std::uint64_t length) {
    const std::string_view digits = take(length);
    if (ended_) return;
    const bool negative =
        !digits.empty() && (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
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

  bool has(std::size_t count) {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() >= bottom + count) return true;
    stop("an opcode takes more values than there are");
    return false;
  }
  std::uint32_t pop() {
    const std::uint32_t id = stack_.back();
    stack_.pop_back();
    return id;
  }
  // Where the values since the last mark begin.
  std::optional<std::size_t> take_mark() {
    if (marks_.empty()) {
      stop("an opcode asks for a mark that is not there");
      return std::nullopt;
    }
    const std::size_t begin = marks_.back();
    marks_.pop_back();
    return begin;
  }

  // Puts the values from `begin` on into the container `id`, and takes them off the stack.
  void fill(std::uint32_t id, std::size_t begin) {
    const auto count = static_cast<std::uint32_t>(stack_.size() - begin);
    if (node(id).kind == Kind::kDict && count % 2 != 0) return stop("a key stands without a value");
    std::uint8_t deepest = 0;
    for (std::size_t i = begin; i < stack_.size(); ++i) {
      node(stack_[i]).placed = true;
      deepest = std::max(deepest, node(stack_[i]).depth);
    }
    Node& into = node(id);
    if (into.placed && count > 0)
      return stop("a value grows after it was used, so it may contain itself");
    if (deepest >= kMaximumDepth)
      return stop(fmt::format("values are nested deeper than {}", kMaximumDepth));
    into.depth = std::max<std::uint8_t>(into.depth, static_cast<std::uint8_t>(deepest + 1));
    std::vector<std::uint32_t>& children = pickle_.children_;
    auto& stretch = into.content.stretch;
    const std::uint32_t size = stretch.size + count;
    if (size > into.capacity) {
      // Filled at once it takes what it needs; filled again it doubles.
      const auto from = static_cast<std::uint32_t>(children.size());
      into.capacity = stretch.size == 0 ? size : std::max(size, 2 * into.capacity);
      if (children.size() + into.capacity >= kNothing)
        return stop("more values than can be numbered");
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
  void make(Kind kind, std::size_t begin) {
    const std::uint32_t id = new_node(kind);
    fill(id, begin);
    if (!ended_) stack_.push_back(id);
  }
  void make_of_last(Kind kind, std::size_t count) {
    if (has(count)) make(kind, stack_.size() - count);
  }
  void make_since_mark(Kind kind) {
    if (const auto begin = take_mark()) make(kind, *begin);
  }
  // The container below `begin` takes what stands from there on.
  void fill_below(std::size_t begin, Kind kind) {
    const std::size_t bottom = marks_.empty() ? 0 : marks_.back();
    if (begin <= bottom) return stop("an opcode fills a container that is not there");
    const std::uint32_t into = stack_[begin - 1];
    if (node(into).kind != kind) return stop("an opcode fills what is no container of its kind");
    fill(into, begin);
  }
  void fill_since_mark(Kind kind) {
    if (const auto begin = take_mark()) fill_below(*begin, kind);
  }
  void fill_of_last(Kind kind, std::size_t count) {
    if (has(count + 1)) fill_below(stack_.size() - count, kind);
  }

  // ---- the memo

  void put(std::uint64_t index) {
    if (!has(1)) return;
    // Each put takes two bytes, and picklers count upwards.
    if (index >= bytes_.size()) return stop("a place of the memo is out of reason");
    if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1, kNothing);
    memo_[static_cast<std::size_t>(index)] = stack_.back();
  }
  void get(std::uint64_t index) {
    if (ended_) return;
    if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == kNothing)
      return stop("a place of the memo is read that was not written");
    stack_.push_back(memo_[static_cast<std::size_t>(index)]);
    node(stack_.back()).placed = true;
  }

  // ---- what is refused: each takes and leaves as many values as the real one, so that reading can go on

  void refuse_for(const std::string& what, std::size_t takes, bool leaves = true) {
    refuse(what);
    if (ended_ || !has(takes)) return;
    stack_.resize(stack_.size() - takes);
    if (leaves) push_none();
  }
  void refuse_since_mark(const std::string& what, bool leaves = true) {
    refuse(what);
    if (ended_) return;
    const auto begin = take_mark();
    if (!begin) return;
    stack_.resize(*begin);
    if (leaves) push_none();
  }
  std::string text_of(std::uint32_t id) {
    if (node(id).kind != Kind::kString) return "?";
    const auto& stretch = node(id).content.stretch;
    return std::string(bytes_.substr(stretch.begin, stretch.size));
  }

  bool step_refused(int opcode) {
    switch (opcode) {
      case kGlobal: {
        const std::string module(line());
        const std::string name(ended_ ? "" : line());
        if (!ended_) refuse_for(fmt::format("import {}.{}", module, name), 0);
        return true;
      }
      case kStackGlobal:
        if (has(2))
          refuse_for(fmt::format("import {}.{}", text_of(stack_[stack_.size() - 2]),
                                 text_of(stack_.back())),
                     2);
        return true;
      case kInst: {
        const std::string module(line());
        const std::string name(ended_ ? "" : line());
        if (!ended_) refuse_since_mark(fmt::format("call {}.{}", module, name));
        return true;
      }
      case kReduce:
        refuse_for("call a function", 2);
        return true;
      case kBuild:
        refuse_for("set the state of an object", 2);
        return true;
      case kNewObj:
        refuse_for("make an object", 2);
        return true;
      case kNewObjEx:
        refuse_for("make an object", 3);
        return true;
      case kObj:
        refuse_since_mark("make an object");
        return true;
      case kExt1:
      case kExt2:
      case kExt4:
        take(opcode == kExt1 ? 1 : opcode == kExt2 ? 2 : 4);
        if (!ended_) refuse_for("use a registered extension", 0);
        return true;
      case kPersId:
        line();
        if (!ended_) refuse_for("fetch an object by its name", 0);
        return true;
      case kBinPersId:
        refuse_for("fetch an object by its name", 1);
        return true;
      case kNextBuffer:
        refuse_for("take a buffer from outside", 0);
        return true;
      case kReadonlyBuffer:
        refuse_for("take a buffer from outside", 0, false);
        return true;
      case kEmptySet:
        refuse_for("make a set", 0);
        return true;
      case kFrozenSet:
        refuse_since_mark("make a set");
        return true;
      case kAddItems:
        refuse_since_mark("fill a set", false);
        return true;
      default:
        return false;
    }
  }

  bool step_scalar(int opcode) {
    switch (opcode) {
      case kNone:
        push_none();
        return true;
      case kNewTrue:
      case kNewFalse:
        push_integer(opcode == kNewTrue ? 1 : 0, Kind::kBool);
        return true;
      case kBinInt:
        push_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(number_of(4))));
        return true;
      case kBinInt1:
        push_integer(static_cast<std::int64_t>(number_of(1)));
        return true;
      case kBinInt2:
        push_integer(static_cast<std::int64_t>(number_of(2)));
        return true;
      case kLong1:
        push_long(number_of(1));
        return true;
      case kLong4:
        push_long(number_of(4));
        return true;
      case kBinFloat: {
        std::uint64_t bits = 0;
        for (const char digit : take(8)) bits = (bits << 8U) | static_cast<unsigned char>(digit);
        double number = 0;  // the page's compiler has no std::bit_cast
        std::memcpy(&number, &bits, sizeof number);
        push_number(number);
        return true;
      }
      case kShortBinUnicode:
        push_text(number_of(1), Kind::kString);
        return true;
      case kBinUnicode:
        push_text(number_of(4), Kind::kString);
        return true;
      case kBinUnicode8:
        push_text(number_of(8), Kind::kString);
        return true;
      case kShortBinString:
        push_text(number_of(1), Kind::kString);
        return true;
      case kBinString:
        push_text(number_of(4), Kind::kString);
        return true;
      case kShortBinBytes:
        push_text(number_of(1), Kind::kBytes);
        return true;
      case kBinBytes:
        push_text(number_of(4), Kind::kBytes);
        return true;
      case kBinBytes8:
      case kByteArray8:
        push_text(number_of(8), Kind::kBytes);
        return true;
      default:
        return false;
    }
  }

  bool step_container(int opcode) {
    switch (opcode) {
      case kMark:
        marks_.push_back(stack_.size());
        return true;
      case kEmptyList:
        make(Kind::kList, stack_.size());
        return true;
      case kEmptyTuple:
        make(Kind::kTuple, stack_.size());
        return true;
      case kEmptyDict:
        make(Kind::kDict, stack_.size());
        return true;
      case kList:
        make_since_mark(Kind::kList);
        return true;
      case kTuple:
        make_since_mark(Kind::kTuple);
        return true;
      case kDict:
        make_since_mark(Kind::kDict);
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        make_of_last(Kind::kTuple, static_cast<std::size_t>(opcode - kTuple1 + 1));
        return true;
      case kAppend:
        fill_of_last(Kind::kList, 1);
        return true;
      case kAppends:
        fill_since_mark(Kind::kList);
        return true;
      case kSetItem:
        fill_of_last(Kind::kDict, 2);
        return true;
      case kSetItems:
        fill_since_mark(Kind::kDict);
        return true;
      default:
        return false;
    }
  }

  void step(int opcode) {
    if (step_scalar(opcode) || step_container(opcode)) return;
    switch (opcode) {
      case kProto:
        if (const std::uint64_t version = number_of(1); !ended_ && (version < 2 || version > 5))
          stop(fmt::format("protocol {} is not one of 2 to 5", version));
        return;
      case kFrame:
        take(8);
        return;
      case kBinPut:
        return put(number_of(1));
      case kLongBinPut:
        return put(number_of(4));
      case kMemoize:
        return put(memo_.size());
      case kBinGet:
        return get(number_of(1));
      case kLongBinGet:
        return get(number_of(4));
      case kPop:
        if (has(1)) pop();
        return;
      case kPopMark:
        if (const auto begin = take_mark()) stack_.resize(*begin);
        return;
      case kStop:
        return end();
      default:
        break;
    }
    if (step_refused(opcode)) return;
    stop(fmt::format("{:#04x} is no opcode that is read", opcode));
  }

  void end() {
    if (!marks_.empty() || stack_.size() != 1)
      return stop("the pickle ends with more or less than one value");
    pickle_.root_ = stack_.back();
    ended_ = true;
  }

  static constexpr std::uint32_t kNothing = std::numeric_limits<std::uint32_t>::max();

  std::string_view bytes_;
  std::string source_;
  std::size_t at_ = 0, start_ = 0;
  bool ended_ = false;
  Pickle pickle_;
  std::vector<std::uint32_t> stack_, memo_;
  std::vector<std::size_t> marks_;
  Diagnostics problems_;
};

tl::expected<Pickle, Diagnostics> read_pickle(std::string_view bytes,
                                              std::string_view source_name) {
  return PickleMachine(bytes, source_name).run();
}

}  // namespace steelyard
