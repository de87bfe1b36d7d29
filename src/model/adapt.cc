#include "model/adapt.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "model/freeze.h"
#include "model/modules.h"
#include "model/name_expression.h"
#include "model/sequence.h"

namespace steelyard {
namespace {

constexpr std::string_view kAllLinear = "all-linear";

bool is_meant(std::string_view module, std::string_view target) {
  if (target == kAllLinear || module == target || matches_pattern(module, target)) return true;
  return module.size() > target.size() && module.ends_with(target) &&
         module[module.size() - target.size() - 1] == '.';
}

// Behind a tower of vision a pattern may name the stack, too: "*language_model*q_proj" is PEFT's regular expression
// ".*language_model.*q_proj". Layers of a kind are adapted alike, so that it cannot name one by its number.
bool is_meant_within(std::string_view stack, std::string_view module, std::string_view target) {
  const bool of_numbers = target.find_first_of("0123456789") != std::string_view::npos;
  const std::string whole = std::string(stack) + "layer." + std::string(module);
  return !of_numbers && matches_pattern(whole, target);
}

// Names that the layers of a language model have in one class of transformers or another: with a tower beside them, and without.
constexpr std::string_view kLanguageModels[] = {"model.language_model.layers.",
                                                "language_model.model.layers.",
                                                "model.text_model.layers.", "model.layers."};

// The layers of each kind by their number in their own stack.
std::vector<std::vector<std::int64_t>> numbers_of_kinds(const Architecture& architecture) {
  std::vector<std::vector<std::int64_t>> numbers(architecture.kinds.size());
  std::int64_t encoding = 0, decoding = 0;
  for (const int kind : kind_of_each_layer(architecture)) {
    const auto index = static_cast<std::size_t>(kind);
    numbers[index].push_back(architecture.kinds[index].encodes ? encoding++ : decoding++);
  }
  return numbers;
}

// In how many of those layers an expression means the module.
std::size_t layers_meant(const std::string& stack, const std::vector<std::int64_t>& numbers,
                         std::string_view module, std::string_view expression) {
  const bool language = std::find(std::begin(kLanguageModels), std::end(kLanguageModels), stack) !=
                        std::end(kLanguageModels);
  std::size_t meant = 0;
  for (const std::int64_t number : numbers) {
    const auto named = [&](std::string_view prefix) {
      return matches_name_expression(
          std::string(prefix) + std::to_string(number) + "." + std::string(module), expression);
    };
    const bool in = named(stack) || (language && std::any_of(std::begin(kLanguageModels),
                                                             std::end(kLanguageModels), named));
    meant += in ? 1 : 0;
  }
  return meant;
}

// A part of a layer's experts that PEFT has under a name of its own.
enum class ExpertPart : std::uint8_t { kGate, kUp, kDown, kRouter };
constexpr std::size_t kExpertParts = 4;

// How the parts were called as linear modules, of a layer of transformers 5.
std::array<std::string, kExpertParts> former_modules(const ExpertTargets& names) {
  const std::string experts = "mlp.experts.";
  return {experts + std::string(names.gate), experts + std::string(names.up),
          experts + std::string(names.down), "mlp.gate"};
}

std::string_view last_of(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// PEFT takes these names from its list of modules, and nothing else that is called so is adapted.
bool is_former_expert(std::string_view module, const ExpertTargets& names) {
  const std::string_view last = last_of(module);
  return last == names.gate || last == names.up || last == names.down || last == "gate";
}

// A plain name means a part whatever stands before its end; a pattern, the whole name.
bool means_part(std::string_view target, std::string_view module) {
  if (target.find('*') != std::string_view::npos) return matches_pattern(module, target);
  return target == kAllLinear || last_of(target) == last_of(module);
}

void give_adapter(Linear& linear, std::vector<ParameterTensor>& tensors,
                  const AdapterTerms& terms) {
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    return add_tensor(tensors, linear.name + name, std::move(shape), TensorRole::kMatrix);
  };
  LowRank adapter;
  adapter.rank = terms.rank;
  adapter.down_index = add(".lora_A.weight", {terms.rank, linear.in});
  adapter.up_index = add(".lora_B.weight", {linear.out, terms.rank});
  if (terms.magnitude) adapter.magnitude_index = add(".lora_magnitude_vector.weight", {linear.out});
  linear.adapter = adapter;
}

void freeze_all(std::vector<ParameterTensor>& tensors, ElementType type) {
  for (ParameterTensor& tensor : tensors) {
    if (tensor.buffer) continue;
    tensor.frozen = true;
    tensor.unread = false;
    tensor.gradient = false;
    tensor.stored = type;
  }
}

void collect(std::vector<Linear*>& linears, std::optional<Linear>& linear) {
  if (linear) linears.push_back(&*linear);
}

void collect(std::vector<Linear*>& linears, DenseMlp& mlp) {
  collect(linears, mlp.gate);
  collect(linears, mlp.up);
  collect(linears, mlp.gate_up);
  linears.push_back(&mlp.down);
}

}  // namespace

std::vector<Linear*> linears_of(Layer& layer) {
  std::vector<Linear*> linears;
  if (auto* grouped = std::get_if<GroupedAttention>(&layer.attention)) {
    collect(linears, grouped->query);
    collect(linears, grouped->key);
    collect(linears, grouped->value);
    collect(linears, grouped->fused);
    linears.push_back(&grouped->output);
  } else if (auto* latent = std::get_if<LatentAttention>(&layer.attention)) {
    collect(linears, latent->query);
    collect(linears, latent->query_down);
    collect(linears, latent->query_up);
    linears.push_back(&latent->key_value_down);
    linears.push_back(&latent->key_value_up);
    linears.push_back(&latent->output);
  } else if (auto* delta = std::get_if<GatedDelta>(&layer.attention)) {
    linears.push_back(&delta->packed);
    collect(linears, delta->gate);
    linears.push_back(&delta->write);
    collect(linears, delta->decay);
    linears.push_back(&delta->output);
  }
  if (auto* dense = std::get_if<DenseMlp>(&layer.mlp)) {
    collect(linears, *dense);
  } else if (auto* experts = std::get_if<ExpertMlp>(&layer.mlp)) {
    if (experts->shared) collect(linears, *experts->shared);
    collect(linears, experts->shared_gate);
  }
  return linears;
}

std::vector<std::string> adaptable_modules(const Architecture& architecture) {
  std::vector<std::string> names;
  for (Layer layer : architecture.kinds)
    for (const Linear* linear : linears_of(layer))
      if (std::find(names.begin(), names.end(), linear->name) == names.end())
        names.push_back(linear->name);
  return names;
}

namespace {

// The tensors of routed experts: three of each, two where there is no gate, or two of all.
std::vector<int> tensors_of(const ExpertMlp& mlp) {
  if (!mlp.gated) return {mlp.up_index, mlp.down_index};
  if (mlp.gate_index >= 0) return {mlp.gate_index, mlp.up_index, mlp.down_index};
  return {mlp.gate_up_index, mlp.down_index};
}

// "mlp.experts.*.gate_proj" of the name of its weight.
std::string module_of_tensor(const ParameterTensor& tensor) {
  const std::string_view name = tensor.name;
  return std::string(name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name);
}

LowRank beside_experts(std::vector<ParameterTensor>& tensors, const std::string& owner,
                       std::int64_t experts, std::int64_t rank, std::int64_t in, std::int64_t out) {
  const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
    return add_tensor(tensors, owner + name, std::move(shape), TensorRole::kMatrix);
  };
  LowRank adapter;
  adapter.rank = rank;
  adapter.in_weight = true;
  adapter.down_index = add(".lora_A.weight", {experts * rank, in});
  adapter.up_index = add(".lora_B.weight", {out, experts * rank});
  return adapter;
}

// Gate and up are one tensor, and have an adapter of twice the rank; it lies within that of `down`.
void give_adapters(ExpertMlp& mlp, std::vector<ParameterTensor>& tensors, const AdapterTerms& terms,
                   const std::array<bool, kExpertParts>& meant) {
  const auto is_meant = [&](ExpertPart part) { return meant[static_cast<std::size_t>(part)]; };
  const std::int64_t hidden = mlp.router.in;
  const auto of_router = [&] {
    if (is_meant(ExpertPart::kRouter))
      mlp.router.adapter =
          beside_experts(tensors, mlp.router.name, 1, terms.rank, hidden, mlp.experts);
  };
  if (!mlp.router_behind_experts) of_router();
  const bool within = is_meant(ExpertPart::kDown);
  if (is_meant(ExpertPart::kGate))
    mlp.gate_up_adapter = beside_experts(tensors, within ? "mlp.experts.base_layer" : "mlp.experts",
                                         mlp.experts, 2 * terms.rank, hidden, 2 * mlp.width);
  if (is_meant(ExpertPart::kDown))
    mlp.down_adapter =
        beside_experts(tensors, "mlp.experts", mlp.experts, terms.rank, mlp.width, hidden);
  if (mlp.router_behind_experts) of_router();
}

// Whether this model's experts are kept as linear modules are; names of them that a target meant.
void keep_experts(Layer& layer, const AdapterTerms& terms, std::vector<bool>& used,
                  std::string& meant) {
  const auto* mlp = std::get_if<ExpertMlp>(&layer.mlp);
  if (mlp == nullptr) return;
  const bool separate = terms.separate_experts && mlp->gate_index >= 0;
  if (!separate && !terms.stacked_experts) return;
  for (const int index : tensors_of(*mlp)) {
    ParameterTensor& tensor = layer.parameters[static_cast<std::size_t>(index)];
    tensor.stored = terms.linear;
    for (std::size_t i = 0; separate && i < terms.targets.size(); ++i) {
      const std::string module = module_of_tensor(tensor);
      if (!is_meant(module, terms.targets[i])) continue;
      used[i] = true;
      if (meant.empty()) meant = module;
    }
  }
}

}  // namespace

