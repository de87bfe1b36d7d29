#include "evidence/snapshot_pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "evidence/known_stacks.h"
#include "evidence/pickle_input.h"
#include "evidence/pickle_machine.h"
#include "evidence/snapshot_builder.h"

namespace steelyard {
namespace {

constexpr std::size_t kFewValues = std::size_t{1} << 20;
constexpr std::size_t kMostMarks = 4096;  // nested containers; a snapshot has eight

// The stack of a pickle (pickle_machine.h) whose dicts are rows of a history as soon as they end.
class SnapshotStack {
 public:
  using Kind = PickleValue::Kind;
  static constexpr bool kReadsOn = false;  // a snapshot asks for nothing that is refused

  explicit SnapshotStack(PickleInput& input)
      : input_(input),
        builder_(input.bytes().size()),
        most_stacked_(input.bytes().size() / 8 + kFewValues),
        most_remembered_(input.bytes().size() / 16 + kFewValues) {
    if (input.bytes().size() > (std::size_t{64} << 20)) memo_.reserve(input.bytes().size() / 72);
  }

  bool ended_well() const { return ended_well_; }
  const std::string& fault() const { return builder_.fault(); }
  // Once: the memo is given back first.
  MemoryHistory finish() {
    memo_ = {};
    return builder_.finish(stack_.back());
  }

  void push_none() { push({}); }
  void push_integer(std::int64_t integer, Kind kind = Kind::kInteger) {
    push(kind == Kind::kBool ? SnapshotBuilder::truth(integer != 0)
                             : SnapshotBuilder::integer(integer));
  }
  void push_number(double number) { push(SnapshotBuilder::number(number)); }
  void push_text(std::uint64_t length, Kind /*kind*/) {
    const std::string_view text = input_.take(length);
    if (!input_.ended()) push(builder_.text(text));
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

  bool has(std::size_t count) {
    if (stack_.size() >= bottom() + count) return true;
    input_.stop("an opcode takes more values than there are");
    return false;
  }
  void drop(std::size_t count) {
    if (has(count)) stack_.resize(stack_.size() - count);
  }
  void mark() {
    if (takes_known_stack()) return;
    if (marks_.size() >= kMostMarks)
      input_.stop(fmt::format("values are nested deeper than {}", kMostMarks));
    else
      marks_.push_back(stack_.size());
  }
  bool drop_since_mark() {
    std::size_t begin = 0;
    if (!take_mark(begin)) return false;
    stack_.resize(begin);
    return true;
  }
  std::string text(std::size_t below) const {
    return below < stack_.size() ? builder_.shown(stack_[stack_.size() - 1 - below]) : "?";
  }

  void make_empty(Kind kind) { push(empty(kind)); }
  void make_of_last(Kind kind, std::size_t count) {
    if (has(count)) make(kind, stack_.size() - count);
  }
  void make_since_mark(Kind kind) {
    if (std::size_t begin = 0; take_mark(begin)) make(kind, begin);
  }
  void fill_of_last(Kind kind, std::size_t count) {
    if (has(count + 1)) fill(stack_.size() - count, kind == Kind::kDict);
  }
  void fill_since_mark(Kind kind) {
    if (std::size_t begin = 0; take_mark(begin)) fill(begin, kind == Kind::kDict);
  }

  void put(std::uint64_t index) {
    if (!has(1)) return;
    // Each place is written once, and an event of a real file takes more than a hundred bytes.
    if (index >= most_remembered_) return input_.stop("a place of the memo is out of reason");
    if (index >= memo_.size())
      memo_.resize(static_cast<std::size_t>(index) + 1, {0, 0, Row::kUnwritten});
    else if (memo_[static_cast<std::size_t>(index)].kind != Row::kUnwritten)
      known_.forget();
    stack_.back().slot = static_cast<std::uint32_t>(index) + 1;
    memo_[static_cast<std::size_t>(index)] = stack_.back();
  }
  void put_next() { put(memo_.size()); }
  void get(std::uint64_t index) {
    if (input_.ended()) return;
    if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)].kind == Row::kUnwritten)
      return input_.stop("a place of the memo is read that was not written");
    push(memo_[static_cast<std::size_t>(index)]);
  }
  void end() {
    if (!marks_.empty() || stack_.size() != 1)
      return input_.stop("the pickle ends with more or less than one value");
    ended_well_ = true;
    input_.end();
  }

