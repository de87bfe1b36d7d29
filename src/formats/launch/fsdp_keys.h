// FSDP as Accelerate, Axolotl and Trainer say it: one set of names, with or without the prefix `fsdp_`, in different places.
//
//   fsdp_config: {version: 2, reshard_after_forward: true, offload_params: false}
#pragma once

#include <functional>
#include <string_view>

#include "formats/launch/formats.h"

namespace steelyard {

// The value of one of those names, wherever this format has it; nothing when it is not there.
using FsdpKey = std::function<const Value*(std::string_view name)>;

// Offloading, recomputation, and what a checkpoint holds; true when it says the last.
bool read_fsdp_switches(ConfigReader& reading, const FsdpKey& key);

// Whether each micro-batch is reduced: sync_each_batch of Accelerate's GradientAccumulationPlugin, which its own file has no
// room for and TrainingArguments do. Every stack on Accelerate lets gradients wait whole unless told.
bool syncs_each_micro_batch(ConfigWriter& writing);
void write_sync(ConfigWriter& writing);
void read_sync(ConfigReader& reading);
// Since 1.14 Accelerate, and what stands on it, makes units of the ends; no key says otherwise.
void write_ends(ConfigWriter& writing);

// Whether parameters and states wait on the host, which FSDP has together or not at all; refused with an optimizer that has no
// states on the device.
bool offloads_with_fsdp(ConfigWriter& writing);

// FSDP of one process is none: Accelerate starts it for several alone (accelerate/state.py, PartialState).
void refuse_fsdp_alone(ConfigWriter& writing);

// `fsdp` and `fsdp_config` of TrainingArguments.
void read_fsdp_keys(ConfigReader& reading, Launch& launch);
void write_fsdp_keys(ConfigWriter& writing);

}  // namespace steelyard
