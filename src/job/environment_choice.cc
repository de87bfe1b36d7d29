#include "job/environment_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "document/edit_distance.h"
#include "job/environment_keys.h"
#include "model/stacked_experts.h"

namespace steelyard {
namespace {

// Where both are set, PyTorch reads the first (c10/core/AllocatorConfig.cpp).
constexpr std::array<std::string_view, 2> kAllocatorNames = {"PYTORCH_ALLOC_CONF",
                                                             "PYTORCH_CUDA_ALLOC_CONF"};
// torchtitan run_train.sh.
constexpr std::string_view kTorchtitanSettings = "expandable_segments:True";

// A place within the text of a value, as a place in the run file.
Place within(const Value& value, const Place& in_text) {
  Place place = value.place();
  if (place.line == 0) return in_text;
  place.column += in_text.column;  // behind the quotation mark
  place.length = in_text.length;
  return place;
}

const Value* named(const Value& document, std::string_view name) {
  const Value* table = document.find("environment");
  return table == nullptr ? nullptr : table->find(name);
}

Diagnostic not_text(const Value& value, const std::string& path, const std::string& sample) {
  return {Severity::kError, "E105",          path + " is " + shown(value) + ", not text",
          value.place(),    "expected text", path + " = \"" + sample + "\""};
}

// A version's numbers: 2.1.2 of "2.1.2+cu121"; 2.1 is 2.1.0.
struct Version {
  int major = 0, minor = 0, patch = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};
// Since these nothing changed that is modelled, so that recordings of the newest speak for them.
constexpr Version kRecordedTorch{2, 9}, kRecordedTransformers{5, 0};
// pytorch pull request 177974: before it ROCm's build warns, and takes ordinary segments.
constexpr Version kExpandableOnRocm{2, 12};

std::optional<Version> read_version(std::string_view text) {
  Version version;
  const char* end = text.data() + text.size();
  const auto [dot, bad_major] = std::from_chars(text.data(), end, version.major);
  if (bad_major != std::errc{} || dot == end || *dot != '.') return std::nullopt;
  const auto [rest, bad_minor] = std::from_chars(dot + 1, end, version.minor);
  if (bad_minor != std::errc{} || (rest != end && *rest != '.' && *rest != '+'))
    return std::nullopt;
  if (rest != end && *rest == '.') std::from_chars(rest + 1, end, version.patch);
  return version;
}

// The one that is weighed where nobody says another.
Version newest(std::string_view name) {
  return read_version(find_environment_key(name)->absent).value_or(Version{});
}

// environment.NAME, where it is there; a problem and nothing where it is no version.
std::optional<Version> said_version(const Value& document, std::string_view name,
                                    const std::string& sample, Diagnostics& problems) {
  const Value* value = named(document, name);
  if (value == nullptr) return std::nullopt;
  const std::string path = "environment." + std::string(name);
  if (!value->is_string()) {
    problems.push_back(not_text(*value, path, sample));
    return std::nullopt;
  }
  const auto version = read_version(value->as_string());
  if (!version)
    problems.push_back({Severity::kError, "E105",
                        path + " is " + shown(*value) + ", not a version of " + std::string(name),
                        value->place(), "expected two numbers and a dot",
                        path + " = \"" + sample + "\""});
  return version;
}

RecordedCollectives recorded_by(const Version& version) {
  if (version < Version{2, 2}) return RecordedCollectives::kAll;
  return version < Version{2, 8} ? RecordedCollectives::kAsynchronous : RecordedCollectives::kNone;
}

TorchRmsNorm rms_norm_of(const Version& version) {
  if (version < Version{2, 7}) return TorchRmsNorm::kWeighedNarrow;
  return version < Version{2, 9} ? TorchRmsNorm::kWeighedInFloat32 : TorchRmsNorm::kOneKernel;
}

// The version that runs.
Version choose_torch(Draft& draft, const Value& document, Diagnostics& problems) {
  Job& job = draft.job();
  const Version version =
      said_version(document, "torch", "2.8", problems).value_or(newest("torch"));
  job.older_libraries = job.older_libraries || version < kRecordedTorch;
  job.recorded = recorded_by(version);
  job.rms_norm = rms_norm_of(version);
  job.foreach_lists = version < Version{2, 1} ? 2 : 1;
  const Value* avoid = named(document, "TORCH_NCCL_AVOID_RECORD_STREAMS");
  if (avoid != nullptr && !avoid->is_string())
    problems.push_back(not_text(*avoid, "environment.TORCH_NCCL_AVOID_RECORD_STREAMS", "1"));
  else if (avoid != nullptr && avoid->as_string() != "0")
    job.recorded = RecordedCollectives::kNone;
  return version;
}

// c10d reads it whatever its case (torch/csrc/distributed/c10d/debug.cpp).
constexpr std::string_view kDebug = "TORCH_DISTRIBUTED_DEBUG";
constexpr std::array<std::string_view, 3> kDebugLevels = {"OFF", "INFO", "DETAIL"};

void choose_debug(Draft& draft, const Value& document, Diagnostics& problems) {
  const Value* value = named(document, kDebug);
  if (value == nullptr) return;
  const std::string path = "environment." + std::string(kDebug);
  if (!value->is_string()) {
    problems.push_back(not_text(*value, path, "DETAIL"));
    return;
  }
  std::string level = value->as_string();
  std::transform(level.begin(), level.end(), level.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  if (std::find(kDebugLevels.begin(), kDebugLevels.end(), level) == kDebugLevels.end()) {
    problems.push_back({Severity::kError, "E106", path + " is " + shown(*value), value->place(),
                        "expected OFF, INFO or DETAIL",
                        did_you_mean("level", nearest_names(level, kDebugLevels))});
    return;
  }
  Job& job = draft.job();
  job.checks_collectives = level == "DETAIL" && job.cluster.devices > 1;
  if (job.checks_collectives)
    problems.push_back({Severity::kWarning, "E230", path + " is DETAIL", value->place(),
                        "before each collective the hosts of its ranks check it with each other, "
                        "one after the other",
                        "set it only to find out which rank hangs"});
}

void choose_transformers(Draft& draft, const Value& document, Diagnostics& problems) {
  const auto version = said_version(document, "transformers", "4.44", problems);
  Job& job = draft.job();
  if (job.implementation == Implementation::kTransformers && job.model != nullptr &&
      !job.separate_experts)
    job.model = with_stacked_experts(job.model);
  if (!version) return;
  job.older_libraries = job.older_libraries || *version < kRecordedTransformers;
  job.rotary_of_layers = *version < Version{4, 48};
  job.shifted = *version >= Version{4, 49}   ? Shifted::kLabels
                : *version >= Version{4, 46} ? Shifted::kLogitsInLoss
                : *version >= Version{4, 31} ? Shifted::kWideLogits
                                             : Shifted::kNarrowLogits;
}

void choose_bitsandbytes(Draft& draft, const Value& document, Diagnostics& problems) {
  const auto version = said_version(document, "bitsandbytes", "0.42", problems);
  if (!version) return;
  draft.job().quantised_keeps_input = draft.job().quantised_from_fp16 = *version < Version{0, 43};
  draft.job().always_dequantises = *version < Version{0, 50};
}

void choose_torchtune(Draft& draft, const Value& document, Diagnostics& problems) {
  const auto version = said_version(document, "torchtune", "0.4", problems);
  if (version) draft.job().torchtune_before_0_5 = *version < Version{0, 5};
}

// The loss is compiled since April 2025, ends are wrapped apart since July (pytorch/torchtitan pull requests 1033, 1094).
void choose_torchtitan(Draft& draft, const Value& document, Diagnostics& problems) {
  const auto version = said_version(document, "torchtitan", "0.2", problems);
  if (!version) return;
  draft.job().torchtitan_before_0_1 = *version < Version{0, 1};
  draft.job().torchtitan_before_0_2 = *version < Version{0, 2};
}

// Published in June 2024, with the distributed optimizer's buffer of parameters (megatron/core/distributed/grad_buffer.py of
// 0.5.0, param_and_grad_buffer.py of 0.6.0).
void choose_megatron_core(Draft& draft, const Value& document, Diagnostics& problems) {
  const auto version = said_version(document, "megatron-core", "0.5", problems);
  if (version) draft.job().megatron_before_0_6 = *version < Version{0, 6};
}

void choose_flash_attn(Draft& draft, const Value& document, Diagnostics& problems) {
  const auto version = said_version(document, "flash-attn", "1.0", problems);
  if (version) draft.job().first_flash_attention = *version < Version{2, 0};
}

// A product adds into the sum until 0.6.1, and since 0.8.3 in 16 bits, since 0.8.1 into fp32 with what torch has since 2.8, where
// tensor cores do so; names of a chunk are dropped since 0.8.3 (linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py).
void choose_liger(Draft& draft, const Value& document, const Version& torch,
                  Diagnostics& problems) {
  const Version version =
      said_version(document, "liger-kernel", "0.8.0", problems).value_or(newest("liger-kernel"));
  LigerChunks& chunks = draft.job().liger_chunks;
  const bool adds_again = version >= Version{0, 8, 1};
  chunks.keeps_logits = version < Version{0, 8, 3};
  chunks.keeps_input = chunks.keeps_logits && adds_again;
  chunks.widens_logits = version < Version{0, 6, 2};
  if (chunks.widens_logits) return;
  const Device* device = draft.job().cluster.device.get();
  const bool old = device != nullptr && device->is_before_ampere();
  chunks.apart_narrow = chunks.keeps_logits || old;
  chunks.apart_wide = true;
  chunks.apart_cast = !adds_again || torch < Version{2, 8} || (version >= Version{0, 8, 2} && old);
}

void choose_allocator(Draft& draft, const Value& document, const Version& torch,
                      Diagnostics& problems) {
  Job& job = draft.job();
  const Device* device = job.cluster.device.get();
  const bool expands = device == nullptr || !device->is_amd() || torch >= kExpandableOnRocm;
  for (const std::string_view name : kAllocatorNames) {
    const Value* value = named(document, name);
    if (value == nullptr) continue;
    const std::string path = "environment." + std::string(name);
    if (!value->is_string()) {
      problems.push_back(not_text(*value, path, "expandable_segments:True"));
      return;
    }
    auto settings = read_allocator_settings(value->as_string(), path);
    if (!settings) {
      for (Diagnostic& problem : settings.error()) {
        problem.place = within(*value, problem.place);
        problems.push_back(std::move(problem));
      }
      return;
    }
    job.allocator = *settings;
    if (job.allocator.expandable_segments && !expands) {
      job.allocator.expandable_segments = false;
      problems.push_back({Severity::kWarning, "E220", "expandable_segments on " + device->name,
                          value->place(), "ROCm has them since torch 2.12: weighed without",
                          "environment.torch = \"2.12\", where that runs"});
    }
    return;
  }
  if (job.implementation != Implementation::kTorchtitan || !expands) return;
  job.allocator.expandable_segments = true;
  job.assumptions.push_back({"environment.PYTORCH_ALLOC_CONF", std::string(kTorchtitanSettings),
                             "torchtitan's launch script sets it"});
}

constexpr int kTwoSlips = 4;  // of edit_distance

// Layers of the gated delta rule are weighed with a kernel that few environments have.
void choose_delta_kernel(Draft& draft, const Value& document, Diagnostics& problems) {
  const auto said = said_version(document, "flash-linear-attention", "0.6", problems);
  const Job& job = draft.job();
  if (said || job.model == nullptr || job.implementation != Implementation::kTransformers) return;
  const std::vector<Layer>& layers = job.model->kinds;
  if (std::none_of(layers.begin(), layers.end(), [](const Layer& layer) {
        return std::holds_alternative<GatedDelta>(layer.attention);
      }))
    return;
  draft.warn(
      KeyId::kModel, "E267", "flash-linear-attention is taken for installed",
      "without it transformers keeps the chunks of its own gated delta rule: 113 KB more for each "
      "token and such layer of Qwen3.5 0.8B, recorded without checkpoints",
      "pip install flash-linear-attention, and environment.flash-linear-attention = \"0.6\"");
}

// A name of the environment that nobody reads: one that was meant to be another, or that changes what is allocated.
void warn_of_unread(const Value& document, Diagnostics& problems) {
  const Value* table = document.find("environment");
  if (table == nullptr || !table->is_table()) return;
  std::vector<std::string_view> names;
  for (const EnvironmentKey& key : environment_keys()) names.push_back(key.name);
  for (const Value::Member& member : table->members()) {
    const EnvironmentKey* known = find_environment_key(member.key);
    if (known != nullptr && known->is_read) continue;
    if (known != nullptr) {
      problems.push_back(
          {Severity::kWarning, "E263", fmt::format("environment.{} is not weighed", member.key),
           member.key_place(), std::string(known->changes), "the answer is for a run without it"});
      continue;
    }
    // Variables of the launch are carried; packages, in small letters, stand here to be read.
    std::vector<std::string> near;
    for (const std::string_view name : names)
      if (edit_distance(member.key, name) <= kTwoSlips) near.emplace_back(name);
    const bool of_a_package = std::none_of(member.key.begin(), member.key.end(),
                                           [](char c) { return c >= 'A' && c <= 'Z'; });
    if (near.empty() && !of_a_package) continue;
    const std::string meant = did_you_mean("name", near);
    problems.push_back(
        {Severity::kWarning, "E262", fmt::format("environment.{} is not read", member.key),
         member.key_place(), "carried, and without effect",
         meant.empty() ? "steelyard list environment shows the names that are read" : meant});
  }
}

}  // namespace

void peek_at_transformers(Draft& draft, const Value& document) {
  Diagnostics said_later;
  Job& job = draft.job();
  const auto version = said_version(document, "transformers", "4.44", said_later);
  job.separate_experts = job.implementation == Implementation::kTransformers &&
                         version.value_or(newest("transformers")) < Version{5, 0};
  const Version peft = said_version(document, "peft", "0.18", said_later).value_or(newest("peft"));
  job.expert_adapters = peft < Version{0, 19}   ? ExpertAdapters::kNone
                        : peft < Version{0, 21} ? ExpertAdapters::kApart
                                                : ExpertAdapters::kInOneProduct;
}

void choose_environment(Draft& draft, const Value& document, Diagnostics& problems) {
  const Version torch = choose_torch(draft, document, problems);
  choose_debug(draft, document, problems);
  choose_transformers(draft, document, problems);
  said_version(document, "peft", "0.18",
               problems);  // what it says stands since the adapters were read
  choose_bitsandbytes(draft, document, problems);
  choose_torchtune(draft, document, problems);
  choose_torchtitan(draft, document, problems);
  choose_megatron_core(draft, document, problems);
  choose_flash_attn(draft, document, problems);
  choose_liger(draft, document, torch, problems);
  choose_delta_kernel(draft, document, problems);
  choose_allocator(draft, document, torch, problems);
  warn_of_unread(document, problems);
}

}  // namespace steelyard