Adapted adapt(const Architecture& architecture, const AdapterTerms& terms) {
  auto adapted = std::make_shared<Architecture>(architecture);
  adapted->adapter_rank = terms.rank;
  freeze_all(adapted->embedding_parameters, terms.rest);
  freeze_all(adapted->head_parameters, terms.rest);
  if (terms.with_head && adapted->head.weight_index >= 0)
    adapted->head_parameters[static_cast<std::size_t>(adapted->head.weight_index)].stored =
        terms.linear;
  Adapted result;
  std::size_t half = 0;
  std::vector<bool> used(terms.targets.size(), false);
  // Layers of one kind are adapted alike: an expression that chooses some of them cannot be followed.
  std::vector<bool> chooses(terms.targets.size(), false);
  const bool expressions =
      std::any_of(terms.targets.begin(), terms.targets.end(), is_name_expression);
  const auto numbers = expressions ? numbers_of_kinds(architecture)
                                   : std::vector<std::vector<std::int64_t>>(adapted->kinds.size());
  for (std::size_t kind = 0; kind < adapted->kinds.size(); ++kind) {
    Layer& layer = adapted->kinds[kind];
    const std::string& stack = layer.encodes || !architecture.encoder_part
                                   ? architecture.layer_prefix
                                   : architecture.encoder_part->decoder_prefix;
    freeze_all(layer.parameters, terms.rest);
    keep_experts(layer, terms, used, result.expert);
    auto* experts = terms.expert_targets == nullptr ? nullptr : std::get_if<ExpertMlp>(&layer.mlp);
    std::array<bool, kExpertParts> parts{};
    const auto modules = terms.expert_targets == nullptr ? std::array<std::string, kExpertParts>{}
                                                         : former_modules(*terms.expert_targets);
    for (std::size_t i = 0; experts != nullptr && i < terms.targets.size(); ++i)
      for (std::size_t part = 0; part < kExpertParts; ++part) {
        const std::string& target = terms.targets[i];
        if (is_name_expression(target)
                ? layers_meant(stack, numbers[kind], modules[part], target) == 0
                : !means_part(target, modules[part]))
          continue;
        used[i] = true;
        parts[part] = true;
        result.adapts_experts = true;
        if (part < 2) half = i;
      }
    if (parts[0] != parts[1]) result.half_of_experts = terms.targets[half];
    for (Linear* linear : linears_of(layer)) {
      if (experts != nullptr && linear->name.starts_with("mlp.")) {  // behind attention
        give_adapters(*experts, layer.parameters, terms, parts);
        experts = nullptr;
      }
      layer.parameters[static_cast<std::size_t>(linear->weight_index)].stored = terms.linear;
      if (terms.expert_targets != nullptr && is_former_expert(linear->name, *terms.expert_targets))
        continue;
      bool meant = false;
      for (std::size_t i = 0; i < terms.targets.size(); ++i) {
        if (is_name_expression(terms.targets[i])) {
          const std::size_t layers =
              layers_meant(stack, numbers[kind], linear->name, terms.targets[i]);
          if (layers > 0 && layers < numbers[kind].size()) chooses[i] = true;
          if (layers == 0) continue;
          used[i] = true;
          meant = true;
          continue;
        }
        if (!is_meant(linear->name, terms.targets[i]) &&
            !(follows_vision(architecture) &&
              is_meant_within(stack, linear->name, terms.targets[i])))
          continue;
        used[i] = true;
        meant = true;
      }
      if (meant) give_adapter(*linear, layer.parameters, terms);
    }
    if (experts != nullptr) give_adapters(*experts, layer.parameters, terms, parts);
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (!used[i] || chooses[i]) result.unmatched.push_back(terms.targets[i]);
  result.architecture = std::move(adapted);
  return result;
}

Architecture without_adapters(const Architecture& architecture) {
  Architecture bare = architecture;
  for (Layer& layer : bare.kinds) {
    for (Linear* linear : linears_of(layer)) linear->adapter.reset();
    if (auto* experts = std::get_if<ExpertMlp>(&layer.mlp)) {
      experts->router.adapter.reset();
      experts->gate_up_adapter.reset();
      experts->down_adapter.reset();
    }
  }
  bare.adapter_rank = 0;
  return bare;
}

}  // namespace steelyard
