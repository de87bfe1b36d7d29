#include "recipe/optimizer.h"

#include <array>
#include <utility>

#include "data/catalogue.h"

namespace steelyard {
namespace {

constexpr std::array<std::pair<std::string_view, SlotExtent>, 10> kExtents = {{
    {"parameter", SlotExtent::kParameter},
    {"row", SlotExtent::kRow},
    {"column", SlotExtent::kColumn},
    {"block", SlotExtent::kBlock},
    {"tensor", SlotExtent::kTensor},
    {"row_gram", SlotExtent::kRowGram},
    {"column_gram", SlotExtent::kColumnGram},
    {"low_rank", SlotExtent::kLowRank},
    {"projector", SlotExtent::kProjector},
    {"head", SlotExtent::kHead},
}};

constexpr std::array<std::pair<std::string_view, SlotAppliesTo>, 9> kApplications = {{
    {"all", SlotAppliesTo::kAll},
    {"matrices", SlotAppliesTo::kMatrices},
    {"vectors", SlotAppliesTo::kVectors},
    {"hidden_matrices", SlotAppliesTo::kHiddenMatrices},
    {"not_hidden_matrices", SlotAppliesTo::kNotHiddenMatrices},
    {"large", SlotAppliesTo::kLarge},
    {"small", SlotAppliesTo::kSmall},
    {"embeddings", SlotAppliesTo::kEmbeddings},
    {"not_embeddings", SlotAppliesTo::kNotEmbeddings},
}};

template <class Value, std::size_t Count>
Value value_named(const Fact& fact,
                  const std::array<std::pair<std::string_view, Value>, Count>& names) {
  const std::string text = fact.text();
  for (const auto& [name, value] : names)
    if (name == text) return value;
  fact.fail("is not a known word: " + text);
}

OptimizerSlot read_slot(const Fact& fact) {
  OptimizerSlot slot;
  slot.name = fact["name"].text();
  slot.extent = value_named(fact["extent"], kExtents);
  if (fact.has("applies_to")) slot.applies_to = value_named(fact["applies_to"], kApplications);
  slot.type = fact.optional_element_type("type");
  slot.block = fact.integer_or("block", 0);
  slot.count = fact.integer_or("count", 1);
  slot.reason = fact["reason"].text();
  if (slot.extent == SlotExtent::kBlock && slot.block <= 0) fact.fail("needs a block of elements");
  return slot;
}

Optimizer read_optimizer(const Fact& fact) {
  Optimizer optimizer;
  optimizer.name = fact["name"].text();
  optimizer.description = fact["description"].text();
  for (const Fact& slot : fact["slots"].items()) optimizer.slots.push_back(read_slot(slot));
  optimizer.small_below = fact.integer_or("small_below", 0);
  optimizer.embedding_is_small = fact.flag_or("embedding_is_small", false);
  optimizer.rank = fact.integer_or("rank", 0);
  optimizer.maximum_gram = fact.integer_or("maximum_gram", 0);
  optimizer.paged = fact.flag_or("paged", false);
  optimizer.paged_from = fact.integer_or("paged_from", optimizer.paged_from);
  optimizer.keeps_master = fact.flag_or("keeps_master", true);
  optimizer.fused_into_backward = fact.flag_or("fused_into_backward", false);
  const Fact step = fact["step"];
  optimizer.foreach_list_of_second_moment = step.number_or("foreach_list_of_second_moment", 0);
  optimizer.foreach_list_of_gradients = step.number_or("foreach_list_of_gradients", 0);
  optimizer.loop_largest_tensor = step.number_or("loop_largest_tensor", 0);
  optimizer.loop_widened_copies = step.integer_or("loop_widened_copies", 0);
  optimizer.loop_keeps_last = step.flag_or("loop_keeps_last", false);
  optimizer.states_in_turn = step.flag_or("states_in_turn", false);
  optimizer.loop_factors = step.flag_or("loop_factors", false);
  optimizer.newton_schulz_largest_matrix = step.number_or("newton_schulz_largest_matrix", 0);
  optimizer.newton_schulz_largest_gram = step.number_or("newton_schulz_largest_gram", 0);
  optimizer.temporary_type = step.optional_element_type("temporary_type");
  optimizer.only_form = step.text_or("only_form", "");
  optimizer.step_on_device_when_fused = step.flag_or("step_on_device_when_fused", false);
  optimizer.source = fact["source"].text();
  return optimizer;
}

Catalogue<Optimizer>& catalogue() {
  static Catalogue<Optimizer> optimizers("optimizers", read_optimizer);
  return optimizers;
}

}  // namespace

const std::vector<Optimizer>& optimizers() { return catalogue().all(); }

const Optimizer* find_optimizer(std::string_view name) { return catalogue().find(name); }

}  // namespace steelyard
