#include "formats/launch/megatron_partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace steelyard {
namespace {

bool counts_embedding(const std::string& method) {
  return method == "type:transformer|embedding" || method == "type:embedding|transformer";
}

}  // namespace

// bigscience's GPTModelPipe begins with an embedding and, where the head is tied, ends with the same class again. DeepSpeed
// matches class names (runtime/pipe/module.py, _partition_layers) and divides those that match.
void read_megatron_partition(ConfigReader& reading, std::int64_t pipeline) {
  const Value* method = reading.take("pp_partition_method");
  if (method == nullptr || pipeline < 2) return;
  std::string word = word_of(*method);
  std::transform(word.begin(), word.end(), word.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (word == "type:transformer") return;  // the stages are equal of themselves
  const Value* count = reading.theirs().find("num_layers");
  const std::int64_t layers = count == nullptr ? 0 : count_of(*count).value_or(0);
  if (layers < 1 || layers > 100'000 || pipeline > 100'000) return;
  const bool untied = reading.theirs().find("untie_embeddings_and_output_weights") != nullptr;
  if (!counts_embedding(word) || untied || (layers + 2) % pipeline != 0)
    return reading.warn(
        *method, fmt::format("pp-partition-method {} is not followed", word_of(*method)),
        fmt::format("{} layers on {} stages are weighed as equal as they can be", layers, pipeline),
        "pipeline_layout = [...] states the layers of each stage");
  const std::int64_t each = (layers + 2) / pipeline;
  Value list = Value::array();
  for (std::int64_t stage = 0; stage < pipeline; ++stage)
    list.items().push_back(
        Value::integer(each - (stage == 0 ? 1 : 0) - (stage + 1 == pipeline ? 1 : 0)));
  reading.say("parallel.pipeline_layout", std::move(list), *method);
}

}  // namespace steelyard
