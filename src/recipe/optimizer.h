// What an optimizer keeps for each parameter tensor, and what its step needs for a moment.
//
//   adamw   first moment   per parameter   fp32
//           second moment  per parameter   fp32
//   adafactor  row second moment  per row   fp32     (matrices; vectors keep one value per parameter)
//
// Data, not code: data/optimizers/*.json lists slots; a new kind of slot needs a case in optimizer.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"
#include "quantity/element_type.h"

namespace steelyard {

enum class SlotExtent : std::uint8_t {
  kParameter,   // one value for each element
  kRow,         // [..., r, c] -> [..., r]
  kColumn,      // [..., r, c] -> [..., c]
  kBlock,       // one value for each `block` elements (absmax of 8-bit states)
  kTensor,      // one value for each tensor (step counters on the device)
  kRowGram,     // r x r  (SOAP, Shampoo)
  kColumnGram,  // c x c
  kLowRank,     // rank x max(r, c)   (GaLore, APOLLO)
  kProjector,   // rank x min(r, c)
  kHead,        // one value for each head or output row block (Adam-mini)
};
enum class SlotAppliesTo : std::uint8_t { kAll, kMatrices, kVectors, kHiddenMatrices, kNotHiddenMatrices, kLarge, kSmall };

struct OptimizerSlot {
  std::string name;                       // "exp_avg"
  SlotExtent extent = SlotExtent::kParameter;
  SlotAppliesTo applies_to = SlotAppliesTo::kAll;
  std::optional<ElementType> type;        // absent: the type of the stepped parameter (master if there is one)
  std::int64_t block = 0;                 // kBlock
  std::int64_t count = 1;                 // equal tensors of this form
  std::string reason;
};

struct Optimizer {
  std::string name;
  std::string description;
  std::vector<OptimizerSlot> slots;
  std::int64_t small_below = 0;           // kSmall: tensors with fewer elements (bitsandbytes: 4096)
  bool embedding_is_small = false;        // 8-bit: embeddings keep 32-bit states under HF Trainer
  std::int64_t rank = 0;                  // default rank of low-rank optimizers
  std::int64_t maximum_gram = 0;          // dimensions above it get no gram matrix (SOAP 10000)
  bool paged = false;                     // states of tensors with >= 1e5 elements live in managed memory
  bool keeps_master = true;               // false: updates parameters in their own type (bitsandbytes, LOMO)
  bool fused_into_backward = false;       // LOMO: a gradient dies as soon as it is applied
  // Temporaries of step(), in units of the listed thing.
  double foreach_list_of_second_moment = 0;  // foreach Adam: one list as large as all second moments
  double foreach_list_of_gradients = 0;
  double loop_largest_tensor = 0;            // for-loop form: this many times the largest tensor
  double newton_schulz_largest_matrix = 0;   // Muon: bf16 temporaries, times the largest matrix
  bool step_on_device_when_fused = false;    // one fp32 scalar (512 B block) for each parameter tensor
  std::string source;
};

// One state tensor that `optimizer` keeps for a parameter tensor of `shape` (the local one).
struct StateTensor {
  const OptimizerSlot* slot = nullptr;
  std::int64_t elements = 0;
  ElementType type = ElementType::kFloat32;
  std::int64_t count = 1;
};
// `shape`: what this rank steps (a flat shard is one-dimensional: [elements], with `matrix_shape` the whole matrix it was
// cut from, empty if unknown). `stepped` is the type of the tensor that the optimizer sees.
std::vector<StateTensor> state_tensors(const Optimizer& optimizer, const ParameterTensor& tensor, const std::vector<std::int64_t>& shape,
                                       ElementType stepped);

const std::vector<Optimizer>& optimizers();
const Optimizer* find_optimizer(std::string_view name);

}  // namespace steelyard
