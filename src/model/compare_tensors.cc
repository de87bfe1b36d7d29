#include "model/compare_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "model/sequence.h"
#include "quantity/checked.h"

namespace steelyard {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::array<std::string_view, 6> kOuterPrefixes = {
    "language_model.", "model.", "transformer.", "gpt_neox.", "bert.", "roberta."};
// Buffers that checkpoints carry along: rotary frequencies, positions, causal masks; scales of
// quantised weights.
constexpr std::array<std::string_view, 9> kBufferEndings = {
    "inv_freq",         "position_ids",   "token_type_ids",        "attn.bias",
    "attn.masked_bias", "attention.bias", "attention.masked_bias", "weight_scale_inv",
    "weight_scale"};

void replace_ending(std::string& name, std::string_view from, std::string_view to) {
  if (!std::string_view(name).ends_with(from)) return;
  name.resize(name.size() - from.size());
  name += to;
}

// One spelling for all the ways in which a tensor of a family is written.
std::string canonical(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : kOuterPrefixes)
      if (name.starts_with(prefix)) {
        name.remove_prefix(prefix.size());
        again = true;
      }
  }
  std::string result(name);
  constexpr std::string_view kSparse = "block_sparse_moe.";
  if (const std::size_t at = result.find(kSparse); at != std::string::npos)
    result.replace(at, kSparse.size(), "mlp.");
  replace_ending(result, ".gamma", ".weight");
  replace_ending(result, ".beta", ".bias");
  return result;
}

class Comparison {
 public:
  Comparison(const Architecture& model, const StoredTensors& stored, std::size_t limit)
      : model_(model), stored_(stored), limit_(limit), seen_(stored.size(), false) {
    for (std::size_t i = 0; i < stored.size(); ++i) places_.emplace(canonical(stored[i].name), i);
  }

  TensorComparison run() {
    for (const ParameterTensor& tensor : model_.embedding_parameters)
      expect(tensor, "", !tensor.buffer);
    expect_layers();
    const std::size_t of_head =
        model_.predictions.empty()
            ? model_.head_parameters.size()
            : static_cast<std::size_t>(model_.predictions.front().first_parameter);
    for (std::size_t i = 0; i < of_head; ++i)
      expect(model_.head_parameters[i], "", !model_.head_parameters[i].beside_total);
    for (const ParameterTensor& tensor : model_.left_out) expect(tensor, "", true);
    look_at_prediction_modules();
    look_at_the_rest();
    return std::move(result_);
  }

 private:
  void expect_layers() {
    std::int64_t index = 0;
    for (const LayerGroup& group : model_.sequence)
      for (std::int64_t time = 0; time < group.times; ++time)
        for (const LayerRun& run : group.runs)
          for (std::int64_t i = 0; i < run.count; ++i) {
            if (result_.cut) return;
            expect_layer(model_.kinds[static_cast<std::size_t>(run.kind)], index++, true);
          }
  }

  void expect_layer(const Layer& layer, std::int64_t index, bool required) {
    const std::string prefix = prefix_of_layer(model_, index);
    const auto* experts = std::get_if<ExpertMlp>(&layer.mlp);
    const bool otherwise = experts != nullptr && experts_stored_otherwise(layer, *experts, prefix);
    for (const ParameterTensor& tensor : layer.parameters) {
      if (otherwise && tensor.routed_expert) continue;
      expect(tensor, prefix, required && !tensor.buffer);
    }
  }

  // All copies of one tensor.
  void expect(const ParameterTensor& tensor, std::string_view prefix, bool required) {
    const std::size_t star = tensor.name.find('*');
    if (star == std::string::npos) {
      expect_one(std::string(prefix) + tensor.name, tensor.shape, required);
      return;
    }
    const std::string before = std::string(prefix) + tensor.name.substr(0, star);
    const std::string after = tensor.name.substr(star + 1);
    for (std::int64_t copy = 0; copy < tensor.copies && !result_.cut; ++copy)
      if (!expect_one(fmt::format("{}{}{}", before, copy, after), tensor.shape, required) &&
          !required)
        return;
  }

  // Whether it is there. What need not be there is no parameter of the model: a buffer, a prediction module.
  bool expect_one(const std::string& name, const Shape& shape, bool required) {
    const auto found = take(name);
    if (!found) {
      if (required && !take_blocks(name, shape))
        add({TensorMismatch::Kind::kMissing, name, shape, {}});
      return false;
    }
    const StoredTensor& tensor = stored_[*found];
    if (tensor.shape != shape)
      add({TensorMismatch::Kind::kShape, tensor.name, shape, tensor.shape});
    else
      ++result_.matched;
    if (required) count(tensor.elements);
    return true;
  }

  std::optional<std::size_t> find(std::string_view name) const {
    const auto found = places_.find(canonical(name));
    if (found == places_.end()) return std::nullopt;
    return found->second;
  }
  std::optional<std::size_t> take(std::string_view name) {
    const auto found = find(name);
    if (found) seen_[*found] = true;
    return found;
  }
  bool has(std::string_view name, const Shape& shape) const {
    const auto found = find(name);
    return found && stored_[*found].shape == shape;
  }

  // mxfp4: two elements a byte in NAME_blocks, one scale for 32 of them in NAME_scales.
  bool take_blocks(const std::string& name, const Shape& shape) {
    const auto blocks = take(name + "_blocks");
    if (!blocks) return false;
    take(name + "_scales");
    ParameterTensor tensor;
    tensor.shape = shape;
    const Checked elements = elements_of(tensor);
    if (Checked(stored_[*blocks].elements) * Checked(2) != elements) return false;
    ++result_.matched;
    count(elements.value());
    return true;
  }

