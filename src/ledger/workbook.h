// A program together with the derivation of every slot.
//
//   Workbook<Checked>  sizes only: fast                       predict()
//   Workbook<Traced>   the same slots, each with its formula  explain()
//
// Builders are templates over the number; both readings issue the same slots in the same order.
#pragma once

#include <type_traits>
#include <vector>

#include "ledger/program.h"
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
  std::vector<Formula> formulas;  // by slot; empty for Checked

  SlotId slot(const SlotName& what, Pile pile, const N& elements, ElementType type) {
    const Bytes bytes = allocated_size(bytes_of(Elements(Checked(plain(elements))), type));
    if constexpr (std::is_same_v<N, Traced>) formulas.push_back({elements, type});
    return program.slot({what.owner, what.name, what.rule, pile, bytes});
  }
  // A slot of many tensors that are each rounded on their own: `bytes` is their exact sum.
  SlotId slot_of_bytes(const SlotName& what, Pile pile, const N& elements, ElementType type,
                       Bytes bytes) {
    if constexpr (std::is_same_v<N, Traced>) formulas.push_back({elements, type});
    return program.slot({what.owner, what.name, what.rule, pile, bytes});
  }
  static N symbol(const char* letter, std::int64_t value) {
    if constexpr (std::is_same_v<N, Traced>)
      return Traced::symbol(letter, value);
    else
      return N(value);
  }
};

}  // namespace steelyard
