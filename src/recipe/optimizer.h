// What an optimizer keeps for each parameter tensor, and what its step needs for a moment.
//
//   adamw   first moment   per parameter   fp32
//           second moment  per parameter   fp32
//   adafactor  row second moment  per row   fp32     (matrices; a vector keeps one per parameter)
//
// Data, not code: data/optimizers/*.json lists slots; a new kind needs a case in state_tensors.cc.
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
// kVectors asks the stepped tensor (a flat shard is a vector); kMatrices asks the whole tensor for
// two dimensions, and kHiddenMatrices also that it is neither embedding nor head.
enum class SlotAppliesTo : std::uint8_t {
  kAll,
  kMatrices,
  kVectors,
  kHiddenMatrices,
  kNotHiddenMatrices,
  kLarge,
  kSmall,
  kEmbeddings,
  kNotEmbeddings
};

struct OptimizerSlot {
  std::string name;  // "exp_avg"
  SlotExtent extent = SlotExtent::kParameter;
  SlotAppliesTo applies_to = SlotAppliesTo::kAll;
  std::optional<ElementType> type;  // absent: that of what is stepped (the master if there is one)
  // kBlock: elements of a block. Grams: the matrix is cut into block x block pieces, 0: it is not.
  std::int64_t block = 0;
  std::int64_t count = 1;  // equal tensors of this form
  std::string reason;
};

struct Optimizer {
  std::string name;
  std::string description;
  std::vector<OptimizerSlot> slots;
  std::int64_t small_below = 0;     // kSmall: tensors with fewer elements (bitsandbytes: 4096)
  bool embedding_is_small = false;  // 8-bit: embeddings keep 32-bit states under HF Trainer
  std::int64_t rank = 0;            // default rank of low-rank optimizers
  std::int64_t maximum_gram = 0;    // dimensions above it get no gram matrix (SOAP 10000)
  // States of tensors with at least `paged_from` elements live in managed memory; the scales of
  // their blocks stay on the device.
  bool paged = false;
  std::int64_t paged_from = 100'000;
  bool keeps_master = true;  // false: updates parameters in their own type (bitsandbytes, LOMO)
  bool fused_into_backward = false;  // LOMO: a gradient dies as soon as it is applied
  // Temporaries of step(), in units of the listed thing.
  double foreach_list_of_second_moment = 0;  // foreach Adam: a list as large as all second moments
  double foreach_list_of_gradients = 0;
  double loop_largest_tensor = 0;  // for-loop form: this many times the largest tensor
  bool loop_keeps_last = false;    // and one of the tensor before, until this one has its own
  bool states_in_turn = false;     // a tensor's state is made when the first step comes to it
  bool loop_factors = false;       // Adafactor: or the factors of a matrix
  // and so many more where the tensor is narrower than its temporaries
  std::int64_t loop_widened_copies = 0;
  double newton_schulz_largest_matrix = 0;    // Muon: bf16 temporaries, times the largest matrix
  double newton_schulz_largest_gram = 0;      // and times the square of that matrix's short side
  std::optional<ElementType> temporary_type;  // of the loop temporaries; absent: the stepped type
  std::string only_form;  // "fused" or "loop" when it has one form; empty: any of the three
  bool step_on_device_when_fused = false;  // one fp32 scalar (a 512 B block) a parameter tensor
  std::string source;
};

// States of 8 bits are places in a table of so many values.
constexpr std::int64_t kValuesOf8Bits = 256;

// One state tensor that `optimizer` keeps for one copy of a parameter tensor of `shape`.
struct StateTensor {
  const OptimizerSlot* slot = nullptr;
  std::int64_t elements = 0;
  ElementType type = ElementType::kFloat32;
  std::int64_t count = 1;
  bool paged = false;  // in managed memory: host-backed, outside PyTorch's counters
};
// `shape`: what this rank steps; a flat shard is one-dimensional, [elements], and tensor.shape is
// the whole matrix that it was cut from. `stepped`: the type of what the optimizer sees
// (state_type()). A flat shard gets its share of grams, low-rank states, projectors and per-head
// values, rounded up; Adafactor sees one dimension there and keeps a full second moment, as it
// really does.
std::vector<StateTensor> state_tensors(const Optimizer& optimizer, const ParameterTensor& tensor,
                                       const std::vector<std::int64_t>& shape, ElementType stepped);

// All known optimizers, from data/optimizers; the order is that of `steelyard list optimizers`.
const std::vector<Optimizer>& optimizers();
const Optimizer* find_optimizer(std::string_view name);

}  // namespace steelyard
