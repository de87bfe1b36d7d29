#include "report/plan_stacks.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/amount.h"
#include "report/table.h"
#include "report/time_table.h"

namespace steelyard {
namespace {

using Typed = std::vector<std::pair<std::string, ElementType>>;  // "gradients", bf16

std::string joined(const std::vector<std::string>& names) {
  std::string text = names.front();
  for (std::size_t i = 1; i < names.size(); ++i) text += ", " + names[i];
  return text;
}

// What of a row is kept in which type.
Typed types_of(const PlanRow& row) {
  const Training& training = row.job.training;
  const Precision& precision = training.precision;
  Typed types;
  if (precision.compute != precision.parameters) types.emplace_back("products", precision.compute);
  types.emplace_back("parameters", precision.parameters);
  types.emplace_back("gradients", precision.gradients);
  if (precision.accumulated_gradients)
    types.emplace_back("accumulation", *precision.accumulated_gradients);
  if (precision.master && training.optimizer.keeps_master)
    types.emplace_back("master weights", *precision.master);
  const ElementType moments = state_type(precision, training.optimizer.keeps_master);
  types.emplace_back("moments", training.optimizer.slots.empty()
                                    ? moments
                                    : training.optimizer.slots.front().type.value_or(moments));
  return types;
}

std::vector<std::string> words_of(const Typed& types) {
  std::vector<std::pair<ElementType, std::vector<std::string>>> groups;
  for (const auto& [name, type] : types) {
    const auto found = std::find_if(groups.begin(), groups.end(), [wanted = type](const auto& one) {
      return one.first == wanted;
    });
    if (found == groups.end())
      groups.push_back({type, {name}});
    else
      found->second.push_back(name);
  }
  std::vector<std::string> words;
  for (const auto& [type, names] : groups)
    words.push_back(fmt::format("{} {}", name_of(type), joined(names)));
  return words;
}

// How a stack's numerics differ from 16-bit products beside weights, moments and sums of gradients in fp32; empty: not.
std::string deviation_of(const PlanRow& row) {
  const Precision& precision = row.job.training.precision;
  if (bits_of(precision.compute) > 16) return "";
  if (bits_of(precision.parameters) <= 16 && !precision.master) return "no fp32 weights";
  const Stack* stack =
      stack_of(row.layout.engine, row.layout.implementation, row.layout.zero_stage);
  const bool narrow = stack != nullptr && stack->gradients == "bf16";
  return narrow && !precision.accumulated_gradients && !precision.autocast ? "accumulates in bf16"
                                                                           : "";
}

std::string starred(const std::string& title, const PlanRow& row) {
  return deviation_of(row).empty() ? title : title + " *";
}

}  // namespace

std::string named_line(const Style& style, const std::string& name,
                       const std::vector<std::string>& parts) {
  constexpr int kIndent = 7;
  return painted(style, Ink::kStrong, padded_right(name, kIndent)) + facts(style, parts, kIndent) +
         "\n";
}

std::string stacks_text(const PlanAnswer& answer, const Style& style) {
  const auto any = [&](auto has) {
    return std::any_of(answer.stacks.begin(), answer.stacks.end(),
                       [&](const StackAnswer& one) { return one.row && has(one.row->layout); });
  };
  const bool fits = any([](const Layout&) { return true; });
  const bool contexts = any([](const Layout& layout) { return layout.context > 1; });
  const bool experts = any([](const Layout& layout) { return layout.expert > 1; });
  std::vector<Column> columns = {{"stack"}, {"tp", true}, {"pp", true}, {"dp", true}};
  if (contexts) columns.push_back({"cp", true});
  if (experts) columns.push_back({"ep", true});
  for (const char* heading : {"zero", "mbs"}) columns.push_back({heading, true});
  columns.push_back({"recompute"});
  columns.push_back({fmt::format("peak, {}", memory_unit(style.units)), true});
  columns.push_back({"step", true});
  columns.push_back({"MFU", true});
  Table table(std::move(columns));
  const auto count = [](std::int64_t value) { return fmt::format("{}", value); };
  for (const StackAnswer& one : answer.stacks) {
    if (!one.row) continue;
    const Layout& layout = one.row->layout;
    std::vector<std::string> cells = {starred(one.stack->title, *one.row), count(layout.tensor),
                                      layout.chunks > 1
                                          ? fmt::format("{}x{}", layout.pipeline, layout.chunks)
                                          : count(layout.pipeline),
                                      count(layout.data)};
    if (contexts) cells.push_back(count(layout.context));
    if (experts) cells.push_back(count(layout.expert));
    cells.push_back(count(layout.zero_stage));
    cells.push_back(count(layout.micro_batch));
    cells.push_back(recompute_words(layout));
    cells.push_back(print_memory(one.row->prediction.peak.device, style.units));
    cells.push_back(print_seconds(one.row->time.step));
    cells.push_back(fmt::format("{:.0f} %", 100 * one.row->time.model_flops_utilization));
    table.add(std::move(cells));
  }
  return fits ? table.text(style) : "";
}

std::string left_out_text(const PlanQuestion& question, const PlanAnswer& answer,
                          const Style& style) {
  std::vector<std::string> reasons;
  for (const StackAnswer& one : answer.stacks)
    if (!one.row) reasons.push_back(fmt::format("{} {}", one.stack->title, one.reason));
  for (const LeftOutStack& one : question.stacks.left_out)
    reasons.push_back(fmt::format("{} {}", one.title, one.reason));
  return reasons.empty() ? "" : named_line(style, "not", reasons);
}

std::string recipe_text(const PlanAnswer& answer, const Style& style) {
  if (answer.rows.empty()) return "";
  std::vector<std::string> parts = words_of(types_of(answer.rows.front()));
  std::vector<std::string> stars;
  const auto mark = [&](const PlanRow& row) {
    const std::string deviation = deviation_of(row);
    if (!deviation.empty() && std::find(stars.begin(), stars.end(), deviation) == stars.end())
      stars.push_back(deviation);
  };
  mark(answer.rows.front());
  for (const StackAnswer& one : answer.stacks)
    if (one.row) mark(*one.row);
  for (const std::string& star : stars) parts.push_back("* " + star);
  return named_line(style, "recipe", parts);
}

std::string assumed_text(const PlanQuestion& question, const PlanAnswer& answer,
                         const Style& style) {
  std::vector<std::string> parts;
  for (const Assumption& one : question.assumptions) {
    if (one.key == key_of(KeyId::kSequenceLength).path)
      parts.push_back(
          fmt::format("{} tokens a sequence", print_count(question.target.sequence_length)));
    if (one.key == key_of(KeyId::kGlobalBatch).path)
      parts.push_back(
          fmt::format("{} sequences a step", print_count(question.target.global_batch)));
    if (one.key == "model") parts.push_back("model " + one.value);
    if (one.key == key_of(KeyId::kDevice).path) parts.push_back("device " + one.value);
  }
  const PlanRow* row = !answer.rows.empty()    ? &answer.rows.front()
                       : !answer.tight.empty() ? &answer.tight.front()
                                               : nullptr;
  if (row != nullptr && row->job.cluster.machine != nullptr)
    for (const Assumption& one : row->prediction.assumptions)
      if (one.key == key_of(KeyId::kMachine).path)
        parts.push_back(fmt::format("in {}", row->job.cluster.machine->name));
  return parts.empty() ? "" : named_line(style, "assume", parts);
}

}  // namespace steelyard
