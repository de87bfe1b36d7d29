#include "job/keys.h"

#include <algorithm>
#include <array>
#include <utility>

#include "job/job.h"
#include "machine/device.h"
#include "machine/machine.h"
#include "model/catalogue.h"
#include "recipe/optimizer.h"
#include "recipe/precision.h"

namespace steelyard {
namespace {

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t bar = text.find('|');
    parts.push_back(text.substr(0, bar));
    text = bar == std::string_view::npos ? std::string_view() : text.substr(bar + 1);
  }
  return parts;
}

std::string dashed(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

// In these sections a name says enough by itself; elsewhere `--optimizer` would have three meanings.
bool stands_alone(std::string_view section) {
  return section.empty() || section == "cluster" || section == "training" || section == "parallel";
}

// Whose name is a flag, as it is a key of the run file: `recompute = "full"`, --recompute full.
bool names_a_choice(std::string_view section) {
  return section == "recompute" || section == "offload" || section == "adapter";
}

std::vector<Key> make_keys() {
  std::vector<Key> keys;
  const auto add = [&](KeyId id, std::string_view section, std::string_view name, KeyKind kind,
                       std::string_view names, std::int64_t least, std::int64_t most,
                       std::string_view fallback, std::string_view aliases, std::string_view help) {
    Key key{id,       section,        name, kind, split(names), least, most,
            fallback, split(aliases), help, {},   {},           {}};
    key.path = section.empty() ? std::string(name) : std::string(section) + "." + std::string(name);
    const std::string prefix =
        "--" + (stands_alone(section) ? std::string() : std::string(section) + "-");
    key.flag = prefix + dashed(name);
    for (const std::string_view alias : key.aliases)
      key.flag_aliases.push_back(prefix + dashed(alias));
    const bool is_first = keys.empty() || keys.back().section != section;
    if (is_first && names_a_choice(section))
      key.flag_aliases.push_back("--" + std::string(section));
    keys.push_back(std::move(key));
  };
#define KEY(id, section, name, kind, names, least, most, fallback, aliases, help) \
  add(KeyId::id, section, name, KeyKind::kind, names, least, most, fallback, aliases, help);
#include "job/keys.def"
#undef KEY
  return keys;
}

const std::vector<Key>& keys() {
  static const std::vector<Key> all = make_keys();
  return all;
}

// Capitals and dashes are free: "Sequence-Length" is "sequence_length".
bool same_word(std::string_view written, std::string_view name) {
  const auto folded = [](char c) {
    if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
    return c == '-' || c == ' ' ? '_' : c;
  };
  return written.size() == name.size() &&
         std::equal(written.begin(), written.end(), name.begin(),
                    [&](char a, char b) { return folded(a) == folded(b); });
}

struct Synonym {
  KeyId key;
  std::string_view word, name;
};
// What other tools call these.
constexpr std::array kSynonyms = {
    Synonym{KeyId::kEngine, "fsdp", "fsdp2"},
    Synonym{KeyId::kEngine, "torch-fsdp2", "fsdp2"},
    Synonym{KeyId::kEngine, "torchtitan", "fsdp2"},
    Synonym{KeyId::kEngine, "pytorch", "ddp"},
    Synonym{KeyId::kEngine, "zero", "deepspeed"},
    Synonym{KeyId::kEngine, "megatron-lm", "megatron"},
    Synonym{KeyId::kEngine, "megatron-core", "megatron"},
    Synonym{KeyId::kImplementation, "huggingface", "transformers"},
    Synonym{KeyId::kImplementation, "hf", "transformers"},
    Synonym{KeyId::kPrecision, "bf16", "bf16-mixed"},
    Synonym{KeyId::kPrecision, "fp16", "fp16-mixed"},
    Synonym{KeyId::kPrecision, "float32", "fp32"},
    Synonym{KeyId::kPrecision, "16-mixed", "fp16-mixed"},
    Synonym{KeyId::kPrecision, "amp", "bf16-autocast"},
    Synonym{KeyId::kPrecision, "pure-bf16", "bf16-pure"},
    Synonym{KeyId::kOptimizer, "adamw-torch", "adamw"},
    Synonym{KeyId::kOptimizer, "adam-8bit", "adamw-8bit"},
    Synonym{KeyId::kOptimizer, "adamw8bit", "adamw-8bit"},
    Synonym{KeyId::kOptimizer, "adamw-bnb-8bit", "adamw-8bit"},
    Synonym{KeyId::kOptimizer, "paged-adamw", "adamw-paged"},
    Synonym{KeyId::kOptimizer, "paged-adamw-8bit", "adamw-paged-8bit"},
    Synonym{KeyId::kOptimizer, "paged-adamw-32bit", "adamw-paged"},
    Synonym{KeyId::kOptimizerForm, "for-loop", "loop"},
    Synonym{KeyId::kAttention, "flash-attention", "flash"},
    Synonym{KeyId::kAttention, "flash-attention-2", "flash"},
    Synonym{KeyId::kAttention, "flash-attn", "flash"},
    Synonym{KeyId::kAttention, "cudnn-attention", "cudnn"},
    Synonym{KeyId::kAttention, "memory-efficient", "efficient"},
    Synonym{KeyId::kAttention, "xformers", "efficient"},
    Synonym{KeyId::kAttention, "math", "eager"},
    Synonym{KeyId::kSchedule, "afab", "gpipe"},
    Synonym{KeyId::kSchedule, "interleaved-1f1b", "interleaved"},
    Synonym{KeyId::kContextMethod, "p2p", "ring"},
    Synonym{KeyId::kContextMethod, "all-gather", "allgather"},
    Synonym{KeyId::kContextMethod, "a2a", "all-to-all"},
    Synonym{KeyId::kContextMethod, "alltoall", "all-to-all"},
    Synonym{KeyId::kContextMethod, "a2a+p2p", "ring+ulysses"},
    Synonym{KeyId::kExpertDispatcher, "alltoall", "all-to-all"},
    Synonym{KeyId::kExpertDispatcher, "all-gather", "allgather"},
    Synonym{KeyId::kExpertImbalance, "worst-case", "worst"},
    Synonym{KeyId::kRecomputeMode, "off", "none"},
    Synonym{KeyId::kRecomputeMode, "on", "full"},
    Synonym{KeyId::kRecomputeModules, "core-attn", "core_attention"},
    Synonym{KeyId::kRecomputeModules, "moe", "experts"},
    Synonym{KeyId::kRecomputeModules, "moe-act", "expert_activation"},
    Synonym{KeyId::kRecomputeModules, "layernorm", "norms"},
    Synonym{KeyId::kRecomputeModules, "mla-up-proj", "mla_up_projection"},
    Synonym{KeyId::kRecomputeModules, "latent-up-projection", "mla_up_projection"},
    Synonym{KeyId::kCheckpointSave, "full", "full-rank0"},
};

template <class Things>
std::vector<std::string> names_of(const Things& things) {
  std::vector<std::string> names;
  names.reserve(things.size());
  for (const auto& thing : things) names.push_back(thing.name);
  return names;
}

}  // namespace

