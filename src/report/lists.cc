#include "report/lists.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "job/engine_rules.h"
#include "job/job.h"
#include "job/keys.h"
#include "machine/device.h"
#include "machine/machine.h"
#include "predict/explain.h"
#include "quantity/number_format.h"
#include "recipe/bytes_per_parameter.h"
#include "recipe/optimizer.h"
#include "recipe/precision.h"
#include "report/amount.h"
#include "report/environment_help.h"
#include "report/error_codes.h"
#include "report/json_values.h"
#include "report/model_list.h"
#include "report/table.h"
#include "report/techniques.h"
#include "schedule/orders.h"

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

Json document(std::string_view schema, Json rows) {
  return {{"schema", fmt::format("steelyard.{}/1", schema)}, {schema, std::move(rows)}};
}

std::string devices_text(const Style& style) {
  const Scale scale = scale_for(Bytes(Checked(std::int64_t{99} << 30)), style.units);
  Table table({{"device"},
               {fmt::format("usable, {}", scale.unit), true},
               {"seen up to", true},
               {"context", true},
               {"read"},
               {"description"}});
  for (const Device& device : devices())
    table.add({device.name, number_of(device.capacity, scale),
               number_of(device.capacity_high, scale), number_of(device.context, scale),
               device.capacity_mark, device.description});
  return table.text(style);
}

Json devices_json() {
  Json rows = Json::array();
  for (const Device& device : devices())
    rows.push_back({{"name", device.name},
                    {"description", device.description},
                    {"architecture", device.architecture},
                    {"capacity_bytes", device.capacity.value().value()},
                    {"capacity_high_bytes", device.capacity_high.value().value()},
                    {"capacity_mark", device.capacity_mark},
                    {"capacity_source", device.capacity_source},
                    {"context_bytes", device.context.value().value()},
                    {"context_source", device.context_source},
                    {"short_forms", device.short_forms},
                    {"source", device.source}});
  return document("devices", std::move(rows));
}

std::string machines_text(const Style& style) {
  Table table({{"machine"},
               {"devices", true},
               {"sends, GB/s", true},
               {"host memory", true},
               {"read"},
               {"built with"}});
  for (const Machine& machine : machines())
    table.add({machine.name, fmt::format("{}", machine.devices_per_node.value()),
               fmt::format("{:.4g}", machine.network().value() * 1e-9),
               print(machine.host_memory, style.units), machine.network_mark,
               fmt::format("{}", fmt::join(machine.devices, ", "))});
  return table.text(style);
}

Json json_of(const MeasuredExchanges& measured) {
  const auto reached = [](const std::vector<MeasuredExchanges::Reached>& all) {
    Json rows = Json::array();
    for (const MeasuredExchanges::Reached& one : all)
      rows.push_back({{"machines", one.machines}, {"bus_bytes_per_second", one.bus.value()}});
    return rows;
  };
  return {{"all_reduce", reached(measured.all_reduce)},
          {"gather", reached(measured.gather)},
          {"ring_step_seconds", measured.ring_step.value()},
          {"tree_step_seconds", measured.tree_step.value()},
          {"low", measured.low},
          {"high", measured.high},
          {"mark", measured.mark},
          {"source", measured.source}};
}

Json machines_json() {
  Json rows = Json::array();
  for (const Machine& machine : machines()) {
    rows.push_back({{"name", machine.name},
                    {"description", machine.description},
                    {"devices", machine.devices},
                    {"devices_per_node", machine.devices_per_node.value()},
                    {"network",
                     {{"interfaces", machine.interfaces},
                      {"bytes_per_second_per_interface", machine.interface_bandwidth.value()},
                      {"mark", machine.network_mark},
                      {"source", machine.network_source}}},
                    {"host",
                     {{"memory_bytes", number(machine.host_memory)},
                      {"memory_bytes_per_second", machine.host_memory_bandwidth.value()},
                      {"operator_times", machine.host_operator},
                      {"mark", machine.host_mark},
                      {"source", machine.host_source}}}});
    if (machine.measured.some()) rows.back()["exchanges"] = json_of(machine.measured);
  }
  return document("machines", std::move(rows));
}

// A row of the smaller lists: a name and what it means.
struct Meaning {
  std::string_view name, meaning;
};

std::string meanings_text(std::string_view heading, const std::vector<Meaning>& rows,
                          const Style& style) {
  Table table({{std::string(heading)}, {""}});
  for (const Meaning& row : rows) table.add({std::string(row.name), std::string(row.meaning)});
  return table.text(style);
}

