// An architecture held against what a checkpoint really stores, tensor by tensor.
//
//   missing     model.layers.3.mlp.up_proj.weight          expected [14336, 4096]
//   shape       lm_head.weight                             expected [128256, 4096], stored [128264,
//   4096] unexpected  model.layers.3.self_attn.q_proj.bias       stored [4096]
//
// What differs without meaning is passed over: an outer prefix ("model.", "transformer."), a stored
// copy of a tied head, rotary and mask buffers, prediction modules that were left out, experts
// stored in one tensor or apart, older spellings (gamma, beta), and the blocks and scales of
// quantised weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "model/architecture.h"
#include "model/safetensors.h"

namespace steelyard {

struct TensorMismatch {
  enum class Kind : std::uint8_t { kMissing, kUnexpected, kShape };
  Kind kind = Kind::kMissing;
  std::string name;                    // as stored, or as the architecture names it when missing
  std::vector<std::int64_t> expected;  // empty when unexpected
  std::vector<std::int64_t> stored;    // empty when missing
};

struct TensorComparison {
  std::vector<TensorMismatch> mismatches;
  bool cut = false;          // there are more than are listed
  std::int64_t matched = 0;  // tensors that are stored as expected
  std::int64_t stored_parameters =
      0;  // elements of all stored tensors that are parameters of the model
};

// At most `limit` mismatches are listed, and looking for missing tensors stops there.
TensorComparison compare_tensors(const Architecture& architecture, const StoredTensors& stored,
                                 std::size_t limit = 1000);

// One line, as above.
std::string described(const TensorMismatch& mismatch);
// One diagnostic for each mismatch, and one more when the list was cut; none when all agrees.
Diagnostics problems_of(const TensorComparison& comparison, std::string_view source_name);

}  // namespace steelyard
