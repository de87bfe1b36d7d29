// The highest moment of a stretch of tape and what stands then: all that a search asks of a stage.
//
//   Crest crest = crest_of(program, node);       crest.height   74.2 GiB      crest.phase   backward
//   joined(crest, other), repeated(crest, 512)   as spans of sequences and repeats, without any node
//
// Among phases that stand equally high the first one is meant, within it the first moment: as find_peak() has it.
#pragma once

#include <deque>

#include "ledger/program.h"

namespace steelyard {

struct Crest {
  // By pile. Not checked for overflow one by one: change and height are, and no pile is more than its total.
  using Bytes = std::array<std::int64_t, 8>;
  static_assert(kPileCount <= 8);
  Bytes net{};  // change from start to end
  std::int64_t change = 0;
  std::int64_t height = kNoPeak;  // above the start
  Phase phase = Phase::kLoad;     // in which it is reached
  Bytes piles{};                  // at that moment, above the start
};
Piles piles_at(const Crest& crest);

Crest crest_of(const Program& program, NodeId node);
// Of a tape that stands in no program.
Crest crest_of(const Program& program, Phase phase, std::span<const Event> events);
// Of so many bytes of one pile, which appear, and of the end of them.
Crest crest_of(Phase phase, Pile pile, std::int64_t bytes);
Crest opposite(Phase phase, const Crest& held);
// `first`, then `second`.
void join(Crest& first, const Crest& second);
Crest repeated(const Crest& body, std::int64_t times);

// Both ways to put a stage's step together: as nodes of a program, which can be asked for everything, or as crests alone.
class NodeLine {
 public:
  using Part = NodeId;
  explicit NodeLine(Program& program) : program_(program) {}
  Part of(NodeId node) const { return node; }
  void forget() {}
  Part tape(Phase phase, const char* label, std::span<const Event> events) {
    return program_.tape(phase, label, events);
  }
  Part sequence(const char* label, std::span<const Part> parts) {
    return program_.sequence(label, parts);
  }
  Part sequence(const char* label, std::initializer_list<Part> parts) {
    return program_.sequence(label, parts);
  }
  Part repeat(const char* label, Part body, std::int64_t times) {
    return program_.repeat(label, body, times);
  }
  std::int64_t height(Part part) const { return program_.span(part).highest(); }
  std::int64_t change(Part part) const { return program_.span(part).change; }
  // One instance of the slot that `make` gives, and then it goes.
  template <class MakeSlot>
  Part hold(Phase phase, Pile, std::int64_t, MakeSlot make) {
    const Event held{make(), 1};
    return program_.tape(phase, "", {&held, 1});
  }
  Part let_go(Phase phase, Part held) {
    Event event = program_.events(program_.node(held)).front();
    event.count = -event.count;
    return program_.tape(phase, "", {&event, 1});
  }
  // `steps` in turn, `times` over, one by one.
  void append(std::vector<Part>& to, const std::vector<Part>& steps, std::int64_t times) {
    for (std::int64_t time = 0; time < times; ++time)
      to.insert(to.end(), steps.begin(), steps.end());
  }

 private:
  Program& program_;
};

// Crests instead of nodes. Those of nodes are remembered; the others live until forget().
class CrestLine {
 public:
  using Part = const Crest*;
  explicit CrestLine(Program& program) : program_(program) {}
  Part of(NodeId node);
  Part tape(Phase phase, const char*, std::span<const Event> events) {
    return keep(crest_of(program_, phase, events));
  }
  Part sequence(const char* label, std::span<const Part> parts);
  std::int64_t height(Part part) const { return part->height; }
  std::int64_t change(Part part) const { return part->change; }
  // Of so many bytes; no slot is made.
  template <class MakeSlot>
  Part hold(Phase phase, Pile pile, std::int64_t bytes, MakeSlot) {
    return keep(crest_of(phase, pile, bytes));
  }
  Part let_go(Phase phase, Part held) { return keep(opposite(phase, *held)); }
  void append(std::vector<Part>& to, const std::vector<Part>& steps, std::int64_t times) {
    to.push_back(repeat("", sequence("", steps), times));
  }
  Part sequence(const char* label, std::initializer_list<Part> parts) {
    return sequence(label, std::span(parts.begin(), parts.size()));
  }
  Part repeat(const char*, Part body, std::int64_t times) { return keep(repeated(*body, times)); }
  void forget() { made_.clear(); }
  void forget_nodes() {
    known_.clear();
    of_nodes_.clear();
  }

 private:
  Part keep(const Crest& crest) { return &made_.emplace_back(crest); }

  Program& program_;
  std::deque<Crest> of_nodes_, made_;
  std::vector<Part> known_;  // by node
};

}  // namespace steelyard
