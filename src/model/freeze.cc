#include "model/freeze.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <utility>

#include "model/sequence.h"

namespace steelyard {
namespace {

// Marks what the patterns name and remembers which of them named something.
class Marker {
 public:
  explicit Marker(const std::vector<std::string>& patterns)
      : patterns_(patterns), used_(patterns.size(), false) {}

  bool frozen(std::string_view name) {
    bool any = false;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (!matches_pattern(name, patterns_[i])) continue;
      used_[i] = true;
      any = true;
    }
    return any;
  }

  void mark(std::vector<ParameterTensor>& tensors, const std::string& prefix) {
    for (ParameterTensor& tensor : tensors) {
      const bool named = frozen(prefix + tensor.name);
      tensor.unread = tensor.unread && !named;
      tensor.frozen = !tensor.buffer && (tensor.frozen || named);
      tensor.gradient = !tensor.frozen;
    }
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < patterns_.size(); ++i)
      if (!used_[i]) names.push_back(patterns_[i]);
    return names;
  }

 private:
  const std::vector<std::string>& patterns_;
  std::vector<bool> used_;
};

bool has_gradient(const ParameterTensor& tensor) { return !tensor.buffer && tensor.gradient; }

bool any_gradient(const std::vector<ParameterTensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), has_gradient);
}

// Of what stands before the first layer; before a tower of vision only its own tensors do.
bool any_gradient_before_layers(const Architecture& model) {
  const std::vector<ParameterTensor>& tensors = model.embedding_parameters;
  if (!follows_vision(model)) return any_gradient(tensors);
  const VisionPart& vision = *model.encoder_part->vision;
  return std::any_of(tensors.begin() + static_cast<std::ptrdiff_t>(vision.first_tensor),
                     tensors.begin() + static_cast<std::ptrdiff_t>(vision.first_of_projector),
                     has_gradient);
}

// Views of one flat parameter: a gradient for all of them, or for none.
void join(std::initializer_list<std::vector<ParameterTensor>*> unit) {
  const bool any = std::any_of(unit.begin(), unit.end(),
                               [](const auto* tensors) { return any_gradient(*tensors); });
  for (std::vector<ParameterTensor>* tensors : unit)
    for (ParameterTensor& tensor : *tensors) tensor.gradient = any;
}

}  // namespace

bool matches_pattern(std::string_view name, std::string_view pattern) {
  std::size_t at = 0, in = 0, star = std::string_view::npos, resume = 0;
  while (at < name.size()) {
    if (in < pattern.size() && pattern[in] == '*') {
      star = in++;
      resume = at;
    } else if (in < pattern.size() && pattern[in] == name[at]) {
      ++in;
      ++at;
    } else if (star != std::string_view::npos) {
      in = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  while (in < pattern.size() && pattern[in] == '*') ++in;
  return in == pattern.size();
}

Frozen freeze(const Architecture& architecture, const std::vector<std::string>& patterns,
              const FreezeTerms& terms) {
  auto frozen = std::make_shared<Architecture>(architecture);
  Marker marker(patterns);
  marker.mark(frozen->embedding_parameters, "");
  marker.mark(frozen->head_parameters, "");
  marker.mark(frozen->left_out, "");
  if (terms.flat_units) join({&frozen->embedding_parameters, &frozen->head_parameters});

  frozen->embedding_output_asked = terms.gradient_asked_of_embedding;
  bool gradient_arrives = terms.gradient_asked_of_embedding || any_gradient_before_layers(*frozen);
  std::map<std::pair<int, std::vector<bool>>, int> known;
  std::vector<int> kind_of_layer;
  // Without patterns nothing hangs on a layer's number: of the layers of a kind that a gradient comes to, or does not, one is
  // copied. A search reads a job for each of thousands of layouts, and most of that time went into copies.
  struct SeenLayer {
    int kind = 0;
    bool gradient_leaves = false;
  };
  std::map<std::pair<int, bool>, SeenLayer> seen;
  frozen->kinds.clear();
  std::int64_t number = 0;
  for (const int kind : kind_of_each_layer(architecture)) {
    gradient_arrives = gradient_arrives || number >= terms.gradient_asked_from;
    // The decoder reads words and projected patches beside what its tower gives.
    if (follows_vision(architecture) && number == architecture.encoder_part->layers)
      gradient_arrives = gradient_arrives || any_gradient(frozen->embedding_parameters);
    const std::pair<int, bool> asked{kind, gradient_arrives};
    if (const auto same = seen.find(asked); patterns.empty() && same != seen.end()) {
      kind_of_layer.push_back(same->second.kind);
      gradient_arrives = same->second.gradient_leaves;
      ++number;
      continue;
    }
    Layer layer = architecture.kinds[static_cast<std::size_t>(kind)];
    marker.mark(layer.parameters, prefix_of_layer(architecture, number++));
    std::vector<bool> signature = {gradient_arrives};
    for (const ParameterTensor& tensor : layer.parameters) signature.push_back(tensor.frozen);
    if (terms.flat_units) join({&layer.parameters});
    layer.input_needs_gradient = gradient_arrives;
    gradient_arrives = gradient_arrives || any_gradient(layer.parameters);
    const auto [at, is_new] = known.emplace(std::pair(kind, std::move(signature)),
                                            static_cast<int>(frozen->kinds.size()));
    if (is_new) frozen->kinds.push_back(std::move(layer));
    kind_of_layer.push_back(at->second);
    seen.insert_or_assign(asked, SeenLayer{at->second, gradient_arrives});
  }
  frozen->sequence = grouped_sequence(kind_of_layer);
  frozen->head_input_needs_gradient = gradient_arrives || number >= terms.gradient_asked_from;
  return {std::move(frozen), marker.unused()};
}

bool is_untouched(const Layer& layer) {
  return layer.unread || (!layer.input_needs_gradient && !any_gradient(layer.parameters));
}

}  // namespace steelyard
