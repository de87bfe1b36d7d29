// What published rows share: names of devices, shapes of models that rows name without printing them, and the fields
// that every row of a Megatron-like table has.
#pragma once

#include <string>
#include <string_view>

#include "validate/measured_row.h"

namespace steelyard {

// "NVIDIA A100 SXM 80GB" -> "a100-sxm-80gb"; nothing for a device that we have no facts of. `gib` tells sizes apart where
// the name does not.
std::optional<std::string> device_named(std::string_view gpu, std::optional<std::int64_t> gib);

struct Shape {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, feed_forward = 0, vocabulary = 0;
  std::int64_t positions = 2048;
  bool tied = false;
  bool biased_attention = false;
};
Value llama_model(const Shape& shape);
Value gpt_model(const Shape& shape);  // learned positions, LayerNorm, GELU, biases

// layers, hidden, heads, ffn (4 x hidden when absent) and vocab of the row.
Shape printed_shape(MeasuredRow& row);

// Megatron-LM's own defaults for dropout, for rows that print none (megatron/arguments.py: attention and hidden 0.1).
void assume_megatron_dropout(MappedRun& mapped);

// Megatron-LM until 2023, and what was made of it, sends hidden states to the next stage in parts.
void scatter_transfers(MappedRun& mapped);

// device, devices, devices_per_node, and what its machines send where the row says it; a row of an unknown device is
// incomplete.
void map_cluster(MeasuredRow& row, MappedRun& mapped, std::int64_t devices_per_node = 8);

// Megatron's pipeline: its stages, their chunks, its order, and the layers of each chunk. Embedding and loss count as a layer each where that makes them even
// (account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split); false: neither does.
bool map_stages(std::int64_t layers, std::int64_t stages, std::int64_t chunks_of_stage,
                MappedRun& mapped);

// A run that printed its speed has not run out of memory.
void map_outcome(const MeasuredRow& row, MappedRun& mapped);

// The seconds of a step, or tokens a second; the printed FLOP/s by the source's own formula where there is nothing else.
void map_time(const MeasuredRow& row, MappedRun& mapped);

}  // namespace steelyard
