// Any bytes as a safetensors file and as an index of shards; what can be read is held against a small model.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "document/read.h"
#include "model/compare_tensors.h"
#include "model/read.h"
#include "model/safetensors.h"
#include "quantity/checked.h"

namespace {

const steelyard::Architecture& small_mixture() {
  static const steelyard::Architecture model = [] {
    const auto document = steelyard::read_json(
        R"({"model_type": "deepseek_v3", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 4,
            "moe_intermediate_size": 2, "num_hidden_layers": 2, "first_k_dense_replace": 1,
            "num_attention_heads": 2, "n_routed_experts": 2, "num_experts_per_tok": 1,
            "q_lora_rank": 2, "kv_lora_rank": 2, "qk_nope_head_dim": 2, "qk_rope_head_dim": 2,
            "v_head_dim": 2, "num_nextn_predict_layers": 1})",
        "config.json");
    steelyard::Diagnostics problems;
    return *steelyard::read_architecture(*document, "small", problems);
  }();
  return model;
}

void look_at(const steelyard::StoredTensors& tensors) {
  try {
    steelyard::elements_by_type(tensors);
    const auto comparison = steelyard::compare_tensors(small_mixture(), tensors, 50);
    if (comparison.mismatches.size() > 50) std::abort();
    for (const auto& mismatch : comparison.mismatches) steelyard::described(mismatch);
  } catch (const steelyard::OverflowError&) {
    // Each tensor fits 64 bits, their sum need not: the caller is told.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto tensors = steelyard::read_safetensors_header(bytes, "model.safetensors"))
    look_at(*tensors);
  // The same bytes with the length that they have: so the search is not spent on eight of them.
  std::string framed;
  for (unsigned i = 0; i < 8; ++i)
    framed += static_cast<char>((static_cast<std::uint64_t>(size) >> (8 * i)) & 0xFFU);
  framed += bytes;
  if (const auto tensors =
          steelyard::read_safetensors_header(framed, "model.safetensors", std::int64_t{1} << 40))
    look_at(*tensors);
  if (const auto index = steelyard::read_shard_index(bytes, "model.safetensors.index.json"))
    for (const std::string& shard : index->shards)
      if (shard.find('/') != std::string::npos || shard.empty()) std::abort();
  return 0;
}
