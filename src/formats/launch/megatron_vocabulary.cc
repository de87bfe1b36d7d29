#include "formats/launch/megatron_vocabulary.h"

#include <fmt/format.h>

#include "formats/launch/hugging_face.h"
#include "formats/launch/shell.h"
#include "model/catalogue.h"

namespace steelyard {
namespace {

struct Tokenizer {
  std::string_view name;  // of --tokenizer-type, or a part of what it reads, in small letters
  std::int64_t entries = 0;
  std::string_view source;
};

// Tokenizers that are one file, whoever loads it.
constexpr Tokenizer kTokenizerTypes[] = {
    {"gpt2bpetokenizer", 50257, "GPT-2's vocab.json (openai/gpt-2 encoder.json)"},
    {"hfgpt2tokenizer", 50258,
     "GPT-2's vocab.json and a token of padding (gpt-neox, tokenizer.py)"},
    {"charleveltokenizer", 512, "gpt-neox, tokenizer.py"},
    {"bertwordpiecelowercase", 30522, "bert-large-uncased-vocab.txt"},
    {"bertwordpiececase", 28996, "bert-large-cased-vocab.txt"},
    {"llama2tokenizer", 32000, "Llama 2's tokenizer.model"},
    {"llamatokenizer", 32000, "Llama's tokenizer.model"},
    {"mixtraltokenizer", 32000, "Mixtral's tokenizer.model"},
    {"mistraltokenizer", 32000, "Mistral 0.1's tokenizer.model"},
    {"llama3tokenizer", 128000, "Llama 3's tokenizer.json without its special tokens"},
    {"qwen2tokenizer", 151643, "Qwen2's vocab.json, as Pai-Megatron-Patch counts it"},
    {"qwen2vltokenizer", 151643, "Qwen2-VL's vocab.json, as Pai-Megatron-Patch counts it"},
    {"qwen3tokenizer", 151643, "Qwen3's vocab.json, as Pai-Megatron-Patch counts it"},
    {"bloomtokenizerfromhf", 250880, "Pai-Megatron-Patch, megatron_patch/tokenizer"},
    {"chatglmtokenizerfromhf", 130528, "Pai-Megatron-Patch, megatron_patch/tokenizer"},
    {"icetkglm130btokenizer", 150528, "Pai-Megatron-Patch, megatron_patch/tokenizer"},
    {"glm10bzhtokenizerfromhf", 50048, "Pai-Megatron-Patch, megatron_patch/tokenizer"},
    {"starcodertokenizerfromhf", 49152, "Pai-Megatron-Patch, megatron_patch/tokenizer"},
    {"vicunatokenizerfromhf", 32000, "Pai-Megatron-Patch, megatron_patch/tokenizer"},
};

// len(tokenizer) of tokenizers on the hub, where it is not their models' vocab_size; the first that the name holds.
constexpr Tokenizer kTokenizerFiles[] = {
    {"llama_tokenizer.model", 32000, "Llama 2's tokenizer.model"},
    {"nemotron_2_256k", 256000, "nvidia/Nemotron-4-340B: vocab_size"},
    {"multimixv8.gpt4o_nc_sd.500000.128k", 131072, "NVIDIA's table of 2^17 entries"},
    {"gpt2", 50257, "openai-community/gpt2: vocab.json"},
    {"llama-2", 32000, "meta-llama/Llama-2-7b-hf: tokenizer.model"},
    {"llama2", 32000, "meta-llama/Llama-2-7b-hf: tokenizer.model"},
    {"llama-3", 128256, "meta-llama/Meta-Llama-3-8B: tokenizer.json"},
    {"llama3", 128256, "meta-llama/Meta-Llama-3-8B: tokenizer.json"},
    {"mistral-7b-v0.1", 32000, "mistralai/Mistral-7B-v0.1: tokenizer.model"},
    {"mistral-7b-instruct-v0.3", 32768, "mistralai/Mistral-7B-v0.3: tokenizer.model.v3"},
    {"mistral-7b-v0.3", 32768, "mistralai/Mistral-7B-v0.3: tokenizer.model.v3"},
    {"mistral-nemo", 131072, "mistralai/Mistral-Nemo-Base-2407: tekken.json"},
    {"mixtral-8x7b", 32000, "mistralai/Mixtral-8x7B-v0.1: tokenizer.model"},
    {"mixtral-8x22b", 32000, "mistral-community/Mixtral-8x22B-v0.1: tokenizer.json"},
    {"mistral-large-instruct-2407", 32768,
     "mistralai/Mistral-Large-Instruct-2407: tokenizer.model.v3"},
    {"qwen1.5", 151646, "Qwen/Qwen1.5-7B: vocab.json and three added tokens"},
    {"qwen2.5", 151665, "Qwen/Qwen2.5-7B: vocab.json and 22 added tokens"},
    {"qwen2", 151646, "Qwen/Qwen2-7B: vocab.json and three added tokens"},
    {"qwen3", 151669, "Qwen/Qwen3-8B: vocab.json and 26 added tokens"},
    {"starcoder2", 49152, "bigcode/starcoder2-15b: tokenizer.json"},
    {"falcon-", 65024, "tiiuae/falcon-7b: tokenizer.json"},
    {"gpt-neox-20b", 50277, "EleutherAI/gpt-neox-20b: tokenizer.json and its added tokens"},
    {"20b_tokenizer", 50277, "EleutherAI/gpt-neox-20b: 20B_tokenizer.json and its added tokens"},
    {"t5-small", 32100, "google-t5/t5-small: spiece.model and 100 sentinels"},
};

std::string small_letters(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

const Tokenizer* tokenizer_of_type(std::string_view type) {
  const std::string wanted = small_letters(type);
  for (const Tokenizer& row : kTokenizerTypes)
    if (row.name == wanted) return &row;
  return nullptr;
}

const Tokenizer* tokenizer_of_file(std::string_view file) {
  const std::string wanted = small_letters(file);
  for (const Tokenizer& row : kTokenizerFiles)
    if (wanted.find(row.name) != std::string::npos) return &row;
  return nullptr;
}

struct Counted {
  std::int64_t entries = 0;
  std::string why;
};

// The vocabulary of a preset of that name, as its config.json has it.
Counted counted_by_preset(const std::string& name) {
  if (name.empty() || has_hole(name)) return {};
  const auto preset = preset_like(name);
  const auto found = preset ? find_preset(*preset) : std::nullopt;
  const Value* rows = found ? found->config.find("vocab_size") : nullptr;
  if (rows == nullptr) return {};
  return {count_of(*rows).value_or(0), fmt::format("the vocabulary of {}", name)};
}

Counted counted_by_tokenizer(const Value& theirs) {
  const auto word = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (const Value* value = theirs.find(key); value != nullptr && !word_of(*value).empty())
        return word_of(*value);
    return std::string();
  };
  const std::string type = word({"patch_tokenizer_type", "tokenizer_type"});
  const std::string file = word({"tokenizer_model", "tokenizer_name_or_path", "vocab_file"});
  // pretrain_gpt.py's own default, which reads these files, is GPT-2's.
  if (type.empty() && theirs.find("merge_file") != nullptr)
    return {50257, "of GPT2BPETokenizer, the default"};
  if (const Tokenizer* known = tokenizer_of_type(type)) {
    // Pai-Megatron-Patch adds rows to its own kinds of tokenizers.
    const Value* extra = theirs.find("extra_vocab_size");
    const std::int64_t more = extra == nullptr ? 0 : count_of(*extra).value_or(0);
    return {known->entries + more,
            more > 0 ? fmt::format("{} of {} and --extra-vocab-size", known->entries, known->source)
                     : fmt::format("of {}, by {}", known->source, type)};
  }
  // A table that is filled up to 2^17 (tiktoken_tokenizer.py, DEFAULT_TIKTOKEN_MAX_VOCAB).
  if (type == "TikTokenizer") return {131072, "of TikTokenizer, unless --vocab-size says another"};
  if (const Tokenizer* known = tokenizer_of_file(file))
    return {known->entries, fmt::format("of {}", known->source)};
  return counted_by_preset(file);
}

}  // namespace

void read_megatron_vocabulary(ConfigReader& reading, ModelTable& model) {
  const Value* rows = nullptr;
  for (const char* key : {"padded_vocab_size", "vocab_size", "pad_vocab_size_to"}) {
    const Value* value = reading.take(key);
    // Pai-Megatron-Patch's --padded-vocab-size is 0 where the tokenizer decides.
    if (rows == nullptr && value != nullptr && count_of(*value).value_or(0) > 0) rows = value;
  }
  for (const char* key : {"patch_tokenizer_type", "extra_vocab_size"}) reading.take(key);
  if (rows != nullptr)
    return model.put("vocab_size", Value::integer(count_of(*rows).value_or(0)), rows);
  const Counted counted = counted_by_tokenizer(reading.theirs());
  if (counted.entries < 1)
    return reading.lacks("model.vocab_size", "the tokenizer decides; --vocab-size says it");
  model.put("vocab_size", Value::integer(counted.entries));
  reading.into().unsaid.push_back(
      {"model.vocab_size", std::to_string(counted.entries), counted.why});
}

}  // namespace steelyard
