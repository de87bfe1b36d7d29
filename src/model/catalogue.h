// The models known by name: data/models, one file each. Nothing is parsed before it is asked for.
//
//   find_model("llama-3.1-8b", place, problems)
//   find_model("meta-llama/Llama-3.1-8B", ...)                                      the hub's name
//   find_model("https://huggingface.co/meta-llama/Llama-3.1-8B/tree/main", ...)     a link to it,
//   in any form find_model("7B", ...)                                                           a
//   stated guess, see guess.h
//
// What was understood is said in `understood`, so that an answer can repeat it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "document/diagnostic.h"
#include "document/value.h"
#include "model/architecture.h"

namespace steelyard {

struct Preset {
  std::string name;             // "llama-3.1-8b"
  std::string hub_id;           // "meta-llama/Llama-3.1-8B"; empty: no public checkpoint
  Value config;                 // as config.json has it
  std::int64_t parameters = 0;  // exact
  std::string published;        // as printed: "8B"
  std::optional<std::int64_t> exact_check;  // a total that somebody else counted
  bool disputed = false;
  std::string dispute;   // who says what else
  bool verified = true;  // false: the shape was not read in a source
  std::string source;    // "repository: path"
  std::string notes;
};

// In alphabetical order.
std::vector<std::string_view> preset_names();
// Nothing when there is none of that name. Names are compared without regard to capitals.
std::optional<Preset> find_preset(std::string_view name);
// The preset of "meta-llama/Llama-3.1-8B"; its name, or nothing.
std::optional<std::string_view> preset_of_hub_id(std::string_view hub_id);

// The preset whose shape a checkpoint has that was tuned, quantised or republished under its name; or that the preset's own
// file names ("same_shape").
std::optional<std::string_view> preset_like(std::string_view written);

// The preset whose name stands in the last part of a path or name, between dashes: "qwen3-8b" of
// "Skywork-Reward-V2-Qwen3-8B". To be suggested and never taken: its head or vocabulary may be others.
std::optional<std::string_view> preset_named_in(std::string_view written);

// "meta-llama/Llama-3.1-8B" of a link in any form (blob, resolve, tree, raw, with or without the
// scheme), or nothing.
std::optional<std::string> hub_id_of_link(std::string_view link);

struct FoundModel {
  std::shared_ptr<const Architecture> architecture;
  std::string understood;  // "llama-3.1-8b (meta-llama/Llama-3.1-8B)"; empty when the preset's own
                           // name was written
};
std::optional<FoundModel> find_model(std::string_view written, const Place& place,
                                     Diagnostics& diagnostics);

}  // namespace steelyard