Json meanings_json(std::string_view schema, const std::vector<Meaning>& rows) {
  Json listed = Json::array();
  for (const Meaning& row : rows) listed.push_back({{"name", row.name}, {"meaning", row.meaning}});
  return document(schema, std::move(listed));
}

const std::vector<Meaning>& engines() {
  static const std::vector<Meaning> kRows = [] {
    std::vector<Meaning> rows;
    for (const EngineRules& rules : engine_rules())
      rows.push_back({name_of(rules.engine), rules.description});
    return rows;
  }();
  return kRows;
}

const std::vector<Meaning>& adapters() {
  static const std::vector<Meaning> kRows = {
      {"lora",
       "two narrow matrices beside each frozen one (arXiv 2106.09685); explain adapter.input-cast, "
       "adapter.narrow-output, adapter.sum"},
      {"dora",
       "lora, and a trained length for each output (arXiv 2402.09353); explain "
       "adapter.dora-weights, adapter.dora-scale"},
      {"base = bf16, fp16, fp32", "the frozen part as it is; explain parameters.frozen"},
      {"base = int8",
       "frozen matrices in 8 bits, bitsandbytes' LLM.int8 (arXiv 2208.07339); explain "
       "quantised.int8-weights, quantised.int8-product"},
      {"base = nf4",
       "frozen matrices in 4 bits, QLoRA (arXiv 2305.14314); explain quantised.nf4-weights, "
       "quantised.block-constants, quantised.double-quantisation, quantised.dequantised-weight"},
  };
  return kRows;
}

std::string schedules_text(const Style& style) {
  Table table({{"schedule"}, {""}, {"in flight on rank r of p"}});
  for (const PipelineOrder& order : pipeline_orders())
    table.add({std::string(order.name), std::string(order.meaning), std::string(order.in_flight)});
  std::string text = table.text(style) +
                     "  m micro-batches · v chunks on each rank · g micro-batches a chunk takes in "
                     "turn, p unless said\nsources\n";
  for (const PipelineOrder& order : pipeline_orders())
    text += fmt::format("  {:<11} {}\n", order.name, order.source);
  return text;
}

Json schedules_json() {
  Json rows = Json::array();
  for (const PipelineOrder& order : pipeline_orders())
    rows.push_back({{"name", order.name},
                    {"meaning", order.meaning},
                    {"in_flight", order.in_flight},
                    {"splits_backward", order.splits_backward},
                    {"source", order.source}});
  return document("schedules", std::move(rows));
}

std::string number_text(double value) { return value == 0 ? "-" : fmt::format("{:.4g}", value); }

std::string optimizers_text(const Style& style) {
  const Precision* mixed = find_precision("bf16-mixed");
  Table table({{"optimizer"}, {"bytes/parameter", true}, {"what it keeps"}});
  for (const Optimizer& optimizer : optimizers()) {
    const double states = mixed == nullptr ? 0 : bytes_per_parameter(optimizer, *mixed).states;
    table.add({optimizer.name, number_text(states), optimizer.description});
  }
  return table.text(style) +
         "  bytes of state for each parameter of a square matrix, under bf16-mixed\n";
}

Json optimizers_json() {
  const Precision* mixed = find_precision("bf16-mixed");
  Json rows = Json::array();
  for (const Optimizer& optimizer : optimizers()) {
    Json slots = Json::array();
    for (const OptimizerSlot& slot : optimizer.slots)
      slots.push_back({{"name", slot.name}, {"count", slot.count}, {"reason", slot.reason}});
    rows.push_back({{"name", optimizer.name},
                    {"description", optimizer.description},
                    {"state_bytes_per_parameter",
                     mixed == nullptr ? 0 : bytes_per_parameter(optimizer, *mixed).states},
                    {"slots", std::move(slots)},
                    {"source", optimizer.source}});
  }
  return document("optimizers", std::move(rows));
}

std::string type_text(std::optional<ElementType> type) {
  return type ? std::string(name_of(*type)) : "-";
}

std::string precisions_text(const Style& style) {
  const Optimizer* adamw = find_optimizer("adamw");
  Table table({{"precision"},
               {"parameters"},
               {"compute"},
               {"gradients"},
               {"kept too"},
               {"reduced in"},
               {"master"},
               {"adamw", true}});
  for (const Precision& precision : precisions())
    table.add(
        {precision.name, type_text(precision.parameters), type_text(precision.compute),
         type_text(precision.gradients), type_text(precision.accumulated_gradients),
         type_text(precision.reduction), type_text(precision.master),
         adamw == nullptr ? "-" : number_text(bytes_per_parameter(*adamw, precision).total())});
  std::string result = table.text(style) + "  adamw: bytes of model states for each parameter\n\n";
  Table formats({{"format"}, {"sign/exponent/mantissa"}, {"bits", true}});
  for (const ElementType type :
       {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16,
        ElementType::kFloat8E4M3, ElementType::kFloat8E5M2})
    if (const auto format = format_of(type))
      formats.add({std::string(name_of(type)),
                   fmt::format("1/{}/{}", format->exponent_bits, format->mantissa_bits),
                   std::to_string(bits_of(type))});
  formats.add({"tf32",
               fmt::format("1/{}/{}", kTensorFloat32.exponent_bits, kTensorFloat32.mantissa_bits),
               fmt::format("{}", bits_of(ElementType::kFloat32))});
  return result + formats.text(style) + "  tf32 lies in memory as fp32\n";
}

