#include "formats/launch/megatron_expert_layers.h"

#include <string>
#include <string_view>

#include "formats/launch/mapping.h"

namespace steelyard {
namespace {

constexpr std::size_t kMostPatternLayers = 65'536;

// Lists of 0 and 1 in Python's manner: literals, `*` with a number, `+`, parentheses.
class LayerPattern {
 public:
  explicit LayerPattern(std::string_view text) : text_(text) {}

  std::optional<std::vector<std::int64_t>> read() {
    auto all = sum(0);
    skip();
    if (!all || at_ != text_.size()) return std::nullopt;
    return all;
  }

 private:
  using List = std::vector<std::int64_t>;

  std::optional<List> sum(int depth) {
    auto all = product(depth);
    while (all && take('+')) {
      const auto next = product(depth);
      if (!next || all->size() + next->size() > kMostPatternLayers) return std::nullopt;
      all->insert(all->end(), next->begin(), next->end());
    }
    return all;
  }

  std::optional<List> product(int depth) {
    auto list = part(depth);
    while (list && take('*')) {
      const auto times = number();
      if (!times || *times * list->size() > kMostPatternLayers) return std::nullopt;
      const List once = *list;
      list->clear();
      for (std::size_t i = 0; i < *times; ++i) list->insert(list->end(), once.begin(), once.end());
    }
    return list;
  }

  std::optional<List> part(int depth) {
    if (depth > 16) return std::nullopt;
    if (take('(')) {
      auto inner = sum(depth + 1);
      return inner && take(')') ? inner : std::nullopt;
    }
    if (!take('[')) return std::nullopt;
    List list;
    while (!take(']')) {
      const auto one = number();
      if (!one || list.size() >= kMostPatternLayers) return std::nullopt;
      list.push_back(static_cast<std::int64_t>(*one));
      if (!take(',') && peek() != ']') return std::nullopt;
    }
    return list;
  }

  std::optional<std::size_t> number() {
    skip();
    const std::size_t begin = at_;
    std::size_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' &&
           value < kMostPatternLayers)
      value = value * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    return at_ == begin ? std::nullopt : std::optional(value);
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<std::int64_t>> dense_layers_of(const Value& frequency,
                                                         std::int64_t layers) {
  if (layers < 1 || static_cast<std::size_t>(layers) > kMostPatternLayers) return std::nullopt;
  std::vector<std::int64_t> sparse;
  if (const auto every = count_of(frequency)) {
    if (*every < 1) return std::nullopt;
    for (std::int64_t i = 0; i < layers; ++i) sparse.push_back(i % *every == 0 ? 1 : 0);
  } else if (frequency.is_array()) {
    for (const Value& layer : frequency.items()) sparse.push_back(count_of(layer).value_or(-1));
  } else {
    // Scripts that eval their command quote once more.
    std::string text = word_of(frequency);
    std::erase_if(text, [](char c) { return c == '\'' || c == '"' || c == '\\'; });
    const auto list = LayerPattern(text).read();
    if (!list) return std::nullopt;
    sparse = *list;
  }
  if (sparse.size() != static_cast<std::size_t>(layers)) return std::nullopt;
  std::vector<std::int64_t> dense;
  for (std::size_t i = 0; i < sparse.size(); ++i) {
    if (sparse[i] != 0 && sparse[i] != 1) return std::nullopt;
    if (sparse[i] == 0) dense.push_back(static_cast<std::int64_t>(i));
  }
  return dense;
}

}  // namespace steelyard
