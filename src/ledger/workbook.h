// A program together with the derivation of every slot.
//
//   Workbook<Checked>  sizes only: fast                       predict()
//   Workbook<Traced>   the same slots, each with its formula  explain()
//
// Builders are templates over the number; both readings issue the same slots in the same order.
#pragma once

#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "ledger/program.h"
#include "ledger/slot_tensors.h"
#include "quantity/element_type.h"
#include "quantity/traced.h"

namespace steelyard {

// How a slot's bytes came about: elements x width, rounded up to 512.
struct Formula {
  Traced elements;
  ElementType type = ElementType::kFloat32;
};

// Names of a slot; all live as long as the workbook.
struct SlotName {
  const char* owner = "";
  const char* name = "";
  const char* rule = "";
};

template <class N>
class Workbook {
 public:
  Program program;
  std::vector<Formula> formulas;     // by slot; empty for Checked
  std::vector<SlotTensors> tensors;  // by slot, as far as it goes; empty for SlotDetail::kSums

  std::vector<std::int64_t> launches;  // of kernels, by tape, as far as it goes; empty likewise

  explicit Workbook(SlotDetail detail = SlotDetail::kSums) : detail_(detail) {}
  TensorSum tensor_sum() const { return TensorSum(detail_); }

  SlotId slot(const SlotName& what, Pile pile, const N& elements, ElementType type) {
    const Bytes bytes = allocated_size(bytes_of(Elements(Checked(plain(elements))), type));
    if constexpr (std::is_same_v<N, Traced>) formulas.push_back({elements, type});
    return program.slot({what.owner, spoken(what.name), what.rule, pile, bytes});
  }
  // A slot of many tensors, each a block of its own.
  SlotId slot_of_tensors(const SlotName& what, Pile pile, const N& elements, ElementType type,
                         TensorSum sum) {
    if constexpr (std::is_same_v<N, Traced>) formulas.push_back({elements, type});
    const SlotId slot = program.slot({what.owner, spoken(what.name), what.rule, pile, sum.bytes()});
    if (detail_ == SlotDetail::kTensors) tensors_of(slot).tensors = std::move(sum).take_tensors();
    return slot;
  }
  // This is so many tensors of one size.
  void cut(SlotId slot, std::int64_t parts) {
    if (detail_ == SlotDetail::kSums) return;
    TensorSum sum = tensor_sum();
    sum.add(allocated_size(Bytes(ceil_divide(program.slot_at(slot).bytes.value(), Checked(parts)))),
            parts, 0);
    tensors_of(slot).tensors = std::move(sum).take_tensors();
  }
  // These are made together, tensor by tensor.
  void weave(const std::vector<SlotId>& slots) {
    if (detail_ == SlotDetail::kSums) return;
    ++woven_;
    for (SlotId slot : slots) tensors_of(slot).woven = woven_;
  }
  // These are parts of one tensor, wherever they appear one behind the other.
  void join(const std::vector<SlotId>& slots) {
    if (detail_ == SlotDetail::kSums) return;
    ++joined_;
    for (SlotId slot : slots)
      if (slot >= 0) tensors_of(slot).joined = joined_;
  }
  // What collectives read or write.
  void exchange(std::initializer_list<SlotId> slots, Exchanged how) {
    if (detail_ == SlotDetail::kTensors)
      for (SlotId slot : slots) tensors_of(slot).exchanged = how;
  }
  void oldest_goes(SlotId slot) {
    if (detail_ == SlotDetail::kTensors) tensors_of(slot).oldest_goes = true;
  }
  void launch(NodeId tape, std::int64_t kernels) {
    if (detail_ == SlotDetail::kSums || kernels == 0) return;
    const auto index = static_cast<std::size_t>(tape);
    if (launches.size() <= index) launches.resize(index + 1);
    launches[index] += kernels;
  }
  SlotDetail detail() const { return detail_; }
  // Slots made from here on are of this model, which their names say: "parameters, of the reference". Null: of the trained one.
  void speak_of(const char* model) { model_ = model; }
  static N symbol(const char* letter, std::int64_t value) {
    if constexpr (std::is_same_v<N, Traced>)
      return Traced::symbol(letter, value);
    else
      return N(value);
  }
  // A number that no polynomial gives.
  static N counted(const char* how, std::int64_t value) {
    if constexpr (std::is_same_v<N, Traced>)
      return Traced::opaque(how, value);
    else
      return N(value);
  }

 private:
  SlotTensors& tensors_of(SlotId slot) {
    const auto index = static_cast<std::size_t>(slot);
    if (tensors.size() <= index) tensors.resize(index + 1);
    return tensors[index];
  }

  const char* spoken(const char* name) {
    if (model_ == nullptr) return name;
    for (const std::string& known : *names_)
      if (known.size() == std::char_traits<char>::length(name) + of_model().size() &&
          known.starts_with(name) && known.ends_with(of_model()))
        return known.c_str();
    return names_->emplace_back(name + of_model()).c_str();
  }
  std::string of_model() const { return std::string(", of the ") + model_; }

  SlotDetail detail_;
  const char* model_ = nullptr;
  // Shared by all copies: slots of each point into it.
  std::shared_ptr<std::deque<std::string>> names_ = std::make_shared<std::deque<std::string>>();
  std::int32_t woven_ = 0, joined_ = 0;
};

}  // namespace steelyard
