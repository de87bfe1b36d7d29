#include "evidence/pickle_writer.h"

#include <cstring>
#include <limits>

#include "evidence/pickle_opcode.h"

namespace steelyard {
namespace {

constexpr int kPortion = 1000;  // items of a list, pairs of a dict

}  // namespace

PickleWriter::PickleWriter() {
  byte(kProto);
  byte(2);
}

void PickleWriter::little_endian(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) byte(static_cast<int>((value >> (8 * i)) & 0xFFU));
}

// The mark before the first value of a portion.
void PickleWriter::begin_value() {
  if (!open_.empty() && open_.back().kind != Kind::kTuple && open_.back().values == 0) byte(kMark);
}

void PickleWriter::end_value() {
  if (open_.empty()) return;
  Open& open = open_.back();
  if (open.kind == Kind::kTuple) return;
  ++open.values;
  if (open.values == (open.kind == Kind::kDict ? 2 * kPortion : kPortion)) end_portion(open);
}

void PickleWriter::end_portion(Open& open) {
  if (open.values > 0) byte(open.kind == Kind::kDict ? kSetItems : kAppends);
  open.values = 0;
}

void PickleWriter::end_portions() {
  end_portion(open_.back());
  open_.pop_back();
  end_value();
}

void PickleWriter::none() {
  begin_value();
  byte(kNone);
  end_value();
}

void PickleWriter::boolean(bool truth) {
  begin_value();
  byte(truth ? kNewTrue : kNewFalse);
  end_value();
}

void PickleWriter::integer(std::int64_t number) {
  begin_value();
  const auto bits = static_cast<std::uint64_t>(number);
  if (number >= 0 && number < 0x100) {
    byte(kBinInt1);
    little_endian(bits, 1);
  } else if (number >= 0 && number < 0x10000) {
    byte(kBinInt2);
    little_endian(bits, 2);
  } else if (number >= std::numeric_limits<std::int32_t>::min() &&
             number <= std::numeric_limits<std::int32_t>::max()) {
    byte(kBinInt);
    little_endian(bits, 4);
  } else {
    byte(kLong1);
    byte(8);
    little_endian(bits, 8);
  }
  end_value();
}

void PickleWriter::number(double number) {
  begin_value();
  byte(kBinFloat);
  std::uint64_t bits = 0;  // the page's compiler has no std::bit_cast
  std::memcpy(&bits, &number, sizeof bits);
  for (int i = 7; i >= 0; --i) byte(static_cast<int>((bits >> (8 * i)) & 0xFFU));
  end_value();
}

void PickleWriter::string(std::string_view text) {
  const auto known = strings_.find(std::string(text));
  if (known != strings_.end()) return recall(known->second);
  begin_value();
  byte(kBinUnicode);
  little_endian(text.size(), 4);
  text_ += text;
  strings_.emplace(text, remember());
  end_value();
}

void PickleWriter::begin_list() {
  begin_value();
  byte(kEmptyList);
  open_.push_back({Kind::kList});
}

void PickleWriter::begin_dict() {
  begin_value();
  byte(kEmptyDict);
  open_.push_back({Kind::kDict});
}

void PickleWriter::begin_tuple() {
  begin_value();
  byte(kMark);
  open_.push_back({Kind::kTuple});
}

void PickleWriter::end_tuple() {
  byte(kTuple);
  open_.pop_back();
  end_value();
}

PickleWriter::Memo PickleWriter::remember() {
  byte(memos_ < 0x100 ? kBinPut : kLongBinPut);
  little_endian(memos_, memos_ < 0x100 ? 1 : 4);
  return memos_++;
}

void PickleWriter::recall(Memo memo) {
  begin_value();
  byte(memo < 0x100 ? kBinGet : kLongBinGet);
  little_endian(memo, memo < 0x100 ? 1 : 4);
  end_value();
}

std::string PickleWriter::finish() && {
  byte(kStop);
  return std::move(text_);
}

}  // namespace steelyard
