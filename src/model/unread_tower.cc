#include "model/unread_tower.h"

#include <string>
#include <string_view>

#include "quantity/checked.h"

namespace steelyard {
namespace {

// A size of the config; 0, which makes the count nothing, where it is missing.
class Sizes {
 public:
  explicit Sizes(const Value& config) : config_(config) {}
  Checked operator()(std::string_view key, std::int64_t fallback = 0) {
    const Value* value = config_.find(key);
    const bool stated = value != nullptr && value->is_integer() && value->as_integer() > 0;
    const std::int64_t size = stated ? value->as_integer() : fallback;
    if (size == 0) missing_ = true;
    return size;
  }
  bool missing() const { return missing_; }

 private:
  const Value& config_;
  bool missing_ = false;
};

Checked biased(Checked in, Checked out) { return in * out + out; }

// transformers models/qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5 (5.17): patches over two frames, blocks with one product for
// query, key and value, and a merger of four patches into one token.
Checked qwen2_vl(Sizes& size) {
  const Checked width = size("embed_dim", 1280), out = size("hidden_size");
  const Checked inner = width * size("mlp_ratio", 4), patch = size("patch_size", 14);
  const Checked merged = Checked(4) * width;
  const Checked block = biased(width, Checked(3) * width) + biased(width, width) +
                        Checked(4) * width + biased(width, inner) + biased(inner, width);
  return size("depth", 32) * block + Checked(6) * patch * patch * width + Checked(2) * width +
         biased(merged, merged) + biased(merged, out);
}

Checked qwen2_5_vl(Sizes& size) {
  const Checked width = size("hidden_size"), inner = size("intermediate_size", 3420);
  const Checked out = size("out_hidden_size"), patch = size("patch_size", 14);
  const Checked merged = Checked(4) * width;
  const Checked block = biased(width, Checked(3) * width) + biased(width, width) +
                        Checked(2) * width + Checked(2) * biased(width, inner) +
                        biased(inner, width);
  return size("depth", 32) * block + Checked(6) * patch * patch * width + width +
         biased(merged, merged) + biased(merged, out);
}

// `joined`: layers whose output is merged, too, and added to the first layers of the decoder.
Checked qwen3_vl(Sizes& size, std::int64_t joined) {
  const Checked width = size("hidden_size"), inner = size("intermediate_size");
  const Checked out = size("out_hidden_size"), patch = size("patch_size", 16);
  const Checked merged = Checked(4) * width;
  const Checked products = biased(merged, merged) + biased(merged, out);
  const Checked block = biased(width, Checked(3) * width) + biased(width, width) +
                        Checked(4) * width + biased(width, inner) + biased(inner, width);
  return size("depth") * block + biased(Checked(6) * patch * patch, width) +
         size("num_position_embeddings", 2304) * width + Checked(2) * width + products +
         Checked(joined) * (Checked(2) * merged + products);
}

}  // namespace

std::optional<std::int64_t> count_unread_tower(const Value& config) {
  const Value* type = config.find("model_type");
  if (type == nullptr || !type->is_string()) return std::nullopt;
  std::string_view kind = type->as_string();
  constexpr std::string_view kEnd = "_vision";
  if (kind.ends_with(kEnd)) kind.remove_suffix(kEnd.size());
  Sizes size(config);
  Checked parameters = 0;
  try {
    if (kind == "qwen2_vl") {
      parameters = qwen2_vl(size);
    } else if (kind == "qwen2_5_vl") {
      parameters = qwen2_5_vl(size);
    } else if (kind == "qwen3_vl" || kind == "qwen3_vl_moe") {
      const Value* joined = config.find("deepstack_visual_indexes");
      const bool listed = joined != nullptr && joined->is_array();
      parameters = qwen3_vl(size, listed ? static_cast<std::int64_t>(joined->items().size()) : 3);
    } else if (kind == "qwen3_5" || kind == "qwen3_5_moe") {
      parameters = qwen3_vl(size, 0);
    } else {
      return std::nullopt;
    }
  } catch (const OverflowError&) {
    return std::nullopt;
  }
  if (size.missing()) return std::nullopt;
  return parameters.value();
}

}  // namespace steelyard
