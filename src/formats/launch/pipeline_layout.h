// Megatron-LM's --pipeline-model-parallel-layout, and the layers of each chunk: `|` ends a chunk, E is the embedding, t a
// layer, m a layer of multi-token prediction, L the loss; x*3 and (xy|)*3 repeat, commas are decoration.
//
//   layers_of_layout("Et*3|(tt|)*2tL")          3, 2, 2, 1
//   layout_of_layers({3, 2, 2, 1})              "Et*3|t*2|t*2|t*1L"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace steelyard {

// Nothing when it is not one, or when a repetition grows beyond reason.
std::optional<std::vector<std::int64_t>> layers_of_layout(std::string_view layout);
std::string layout_of_layers(const std::vector<std::int64_t>& layers);

}  // namespace steelyard
