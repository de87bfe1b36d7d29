#include "formats/launch/megatron_yaml.h"

#include <algorithm>

#include "formats/launch/formats.h"

namespace steelyard {
namespace {

struct YamlName {
  std::string_view theirs, flag;
};
constexpr YamlName kYamlNames[] = {
    {"num_moe_experts", "num_experts"},
    {"layernorm_zero_centered_gamma", "apply_layernorm_1p"},
    {"fp8", "fp8_format"},
};

// Of the whole file, and used by no GPT: the sections say the same, or only other models read them.
constexpr std::string_view kUnused[] = {
    "swiglu",
    "squared_relu",
    "group_query_attention",
    "virtual_pipeline_model_parallel_size",
    "gated_linear_unit",
    "bert_binary_head",
    "bert_no_binary_head",
    "bert_embedder_type",
    "vocab_extra_ids",
    "kd",
};

Value switched_on(const Value& at) {
  Value on = Value::boolean(true);
  on.set_mark(at.mark());
  return on;
}

class MegatronFlags {
 public:
  explicit MegatronFlags(const Value& document) { flags_.set_mark(document.mark()); }

  void add_section(const Value* section) {
    if (section == nullptr || !section->is_table()) return;
    for (const Value::Member& member : section->members()) add(member);
  }
  void add(const Value::Member& member) {
    if (member.value.is_null() || member.value.is_table()) return;
    if (std::find(std::begin(kUnused), std::end(kUnused), member.key) != std::end(kUnused)) return;
    if (member.key == "activation_func") return put_activation(member.value);
    if (member.key == "add_bias_linear") {
      if (!truth_of(member.value).value_or(true))
        put("disable_bias_linear", switched_on(member.value));
      return;
    }
    // Groups count as they are written, without the switch that the flag needs.
    if (member.key == "num_query_groups") put("group_query_attention", switched_on(member.value));
    std::string_view name = member.key;
    for (const YamlName& row : kYamlNames)
      if (row.theirs == name) name = row.flag;
    put(name, member.value);
  }
  Value value() && { return std::move(flags_); }

 private:
  void put_activation(const Value& function) {
    const std::string word = word_of(function);
    if (word == "swiglu") put("swiglu", switched_on(function));
    if (word == "squaredrelu") put("squared_relu", switched_on(function));
  }
  void put(std::string_view name, Value value) {
    if (flags_.member(name) != nullptr) return;
    const Mark mark = value.mark();
    flags_.members().push_back({std::string(name), mark, std::move(value)});
  }

  Value flags_ = Value::table();
};

void read_megatron_yaml(const Value& document, Launch& launch) {
  read_megatron(flags_of_megatron_yaml(document), launch, "pretrain_gpt");
}

}  // namespace

bool is_megatron_yaml(const Value& document) {
  return document.is_table() && document.at("language_model.num_layers") != nullptr &&
         document.find("model_parallel") != nullptr;
}

Value flags_of_megatron_yaml(const Value& document) {
  MegatronFlags flags(document);
  flags.add_section(document.find("language_model"));
  flags.add_section(document.find("model_parallel"));
  for (const Value::Member& member : document.members()) flags.add(member);
  return std::move(flags).value();
}

extern const DocumentFormat megatron_yaml_document = {"megatron-yaml", "Megatron-LM arguments",
                                                      is_megatron_yaml, read_megatron_yaml};

}  // namespace steelyard