Json precisions_json() {
  const Optimizer* adamw = find_optimizer("adamw");
  Json rows = Json::array();
  for (const Precision& precision : precisions()) {
    const auto optional = [](std::optional<ElementType> type) {
      return type ? Json(name_of(*type)) : Json(nullptr);
    };
    rows.push_back({{"name", precision.name},
                    {"description", precision.description},
                    {"parameters", name_of(precision.parameters)},
                    {"compute", name_of(precision.compute)},
                    {"gradients", name_of(precision.gradients)},
                    {"accumulated_gradients", optional(precision.accumulated_gradients)},
                    {"reduction", name_of(precision.reduction)},
                    {"master", optional(precision.master)},
                    {"adamw_bytes_per_parameter",
                     adamw == nullptr ? 0 : bytes_per_parameter(*adamw, precision).total()},
                    {"source", precision.source}});
  }
  return document("precisions", std::move(rows));
}

std::string rules_text(const Style& style) {
  std::string result;
  for (const Rule& rule : rules())
    result += rule.id + "\n  " + wrapped(style, rule.sentence, 2) + "\n" +
              painted(style, Ink::kQuiet, "  " + wrapped(style, "source: " + rule.source, 2)) +
              "\n";
  return result;
}

Json rules_json() {
  Json rows = Json::array();
  for (const Rule& rule : rules())
    rows.push_back({{"id", rule.id}, {"sentence", rule.sentence}, {"source", rule.source}});
  return document("rules", std::move(rows));
}

std::string keys_text(const Style& style) {
  Table table({{"key"}, {"flag"}, {"what it says"}});
  for (const Key& key : run_file_keys()) table.add({key.path, key.flag, std::string(key.help)});
  return table.text(style);
}

Json keys_json() {
  Json rows = Json::array();
  for (const Key& key : run_file_keys())
    rows.push_back({{"key", key.path},
                    {"flag", key.flag},
                    {"aliases", key.flag_aliases},
                    {"names", key.names},
                    {"absent", key.fallback},
                    {"help", key.help}});
  return document("keys", std::move(rows));
}

std::string errors_text(const Style& style) {
  Table table({{"code"}, {""}});
  for (const ErrorCode& code : error_codes())
    table.add({std::string(code.code), std::string(code.title)});
  return table.text(style);
}

Json errors_json() {
  Json rows = Json::array();
  for (const ErrorCode& code : error_codes())
    rows.push_back({{"code", code.code}, {"title", code.title}, {"why", code.why}});
  return document("errors", std::move(rows));
}

}  // namespace

const std::vector<List>& lists() {
  static const std::vector<List> kLists = {
      {"models", "presets, with exact parameter counts and sources", models_text, models_json},
      {"devices", "accelerators, with what CUDA reports of their memory", devices_text,
       devices_json},
      {"machines", "what devices stand in: how many, their way out, their host", machines_text,
       machines_json},
      {"engines", "training engines and the zero_stage each takes",
       [](const Style& style) { return meanings_text("engine", engines(), style); },
       [] { return meanings_json("engines", engines()); }},
      {"adapters", "adapter methods and the frozen bases under them",
       [](const Style& style) { return meanings_text("adapter", adapters(), style); },
       [] { return meanings_json("adapters", adapters()); }},
      {"optimizers", "optimizers and their state", optimizers_text, optimizers_json},
      {"precisions", "recipes of types, and number formats", precisions_text, precisions_json},
      {"schedules", "pipeline schedules", schedules_text, schedules_json},
      {"techniques", "what can be asked for, how a run file says it, and the rules that weigh it",
       techniques_text, techniques_json},
      {"rules", "every modelling rule, with its source", rules_text, rules_json},
      {"keys", "keys of the run file and their flags", keys_text, keys_json},
      {"environment", "names of [environment]: versions of packages, and variables",
       environment_text, environment_json},
      {"errors", "codes of problems", errors_text, errors_json},
  };
  return kLists;
}

}  // namespace steelyard
