#include "report/device_help.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "quantity/print.h"

namespace steelyard {
namespace {

using NamedRate = std::pair<std::string_view, std::optional<FlopsPerSecond>>;

std::vector<NamedRate> rates_of(const Device& device) {
  const DeviceRates& rates = device.rates;
  return {{"fp32", rates.fp32}, {"tf32", rates.tf32}, {"fp16", rates.fp16},
          {"bf16", rates.bf16}, {"fp8", rates.fp8},   {"int8", rates.int8}};
}

// Integer products are no floating-point operations: 1,979 TOP/s.
std::string words_of(std::string_view type, FlopsPerSecond rate) {
  std::string words = print(rate);
  if (type == "int8") words.erase(words.find("FLOP"), 2);
  return words;
}

std::vector<std::string> rate_words(const Device& device) {
  std::vector<std::string> parts;
  for (const auto& [name, rate] : rates_of(device))
    if (rate) parts.push_back(fmt::format("{} {}", name, words_of(name, *rate)));
  return parts;
}

}  // namespace

std::string device_text(const Device& device, const Style& style) {
  constexpr int kIndent = 11;
  const auto line = [&](std::string_view label, const std::string& text) {
    return padded_right("  " + std::string(label), kIndent) + wrapped(style, text, kIndent) + "\n";
  };
  std::string result = painted(style, Ink::kStrong, device.name) + "\n";
  result += line("is", fmt::format("{}, {}", device.description, device.architecture));
  result +=
      line("memory", fmt::format("{} as CUDA or HIP reports it, seen up to {} ({})",
                                 print(device.capacity, style.units),
                                 print(device.capacity_high, style.units), device.capacity_mark));
  result += line("", "source: " + device.capacity_source);
  result += line(
      "context",
      fmt::format("{} outside the allocator, {} to {}", print(device.context, style.units),
                  print(device.context_low, style.units), print(device.context_high, style.units)));
  result += line("", "source: " + device.context_source);
  result += padded_right("  rates", kIndent) + facts(style, rate_words(device), kIndent) + "\n";
  if (device.rates.bf16 && device.rates.fp8)
    result += line(
        "", fmt::format("fp8 is {:.1f} times bf16; dense, as the vendor states them ({})",
                        device.rates.fp8->value() / device.rates.bf16->value(), device.rates.mark));
  result += line("", "source: " + device.rates.source);
  if (!device.short_forms.empty())
    result += padded_right("  said as", kIndent) + facts(style, device.short_forms, kIndent) + "\n";
  return result;
}

nlohmann::ordered_json json_of(const Device& device) {
  nlohmann::ordered_json rates = nlohmann::ordered_json::object();
  for (const auto& [name, rate] : rates_of(device))
    if (rate)
      rates[std::string(name) + (name == "int8" ? "_operations" : "_flops") + "_per_second"] =
          std::llround(rate->value());
  return {{"schema", "steelyard.device/1"},
          {"name", device.name},
          {"description", device.description},
          {"architecture", device.architecture},
          {"capacity_bytes", device.capacity.value().value()},
          {"capacity_high_bytes", device.capacity_high.value().value()},
          {"capacity_source", device.capacity_source},
          {"context_bytes", device.context.value().value()},
          {"context_source", device.context_source},
          {"rates", std::move(rates)},
          {"rates_source", device.rates.source},
          {"short_forms", device.short_forms},
          {"source", device.source}};
}

}  // namespace steelyard
