// The machine that a pickle is a program for, with values and nothing else: what each opcode does to a stack.
//
//   PickleInput input(bytes, "oom.pickle");
//   SnapshotStack stack(input);
//   PickleMachine<SnapshotStack>(input, stack).run();
//
// A stack has the functions of PickleStack (pickle_stack.h), which keeps all values; another one turns them into rows at once
// (snapshot_pickle.cc). What would import, call or fetch anything is refused by its name: `kReadsOn` says whether reading
// goes on then, so that all is told.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "evidence/pickle.h"
#include "evidence/pickle_input.h"
#include "evidence/pickle_opcode.h"

namespace steelyard {

template <class Stack>
class PickleMachine {
 public:
  PickleMachine(PickleInput& input, Stack& stack) : input_(input), stack_(stack) {}

  // Up to STOP, or to what stops the input.
  void run() {
    if (!input_.is_pickle()) return;
    while (!input_.ended()) {
      const int opcode = input_.opcode();
      if (!input_.ended()) step(opcode);
    }
  }

 private:
  using Kind = PickleValue::Kind;

  // ---- what is refused: each takes and leaves as many values as the real one, so that reading can go on

  void refuse_for(const std::string& what, std::size_t takes, bool leaves = true) {
    input_.refuse(what);
    if (!Stack::kReadsOn) input_.end();
    if (input_.ended() || !stack_.has(takes)) return;
    stack_.drop(takes);
    if (leaves) stack_.push_none();
  }
  void refuse_since_mark(const std::string& what, bool leaves = true) {
    input_.refuse(what);
    if (!Stack::kReadsOn) input_.end();
    if (!input_.ended() && stack_.drop_since_mark() && leaves) stack_.push_none();
  }

  bool step_refused(int opcode) {
    switch (opcode) {
      case kGlobal: {
        const std::string module(input_.line());
        const std::string name(input_.ended() ? "" : input_.line());
        if (!input_.ended()) refuse_for(fmt::format("import {}.{}", module, name), 0);
        return true;
      }
      case kStackGlobal:
        if (stack_.has(2))
          refuse_for(fmt::format("import {}.{}", stack_.text(1), stack_.text(0)), 2);
        return true;
      case kInst: {
        const std::string module(input_.line());
        const std::string name(input_.ended() ? "" : input_.line());
        if (!input_.ended()) refuse_since_mark(fmt::format("call {}.{}", module, name));
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
        input_.take(opcode == kExt1 ? 1 : opcode == kExt2 ? 2 : 4);
        if (!input_.ended()) refuse_for("use a registered extension", 0);
        return true;
      case kPersId:
        input_.line();
        if (!input_.ended()) refuse_for("fetch an object by its name", 0);
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
        stack_.push_none();
        return true;
      case kNewTrue:
      case kNewFalse:
        stack_.push_integer(opcode == kNewTrue ? 1 : 0, Kind::kBool);
        return true;
      case kBinInt:
        stack_.push_integer(
            static_cast<std::int32_t>(static_cast<std::uint32_t>(input_.number(4))));
        return true;
      case kBinInt1:
        stack_.push_integer(static_cast<std::int64_t>(input_.number(1)));
        return true;
      case kBinInt2:
        stack_.push_integer(static_cast<std::int64_t>(input_.number(2)));
        return true;
      case kLong1:
        stack_.push_long(input_.number(1));
        return true;
      case kLong4:
        stack_.push_long(input_.number(4));
        return true;
      case kBinFloat: {
        std::uint64_t bits = 0;
        for (const char digit : input_.take(8))
          bits = (bits << 8U) | static_cast<unsigned char>(digit);
        double number = 0;  // the page's compiler has no std::bit_cast
        std::memcpy(&number, &bits, sizeof number);
        stack_.push_number(number);
        return true;
      }
      case kShortBinUnicode:
        stack_.push_text(input_.number(1), Kind::kString);
        return true;
      case kBinUnicode:
        stack_.push_text(input_.number(4), Kind::kString);
        return true;
      case kBinUnicode8:
        stack_.push_text(input_.number(8), Kind::kString);
        return true;
      case kShortBinString:
        stack_.push_text(input_.number(1), Kind::kString);
        return true;
      case kBinString:
        stack_.push_text(input_.number(4), Kind::kString);
        return true;
      case kShortBinBytes:
        stack_.push_text(input_.number(1), Kind::kBytes);
        return true;
      case kBinBytes:
        stack_.push_text(input_.number(4), Kind::kBytes);
        return true;
      case kBinBytes8:
      case kByteArray8:
        stack_.push_text(input_.number(8), Kind::kBytes);
        return true;
      default:
        return false;
    }
  }

  bool step_container(int opcode) {
    switch (opcode) {
      case kMark:
        stack_.mark();
        return true;
      case kEmptyList:
        stack_.make_empty(Kind::kList);
        return true;
      case kEmptyTuple:
        stack_.make_empty(Kind::kTuple);
        return true;
      case kEmptyDict:
        stack_.make_empty(Kind::kDict);
        return true;
      case kList:
        stack_.make_since_mark(Kind::kList);
        return true;
      case kTuple:
        stack_.make_since_mark(Kind::kTuple);
        return true;
      case kDict:
        stack_.make_since_mark(Kind::kDict);
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        stack_.make_of_last(Kind::kTuple, static_cast<std::size_t>(opcode - kTuple1 + 1));
        return true;
      case kAppend:
        stack_.fill_of_last(Kind::kList, 1);
        return true;
      case kAppends:
        stack_.fill_since_mark(Kind::kList);
        return true;
      case kSetItem:
        stack_.fill_of_last(Kind::kDict, 2);
        return true;
      case kSetItems:
        stack_.fill_since_mark(Kind::kDict);
        return true;
      default:
        return false;
    }
  }

  void step(int opcode) {
    // By frequency: seven opcodes of ten fetch from the memo.
    if (opcode == kBinGet) return stack_.get(input_.number(1));
    if (opcode == kLongBinGet) return stack_.get(input_.number(4));
    if (step_scalar(opcode) || step_container(opcode)) return;
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
        return stack_.put(input_.number(1));
      case kLongBinPut:
        return stack_.put(input_.number(4));
      case kMemoize:
        return stack_.put_next();
      case kPop:
        stack_.drop(1);
        return;
      case kPopMark:
        stack_.drop_since_mark();
        return;
      case kStop:
        return stack_.end();
      default:
        break;
    }
    if (step_refused(opcode)) return;
    input_.stop(fmt::format("{:#04x} is no opcode that is read", opcode));
  }

  PickleInput& input_;
  Stack& stack_;
};

}  // namespace steelyard
