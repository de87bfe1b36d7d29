// Small models: a preset's config, cut to few layers and stretched in width.
#include <algorithm>

#include "data/embedded.h"
#include "random_jobs.h"

namespace steelyard {

std::uint64_t Dice::mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

std::int64_t Dice::from(std::int64_t least, std::int64_t most) {
  return least + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(most - least + 1));
}

namespace {

// The configs of all presets, read once; families with many presets are no likelier than others.
const std::vector<std::vector<RunFile>>& configs_by_family() {
  static const std::vector<std::vector<RunFile>> families = [] {
    std::vector<std::pair<std::string, std::vector<RunFile>>> known;
    for (const EmbeddedFile& file : embedded_files_in("models")) {
      const RunFile config = RunFile::parse(file.text).at("config");
      const std::string family = config.at("model_type").get<std::string>();
      auto at = std::find_if(known.begin(), known.end(),
                             [&](const auto& entry) { return entry.first == family; });
      if (at == known.end()) at = known.insert(known.end(), {family, {}});
      at->second.push_back(config);
    }
    std::vector<std::vector<RunFile>> lists;
    for (auto& [family, configs] : known) lists.push_back(std::move(configs));
    return lists;
  }();
  return families;
}

void cut_layers(RunFile& config, std::int64_t layers) {
  for (const char* key : {"num_hidden_layers", "n_layer"})
    if (config.contains(key)) config[key] = layers;
  // What speaks of single layers must stay within them.
  if (config.contains("layer_types")) {
    RunFile& types = config["layer_types"];
    while (types.size() > static_cast<std::size_t>(layers)) types.erase(types.size() - 1);
  }
  for (const char* key : {"first_k_dense_replace", "max_window_layers"})
    if (config.contains(key)) config[key] = std::min(config[key].get<std::int64_t>(), layers);
  if (config.contains("mlp_only_layers")) {
    RunFile within = RunFile::array();
    for (const RunFile& layer : config["mlp_only_layers"])
      if (layer.get<std::int64_t>() < layers) within.push_back(layer);
    config["mlp_only_layers"] = within;
  }
}

void stretch(RunFile& config, Dice& dice) {
  const auto number = [&](const char* key) {
    return config.contains(key) && config[key].is_number_integer();
  };
  if (number("vocab_size") && dice.chance(40)) config["vocab_size"] = dice.from(1'000, 260'000);
  if (number("intermediate_size") && dice.chance(30))
    config["intermediate_size"] = 8 * dice.from(4, 4'000);
  if (number("moe_intermediate_size") && dice.chance(30))
    config["moe_intermediate_size"] = 8 * dice.from(4, 400);
  // Attention with as many heads as its width holds; latent attention has widths of its own.
  const bool grouped = number("hidden_size") && number("num_attention_heads") &&
                       !config.contains("kv_lora_rank") && !config.contains("head_dim");
  if (grouped && dice.chance(40)) {
    const std::int64_t heads = dice.one_of<std::int64_t>({2, 4, 8, 12, 16, 20, 32, 48, 64});
    config["num_attention_heads"] = heads;
    config["hidden_size"] = heads * dice.one_of<std::int64_t>({16, 32, 64, 72, 80, 96, 128, 256});
    if (number("num_key_value_heads")) {
      std::int64_t shared = heads;
      while (shared % 2 == 0 && dice.chance(50)) shared /= 2;
      config["num_key_value_heads"] = shared;
    }
    config.erase("word_embed_proj_dim");
  }
  if (config.contains("tie_word_embeddings") && dice.chance(30))
    config["tie_word_embeddings"] = dice.chance(50);
}

}  // namespace

RunFile random_model(Dice& dice) {
  RunFile config = dice.one_of(dice.one_of(configs_by_family()));
  cut_layers(config, dice.chance(10) ? dice.from(13, 26) : dice.from(1, 12));
  stretch(config, dice);
  return config;
}

}  // namespace steelyard
