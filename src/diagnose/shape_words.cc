#include "diagnose/shape_words.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "model/catalogue.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

std::string product(std::initializer_list<std::int64_t> factors, int width) {
  std::string words;
  for (const std::int64_t factor : factors) words += print_count(Checked(factor)) + " x ";
  return words + fmt::format("{} B", width);
}

std::string copy_of(int width, std::string_view what) {
  return fmt::format("one {}-bit copy of {}", 8 * width, what);
}

bool within(SizeRange range, std::int64_t bytes) {
  return bytes >= range.low && bytes <= range.high;
}

// Query heads of the first layer that has attention; 0 without one.
std::int64_t heads_of(const Architecture& model) {
  for (const Layer& layer : model.kinds) {
    const std::int64_t heads =
        std::visit([](const auto& attention) { return attention.heads; }, layer.attention);
    if (heads > 0) return heads;
  }
  return 0;
}

// "llama-3.1-8b" as people say it: "Llama 3".
std::string family_words(std::string_view preset) {
  std::string words(preset.substr(0, preset.find_first_of("-.", preset.find('-') + 1)));
  for (char& letter : words)
    if (letter == '-') letter = ' ';
  if (!words.empty())
    words[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(words[0])));
  return words;
}

struct KnownVocabulary {
  std::string family;  // the first preset's
  int presets = 0;     // how many have it
};

// Vocabularies of the known models, each with the family that is known best by it.
const std::map<std::int64_t, KnownVocabulary>& known_vocabularies() {
  static const std::map<std::int64_t, KnownVocabulary> kKnown = [] {
    std::map<std::int64_t, KnownVocabulary> known;
    for (const std::string_view name : preset_names()) {
      const auto preset = find_preset(name);
      if (!preset) continue;
      const Value* rows = preset->config.find("vocab_size");
      if (rows == nullptr || !rows->is_integer() || rows->as_integer() < 20'000) continue;
      KnownVocabulary& vocabulary = known[rows->as_integer()];
      if (vocabulary.presets == 0) vocabulary.family = family_words(name);
      ++vocabulary.presets;
    }
    return known;
  }();
  return kKnown;
}

}  // namespace

std::optional<Shape> shape_of(SizeRange range, const Job& job) {
  const Architecture& model = *job.model;
  const std::int64_t length = job.training.sequence_length.value();
  const std::int64_t context = std::max<std::int64_t>(job.parallel.context, 1);
  const std::int64_t tensor = std::max<std::int64_t>(job.parallel.tensor, 1);
  const std::int64_t tokens = job.training.micro_batch * length / context;
  const std::int64_t vocabulary = model.vocabulary;
  const std::int64_t hidden = model.hidden;
  for (const int width : {4, 2})
    for (const std::int64_t rows : {vocabulary, vocabulary / tensor})
      for (const std::int64_t count : {tokens, tokens - job.training.micro_batch})
        if (within(range, count * rows * width))
          return Shape{ShapeKind::kLogitsShape, count * rows * width, product({count, rows}, width),
                       copy_of(width, "the logits")};
  for (const int width : {4, 2, 1})
    for (const std::int64_t heads : {heads_of(model) / tensor})
      if (heads > 0 && within(range, job.training.micro_batch * heads * length * length * width))
        return Shape{ShapeKind::kScoresShape,
                     job.training.micro_batch * heads * length * length * width,
                     product({job.training.micro_batch, heads, length, length}, width),
                     copy_of(width, "the attention scores of a layer")};
  for (const int width : {4, 2})
    for (const std::int64_t rows : {vocabulary, vocabulary / tensor})
      if (within(range, rows * hidden * width))
        return Shape{ShapeKind::kWeightShape, rows * hidden * width, product({rows, hidden}, width),
                     copy_of(width, "the embedding or head")};
  for (const int width : {4, 2})
    if (within(range, tokens * hidden * width))
      return Shape{ShapeKind::kOtherShape, tokens * hidden * width,
                   product({tokens, hidden}, width), copy_of(width, "the hidden states")};
  return std::nullopt;
}

std::optional<Shape> logits_of_known_model(SizeRange range) {
  std::optional<Shape> best;
  double best_distance = 0;
  int best_presets = 0;
  for (const auto& [vocabulary, known] : known_vocabularies())
    for (std::int64_t tokens = 1024; tokens <= 131'072; tokens *= 2)
      for (const int width : {2, 4}) {
        if (!within(range, tokens * vocabulary * width)) continue;
        const double distance =
            std::abs(std::log2(static_cast<double>(tokens) / 8192.0)) + (width == 4 ? 0.5 : 0.0);
        // A rounded size may be that of two vocabularies: the one that more models have is likelier.
        const bool nearer =
            distance < best_distance || (distance == best_distance && known.presets > best_presets);
        if (best && !nearer) continue;
        best_distance = distance;
        best_presets = known.presets;
        best =
            Shape{ShapeKind::kLogitsShape, tokens * vocabulary * width,
                  product({tokens, vocabulary}, width), copy_of(width, known.family + "'s logits")};
      }
  return best;
}

}  // namespace steelyard