 private:
  using Value = SnapshotBuilder::Value;
  using Row = SnapshotBuilder::Kind;

  void push(const Value& value) {
    if (input_.ended()) return;
    if (stack_.size() >= most_stacked_) return input_.stop("more values than a snapshot has");
    stack_.push_back(value);
  }
  std::size_t bottom() const { return marks_.empty() ? 0 : marks_.back(); }
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
  static Value empty(Kind kind) {
    return {0, 0, kind == Kind::kDict ? Row::kEmptyDict : Row::kEmptyList};
  }

  void make(Kind kind, std::size_t begin) {
    if (kind == Kind::kDict && (stack_.size() - begin) % 2 != 0)
      return input_.stop("a key stands without a value");
    const Value made = kind == Kind::kTuple  ? builder_.tuple(from(begin))
                       : kind == Kind::kDict ? builder_.dict(empty(kind), from(begin))
                                             : builder_.list(empty(kind), from(begin));
    stack_.resize(begin);
    push(made);
    check();
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
    const Row kind = stack_[at].kind;
    const std::size_t count = stack_.size() - begin;
    const bool is_dict = kind == Row::kEmptyDict || kind == Row::kDict ||
                         (kind >= Row::kEvent && kind <= Row::kPast);
    const bool is_list =
        kind == Row::kEmptyList || kind == Row::kStack || kind == Row::kRows || kind == Row::kList;
    if (dict ? !is_dict : !is_list)
      return input_.stop("an opcode fills what is no container of its kind");
    if (dict && (stack_.size() - begin) % 2 != 0)
      return input_.stop("a key stands without a value");
    grown(at,
          dict ? builder_.dict(stack_[at], from(begin)) : builder_.list(stack_[at], from(begin)));
    stack_.resize(begin);
    if (kind == Row::kEmptyList && stack_[at].kind == Row::kStack)
      known_.learn(input_.at(), stack_[at].payload, count);
    check();
  }
  // The frames of a stack that was read before, in place of the fetches that fill it; they stand behind a MARK.
  bool takes_known_stack() {
    if (stack_.size() <= bottom() || stack_.back().kind != Row::kEmptyList) return false;
    const KnownStacks::Known* known = known_.look(input_.bytes(), input_.at());
    if (known == nullptr || !builder_.room_for(known->frames)) return false;
    input_.take(known->size);
    grown(stack_.size() - 1, {known->stack, 0, Row::kStack});
    return true;
  }
  void check() {
    if (!builder_.fault().empty() && !input_.ended())
      input_.stop("the pickle holds no memory snapshot: " + builder_.fault());
  }

  PickleInput& input_;
  SnapshotBuilder builder_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Value> memo_;
  KnownStacks known_;
  std::size_t most_stacked_ = 0, most_remembered_ = 0;
  bool ended_well_ = false;
};

}  // namespace

tl::expected<MemoryHistory, Diagnostics> read_snapshot_pickle(std::string_view bytes,
                                                              std::string_view name) {
  PickleInput input(bytes, name);
  SnapshotStack stack(input);
  PickleMachine<SnapshotStack>(input, stack).run();
  if (input.problems().empty() && !stack.ended_well())
    input.stop("the pickle ends without a value");
  if (!input.problems().empty()) return tl::unexpected(std::move(input.problems()));
  MemoryHistory history = stack.finish();
  if (stack.fault().empty()) return history;
  Diagnostic problem;
  problem.code = "E115";
  problem.message = "the pickle holds no memory snapshot: " + stack.fault();
  problem.place.source = std::string(name);
  return tl::unexpected(Diagnostics{problem});
}

}  // namespace steelyard
