#include "recipe/precision.h"

#include "data/catalogue.h"

namespace steelyard {
namespace {

Precision read_precision(const Fact& fact) {
  Precision precision;
  precision.name = fact["name"].text();
  precision.description = fact["description"].text();
  precision.parameters = fact["parameters"].element_type();
  precision.compute = fact["compute"].element_type();
  precision.gradients = fact["gradients"].element_type();
  precision.accumulated_gradients = fact.optional_element_type("accumulated_gradients");
  precision.reduction = fact["reduction"].element_type();
  precision.master = fact.optional_element_type("master");
  precision.autocast = fact.flag_or("autocast", false);
  precision.loss_scaling = fact.flag_or("loss_scaling", false);
  precision.short_products = fact.flag_or("short_products", false);
  precision.float8_recipe = fact.text_or("float8_recipe", "");
  precision.moments = fact.optional_element_type("moments");
  if (fact.has("float8_copies")) {
    precision.float8_copy_hopper = fact["float8_copies"]["hopper_bytes_per_weight"].number();
    precision.float8_copy_blackwell = fact["float8_copies"]["blackwell_bytes_per_weight"].number();
  }
  if (fact.has("runs_from")) {
    const Fact from = fact["runs_from"];
    precision.runs_from.sm = static_cast<int>(from["sm"].integer());
    precision.runs_from.sm_below = static_cast<int>(from.integer_or("sm_below", 0));
    precision.runs_from.gfx = std::stoi(from.text_or("gfx", "0"), nullptr, 16);
    precision.runs_from.reason = from["reason"].text();
    precision.runs_from.source = from["source"].text();
  }
  precision.weighed = fact.text_or("weighed", "");
  precision.source = fact["source"].text();
  return precision;
}

Catalogue<Precision>& catalogue() {
  static Catalogue<Precision> precisions("precisions", read_precision);
  return precisions;
}

}  // namespace

const std::vector<Precision>& precisions() { return catalogue().all(); }

const Precision* find_precision(std::string_view name) { return catalogue().find(name); }

ElementType stepped_type(const Precision& precision, bool optimizer_keeps_master) {
  return optimizer_keeps_master ? precision.master.value_or(precision.parameters)
                                : precision.parameters;
}

ElementType state_type(const Precision& precision, bool optimizer_keeps_master) {
  return precision.moments.value_or(stepped_type(precision, optimizer_keeps_master));
}

}  // namespace steelyard