  // Experts in two tensors where the family stores them one by one, or the other way round.
  bool experts_stored_otherwise(const Layer& layer, const ExpertMlp& mlp,
                                const std::string& prefix) {
    const auto at = [&](int index) -> const ParameterTensor& {
      return layer.parameters[static_cast<std::size_t>(index)];
    };
    if (mlp.gate_index >= 0 && mlp.down_index >= 0) {
      const std::string pattern = at(mlp.gate_index).name;
      const std::string base = prefix + pattern.substr(0, pattern.find('*'));
      const Shape& down = at(mlp.down_index).shape;
      return take_fused(base + "gate_up_proj", mlp.experts, down[0], (Checked(2) * down[1]).value(),
                        base + "down_proj", down[1]);
    }
    if (mlp.gate_up_index < 0 || mlp.down_index < 0) return false;
    const std::string fused = prefix + at(mlp.gate_up_index).name;
    const std::string base = fused.substr(0, fused.rfind('.') + 1);
    if (!find(base + "0.gate_proj.weight")) return false;
    const std::int64_t hidden = at(mlp.gate_up_index).shape[1];
    for (std::int64_t i = 0; i < mlp.experts && !result_.cut; ++i) {
      const std::string expert = base + std::to_string(i);
      expect_one(expert + ".gate_proj.weight", {mlp.width, hidden}, true);
      expect_one(expert + ".up_proj.weight", {mlp.width, hidden}, true);
      expect_one(expert + ".down_proj.weight", {hidden, mlp.width}, true);
    }
    return true;
  }

  // Newer files end the names with the tensor, older ones with ".weight"; [out, in] and [in, out]
  // both occur.
  bool take_fused(const std::string& gate_up, std::int64_t experts, std::int64_t hidden,
                  std::int64_t both, const std::string& down, std::int64_t width) {
    for (const std::string_view ending : {"", ".weight"}) {
      const std::string first = gate_up + std::string(ending);
      const std::string second = down + std::string(ending);
      if (!has(first, {experts, both, hidden}) && !has(first, {experts, hidden, both})) continue;
      if (!has(second, {experts, hidden, width}) && !has(second, {experts, width, hidden}))
        continue;
      for (const std::string& name : {first, second}) {
        count(stored_[*take(name)].elements);
        ++result_.matched;
      }
      return true;
    }
    return false;
  }

  // Stored behind the last layer; transformers drops them, so their absence means nothing.
  void look_at_prediction_modules() {
    for (std::int64_t i = 0; i < model_.prediction_layers && !result_.cut; ++i) {
      const std::int64_t index = model_.layers + i;
      const std::string prefix = fmt::format("{}{}.", model_.layer_prefix, index);
      if (!find(prefix + model_.prediction_parameters.front().name)) break;
      for (const ParameterTensor& tensor : model_.prediction_parameters)
        expect(tensor, prefix, false);
      expect_layer(model_.kinds[static_cast<std::size_t>(model_.prediction_layer_kind)], index,
                   false);
      take(prefix + "embed_tokens.weight");
      take(prefix + "shared_head.head.weight");
    }
  }

  void look_at_the_rest() {
    for (std::size_t i = 0; i < stored_.size() && !result_.cut; ++i) {
      if (seen_[i] || means_nothing(stored_[i].name)) continue;
      add({TensorMismatch::Kind::kUnexpected, stored_[i].name, {}, stored_[i].shape});
      count(stored_[i].elements);
    }
  }

  bool means_nothing(std::string_view name) const {
    for (const std::string_view ending : kBufferEndings)
      if (name.ends_with(ending)) return true;
    // The heads that encoders were trained with stand beside their total.
    if (model_.encoder && (name.starts_with("cls.") || name.starts_with("lm_head."))) return true;
    return model_.tied_head && canonical(name) == canonical(model_.head.name + ".weight");
  }

  void count(std::int64_t elements) {
    result_.stored_parameters = (Checked(result_.stored_parameters) + Checked(elements)).value();
  }
  void add(TensorMismatch mismatch) {
    if (result_.mismatches.size() < limit_)
      result_.mismatches.push_back(std::move(mismatch));
    else
      result_.cut = true;
  }

  const Architecture& model_;
  const StoredTensors& stored_;
  std::size_t limit_;
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<bool> seen_;
  TensorComparison result_;
};

}  // namespace

TensorComparison compare_tensors(const Architecture& architecture, const StoredTensors& stored,
                                 std::size_t limit) {
  return Comparison(architecture, stored, limit).run();
}

std::string described(const TensorMismatch& mismatch) {
  switch (mismatch.kind) {
    case TensorMismatch::Kind::kMissing:
      return fmt::format("missing     {}  expected [{}]", mismatch.name,
                         fmt::join(mismatch.expected, ", "));
    case TensorMismatch::Kind::kUnexpected:
      return fmt::format("unexpected  {}  stored [{}]", mismatch.name,
                         fmt::join(mismatch.stored, ", "));
    case TensorMismatch::Kind::kShape:
      return fmt::format("shape       {}  expected [{}], stored [{}]", mismatch.name,
                         fmt::join(mismatch.expected, ", "), fmt::join(mismatch.stored, ", "));
  }
  return {};
}

Diagnostics problems_of(const TensorComparison& comparison, std::string_view source_name) {
  Diagnostics problems;
  const auto add = [&](std::string message, std::string help) {
    Diagnostic problem;
    problem.code = "E309";
    problem.message = std::move(message);
    problem.place.source = source_name;
    problem.help = std::move(help);
    problems.push_back(std::move(problem));
  };
  for (const TensorMismatch& mismatch : comparison.mismatches) add(described(mismatch), {});
  if (comparison.cut)
    add(fmt::format("more than {} tensors differ", comparison.mismatches.size()),
        "config.json and the stored tensors are of two models");
  return problems;
}

}  // namespace steelyard
