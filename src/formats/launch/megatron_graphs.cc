#include "formats/launch/megatron_graphs.h"

#include <fmt/format.h>

#include <algorithm>

namespace steelyard {
namespace {

constexpr std::string_view kWhole = "full_iteration";
constexpr std::string_view kScopes =
    "attn=attention|mlp=mlp|moe_router=router|moe_preprocess=router";

// What is captured of a layer; nothing: all that can be. `full` is the old word for it.
void read_scopes(ConfigReader& reading, const std::vector<Value>& scopes) {
  Value modules = Value::array();
  for (const Value& scope : scopes) {
    if (word_of(scope) == "full") continue;
    const auto ours = ours_of(kScopes, word_of(scope));
    if (!ours) {
      reading.refuse(scope, fmt::format("no module {} to capture", word_of(scope)),
                     "attn, mlp, moe_router and moe_preprocess are weighed",
                     "experts of fixed capacity and state-space layers are not");
      continue;
    }
    const bool known = std::any_of(modules.items().begin(), modules.items().end(),
                                   [&](const Value& other) { return word_of(other) == *ours; });
    if (!known) modules.items().push_back(Value::string(*ours));
  }
  if (!modules.items().empty())
    reading.say("cuda_graph_modules", std::move(modules), scopes.front());
}

}  // namespace

void read_megatron_graphs(ConfigReader& reading) {
  const Value* by = reading.take("cuda_graph_impl");
  const Value* own = reading.on("enable_cuda_graph");
  const Value* external = reading.on("external_cuda_graph");
  std::vector<Value> scopes = reading.words("cuda_graph_scope");
  if (scopes.empty()) scopes = reading.words("cuda_graph_modules");
  if (by == nullptr) by = own != nullptr ? own : external;
  if (by == nullptr || word_of(*by) == "none") return;
  const bool whole = word_of(*by) == kWhole ||
                     std::any_of(scopes.begin(), scopes.end(),
                                 [](const Value& scope) { return word_of(scope) == kWhole; });
  reading.take("te_rng_tracker");
  reading.say("cuda_graphs", whole ? "iteration" : "module", *by);
  if (!whole) read_scopes(reading, scopes);
}

void write_megatron_graphs(ConfigWriter& writing) {
  const std::string graphs = writing.word("cuda_graphs", "none");
  const std::vector<Value> modules = words_of(writing.take("cuda_graph_modules"));
  if (graphs == "none") return;
  const bool whole = graphs == "iteration";
  writing.put("cuda_graph_impl", whole ? "local" : "transformer_engine");
  Value scopes = Value::array();
  const auto add = [&](std::string_view scope) {
    scopes.items().push_back(Value::string(std::string(scope)));
  };
  const auto captures = [&](std::string_view module, bool otherwise) {
    if (modules.empty()) return otherwise;
    return std::any_of(modules.begin(), modules.end(),
                       [&](const Value& name) { return word_of(name) == module; });
  };
  if (whole) {
    add(kWhole);
  } else {
    const bool experts = writing.theirs.find("num_experts") != nullptr;
    const bool dense = !experts || writing.theirs.find("moe_layer_freq") != nullptr;
    if (captures("attention", true)) add("attn");
    if (captures("mlp", dense)) add("mlp");
    if (captures("router", experts))
      for (const char* scope : {"moe_router", "moe_preprocess"}) add(scope);
  }
  writing.put("cuda_graph_scope", std::move(scopes));
  writing.put("te_rng_tracker", Value::boolean(true), "graphs need its states");
  if (whole)
    writing.put("no_check_for_nan_in_loss_and_grad", Value::boolean(true),
                "such checks wait for the host");
}

}  // namespace steelyard
