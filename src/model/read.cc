#include "model/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "document/edit_distance.h"
#include "document/printable.h"
#include "model/config.h"
#include "model/families/families.h"
#include "model/families/unweighed.h"
#include "model/unread_tower.h"
#include "quantity/print.h"

namespace steelyard {
namespace {

// A nested text_config may leave out its own model_type: then the outer one says which language
// model it holds.
struct TextPart {
  std::string_view outer;
  std::string_view inner;
};
constexpr std::array kTextParts = {
    TextPart{"gemma3", "gemma3_text"},
    TextPart{"llama4", "llama4_text"},
    TextPart{"mistral3", "mistral"},
    TextPart{"qwen2_vl", "qwen2_vl_text"},
    TextPart{"qwen2_5_vl", "qwen2_5_vl_text"},
    TextPart{"qwen3_vl", "qwen3_vl_text"},
    TextPart{"qwen3_vl_moe", "qwen3_vl_moe_text"},
    TextPart{"qwen3_5", "qwen3_5_text"},
    TextPart{"qwen3_5_moe", "qwen3_5_moe_text"},
};

// Families that read the tower and the part of text themselves.
constexpr std::array<std::string_view, 3> kReadBothParts = {"llava", "clip", "siglip"};

// Parts of a multimodal file beside the language model; training them is another model.
constexpr std::array<std::string_view, 3> kTowers = {"vision_config", "audio_config",
                                                     "speech_config"};

struct Found {
  const Value* object = nullptr;
  const Value* type = nullptr;  // where the family was written
  std::string model_type;
};

std::string word_at(const Value* value) {
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

bool reads_both_parts(std::string_view model_type) {
  return std::find(kReadBothParts.begin(), kReadBothParts.end(), model_type) !=
         kReadBothParts.end();
}

Found find_object(const Value& document) {
  Found found{&document, document.find("model_type"), {}};
  found.model_type = word_at(found.type);
  if (reads_both_parts(found.model_type)) return found;
  const Value* text = document.find("text_config");
  if (text == nullptr || !text->is_table()) return found;
  const Value* inner = text->find("model_type");
  if (!word_at(inner).empty()) return {text, inner, word_at(inner)};
  for (const TextPart& part : kTextParts)
    if (part.outer == found.model_type) return {text, found.type, std::string(part.inner)};
  return found;
}

std::vector<std::string_view> family_names() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) names.push_back(family.model_type);
  return names;
}

void refuse_type(const Value& document, const Found& found, Diagnostics& diagnostics) {
  const std::vector<std::string_view> names = family_names();
  Diagnostic problem;
  problem.code = "E301";
  problem.label = "expected the name of a family";
  problem.help = fmt::format("known families: {}", any_of(names));
  if (found.type == nullptr) {
    problem.message = "\"model_type\" is missing: it says how the other keys are to be read";
    problem.place = document.place();
  } else if (!found.type->is_string()) {
    problem.message = fmt::format("\"model_type\" is {}", shown(*found.type));
    problem.place = found.type->place();
  } else {
    problem.place = found.type->place();
    if (const UnweighedFamily* family = find_unweighed(found.model_type)) {
      problem.message = fmt::format("the family \"{}\" is not weighed yet", found.model_type);
      problem.label = fmt::format("it has {}", family->needs);
      diagnostics.push_back(std::move(problem));
      return;
    }
    problem.message = fmt::format("\"{}\" is not a model family known here", found.model_type);
    const auto near = nearest_names(found.model_type, names);
    if (!near.empty())
      problem.help = fmt::format("{}; {}", did_you_mean("nearest family", near), problem.help);
  }
  diagnostics.push_back(std::move(problem));
}

// What holds a text_config is named by itself. Many such models are not known here, and their language model is weighed all
// the same, but a name that is almost a known one is a slip.
bool refuse_misspelt_outer(const Value& document, Diagnostics& diagnostics) {
  const Value* type = document.find("model_type");
  const std::string outer = word_at(type);
  if (type == nullptr || find_family(outer) != nullptr || find_unweighed(outer) != nullptr)
    return false;
  std::vector<std::string_view> names = family_names();
  for (const TextPart& part : kTextParts) names.push_back(part.outer);
  if (std::find(names.begin(), names.end(), outer) != names.end()) return false;
  const auto near = nearest_names(outer, names);
  if (near.empty() && !outer.empty()) return false;
  diagnostics.push_back(
      {Severity::kError, "E301", fmt::format("\"{}\" is not a model family known here", outer),
       type->place(), "expected the name of a family", did_you_mean("nearest family", near)});
  return true;
}

std::string not_counted(const Value& tower) {
  const auto parameters = count_unread_tower(tower);
  if (!parameters) return "not counted";
  return fmt::format("{} parameters beside it, and what they compute, are not counted",
                     print_parameters(*parameters));
}

void warn_of_towers(const Value& document, Diagnostics& diagnostics) {
  for (const std::string_view tower : kTowers) {
    const Value::Member* member = document.member(tower);
    if (member == nullptr || !member->value.is_table()) continue;
    diagnostics.push_back(
        {Severity::kWarning,
         "E641",
         fmt::format("\"{}\" is not read: only the language model is counted", tower),
         member->key_place(),
         not_counted(member->value),
         {}});
  }
}

void refuse_overflow(const Value& object, Diagnostics& diagnostics) {
  diagnostics.push_back(
      {Severity::kError, "E307", "the sizes multiply to more than 9,223,372,036,854,775,807",
       object.place(), "a model of 64-bit counts at most", "one of the sizes has digits too many"});
}

}  // namespace

std::optional<Architecture> read_architecture(const Value& document, std::string name,
                                              Diagnostics& diagnostics) {
  if (!document.is_table()) {
    diagnostics.push_back({Severity::kError,
                           "E303",
                           fmt::format("a model is described by a table of keys, this is {}",
                                       name_of(document.kind())),
                           document.place(),
                           "expected a table",
                           {}});
    return std::nullopt;
  }
  const Found found = find_object(document);
  const Family* family = find_family(found.model_type);
  if (family == nullptr) {
    refuse_type(document, found, diagnostics);
    return std::nullopt;
  }
  if (found.object != &document && refuse_misspelt_outer(document, diagnostics))
    return std::nullopt;

  Config config(*found.object, diagnostics);
  config.know({"model_type", "text_config", "vision_config", "audio_config", "speech_config"});
  Architecture model;
  try {
    model = family->read(config);
    config.warn_of_unknown_keys(found.model_type);
    if (!reads_both_parts(found.model_type)) warn_of_towers(document, diagnostics);
    if (config.failed()) return std::nullopt;
    count_parameters(model);
  } catch (const OverflowError&) {
    refuse_overflow(*found.object, diagnostics);
    return std::nullopt;
  }
  model.name = printable(name);
  model.family = found.model_type;
  return model;
}

}  // namespace steelyard