std::span<const Key> run_file_keys() { return keys(); }
const Key& key_of(KeyId id) { return keys()[static_cast<std::size_t>(id)]; }

std::span<const std::string_view> run_file_sections() {
  static const std::vector<std::string_view> sections = [] {
    std::vector<std::string_view> result;
    for (const Key& key : keys())
      if (!key.section.empty() && (result.empty() || result.back() != key.section))
        result.push_back(key.section);
    result.insert(result.end(), {"environment", "carried"});
    return result;
  }();
  return sections;
}

bool is_carried_section(std::string_view section) {
  return section == "environment" || section == "carried";
}

const Key* find_key(std::string_view section, std::string_view name) {
  for (const Key& key : keys())
    if (key.section == section && key.name == name) return &key;
  for (const Key& key : keys()) {
    if (key.section != section) continue;
    if (same_word(name, key.name)) return &key;
    for (const std::string_view alias : key.aliases)
      if (same_word(name, alias)) return &key;
  }
  return nullptr;
}

const Key* find_key_by_path(std::string_view path) {
  if (const std::size_t dot = path.find('.'); dot != std::string_view::npos)
    return find_key(path.substr(0, dot), path.substr(dot + 1));
  if (const Key* key = find_key("", path)) return key;
  for (const std::string_view section : run_file_sections()) {
    if (!stands_alone(section)) continue;
    if (const Key* key = find_key(section, path)) return key;
  }
  for (const Key& key : keys())
    if (key.section == path) return &key;
  return nullptr;
}

const Key* find_flag(std::string_view flag) {
  for (const Key& key : keys()) {
    if (key.flag == flag) return &key;
    if (std::find(key.flag_aliases.begin(), key.flag_aliases.end(), flag) != key.flag_aliases.end())
      return &key;
  }
  return nullptr;
}

void use_canonical_keys(Value& document) {
  if (!document.is_table()) return;
  for (Value::Member& section : document.members()) {
    const Key* first = find_key_by_path(section.key);
    const bool is_first = first != nullptr && first->section == section.key;
    if (section.value.is_string() && is_first && is_section_word(first->kind)) {
      Value::Table only;
      only.push_back({std::string(first->name), section.key_mark, section.value});
      Value table = Value::table(std::move(only));
      table.set_mark(section.key_mark);
      section.value = std::move(table);
    }
    if (!section.value.is_table() || !is_first) continue;
    for (Value::Member& member : section.value.members()) {
      const Key* key = find_key(section.key, member.key);
      if (key == nullptr || member.key == key->name || section.value.find(key->name) != nullptr)
        continue;
      member.key = key->name;
    }
  }
}

bool is_section_word(KeyKind kind) { return kind == KeyKind::kName || kind == KeyKind::kDevice; }

std::vector<std::string> accepted_names(const Key& key) {
  switch (key.kind) {
    case KeyKind::kDevice:
      return names_of(devices());
    case KeyKind::kMachine:
      return names_of(machines());
    case KeyKind::kPrecision:
      return names_of(precisions());
    case KeyKind::kOptimizer:
      return names_of(optimizers());
    case KeyKind::kModel: {
      const auto presets = preset_names();
      return {presets.begin(), presets.end()};
    }
    case KeyKind::kSwitch:
      return {"true", "false"};
    default:
      return {key.names.begin(), key.names.end()};
  }
}

std::string_view meant_name(const Key& key, std::string_view word) {
  for (const std::string_view name : key.names)
    if (same_word(word, name)) return name;
  for (const Synonym& synonym : kSynonyms)
    if (synonym.key == key.id && same_word(word, synonym.word)) return synonym.name;
  return {};
}

}  // namespace steelyard
