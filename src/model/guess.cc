#include "model/guess.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "model/read.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
constexpr std::int64_t kBillion = 1'000 * kMillion;
constexpr std::int64_t kLayerStep = 4;

// The part of the rule that changes with the size.
struct Grid {
  std::int64_t head_width;
  std::int64_t width_step;
  std::int64_t aspect;  // width / layers
  std::int64_t mlp_step;
  std::int64_t vocabulary;
  std::int64_t vocabulary_step;
  bool few_key_value_heads;
};

Grid grid_for(std::int64_t parameters) {
  Grid grid{128, 1024, 128, 128, 128'000, 128, true};
  if (parameters < 20 * kBillion) grid.vocabulary = 32'000;
  if (parameters < 20 * kBillion) grid.few_key_value_heads = false;
  if (parameters < 10 * kBillion) grid.vocabulary_step = 8;
  if (parameters < 3 * kBillion) grid.width_step = 512;
  if (parameters < kBillion) {
    grid.head_width = grid.aspect = grid.mlp_step = 64;
    grid.width_step = 256;
  }
  return grid;
}

std::int64_t nearest_multiple(double value, std::int64_t step) {
  const auto steps = static_cast<std::int64_t>(std::llround(value / static_cast<double>(step)));
  return std::max<std::int64_t>(steps, 1) * step;
}

// Twelve squares of the width: four of attention, eight of the mlp, as in every classic
// transformer.
double nominal_size(double width, double layers, double vocabulary) {
  return 12 * width * width * layers + 2 * vocabulary * width;
}

std::int64_t width_for(double parameters, const Grid& grid) {
  const auto size_at = [&](std::int64_t width) {
    const auto w = static_cast<double>(width);
    return nominal_size(w, w / static_cast<double>(grid.aspect),
                        static_cast<double>(grid.vocabulary));
  };
  std::int64_t width = grid.width_step;
  while (size_at(width + grid.width_step) <= parameters) width += grid.width_step;
  const double below = parameters - size_at(width);
  const double above = size_at(width + grid.width_step) - parameters;
  return above < below ? width + grid.width_step : width;
}

}  // namespace

std::optional<std::int64_t> parameters_written(std::string_view text) {
  if (text.size() < 2 || text.size() > 12) return std::nullopt;
  double unit = 0;
  switch (text.back()) {
    case 'M':
    case 'm':
      unit = 1e6;
      break;
    case 'B':
    case 'b':
      unit = 1e9;
      break;
    case 'T':
    case 't':
      unit = 1e12;
      break;
    default:
      return std::nullopt;
  }
  text.remove_suffix(1);
  double number = 0;
  double place = 0;  // of the next digit behind the point; 0: before it
  bool digits = false;
  for (const char c : text) {
    if (c == '.' && place == 0 && digits) {
      place = 0.1;
      digits = false;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    digits = true;
    if (place == 0) {
      number = number * 10 + (c - '0');
    } else {
      number += place * (c - '0');
      place /= 10;
    }
  }
  if (!digits || number * unit > 9e18) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(number * unit));
}

Value guessed_config(std::int64_t parameters) {
  const Grid grid = grid_for(parameters);
  const auto size = static_cast<double>(parameters);
  const std::int64_t width = width_for(size, grid);
  const auto w = static_cast<double>(width);
  const std::int64_t heads = width / grid.head_width;
  const std::int64_t key_value_heads = grid.few_key_value_heads ? 8 : heads;

  const auto tables = 2 * static_cast<double>(grid.vocabulary) * w;
  const std::int64_t layers = nearest_multiple((size - tables) / (12 * w * w), kLayerStep);
  const auto l = static_cast<double>(layers);
  // Query and output, key and value, and two norms; what remains of a layer is its mlp.
  const double rest_of_layer =
      2 * w * w + 2 * w * static_cast<double>(key_value_heads * grid.head_width) + 2 * w;
  const double mlp = ((size - tables - w) / l - rest_of_layer) / (3 * w);
  const std::int64_t mlp_width = nearest_multiple(mlp, grid.mlp_step);
  const double layer = rest_of_layer + 3 * w * static_cast<double>(mlp_width);
  const std::int64_t vocabulary =
      nearest_multiple((size - w - l * layer) / (2 * w), grid.vocabulary_step);

  Value::Table members;
  const auto add = [&](std::string_view key, Value value) {
    members.push_back({std::string(key), Mark(), std::move(value)});
  };
  add("model_type", Value::string("llama"));
  add("vocab_size", Value::integer(vocabulary));
  add("hidden_size", Value::integer(width));
  add("intermediate_size", Value::integer(mlp_width));
  add("num_hidden_layers", Value::integer(layers));
  add("num_attention_heads", Value::integer(heads));
  add("num_key_value_heads", Value::integer(key_value_heads));
  add("tie_word_embeddings", Value::boolean(false));
  return Value::table(std::move(members));
}

std::optional<Architecture> guess_architecture(std::string_view size, const Place& place,
                                               Diagnostics& diagnostics) {
  const auto parameters = parameters_written(size);
  if (!parameters || *parameters < kSmallestGuess || *parameters > kLargestGuess) {
    diagnostics.push_back(
        {Severity::kError,
         "E304",
         fmt::format("\"{}\" is not a size that a shape can be guessed for", size),
         place,
         "expected 50M to 100T, as in \"7B\"",
         {}});
    return std::nullopt;
  }
  const Value config = guessed_config(*parameters);
  auto model = read_architecture(config, std::string(size), diagnostics);
  if (!model) return std::nullopt;
  model->guessed = true;
  const auto& attention = std::get<GroupedAttention>(model->kinds.front().attention);
  const auto& mlp = std::get<DenseMlp>(model->kinds.front().mlp);
  model->guess_rule = fmt::format(
      "no model is named: a llama-like shape of {} parameters, {} wide in {} heads of {}, {} "
      "layers; "
      "its mlp ({}) and vocabulary ({}) take up the difference",
      print_count(count_parameters(*model).total), print_count(model->hidden), attention.heads,
      attention.head_width, model->layers, print_count(mlp.width), print_count(model->vocabulary));
  return model;
}

}  // namespace steelyard
