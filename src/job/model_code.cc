#include "job/model_code.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/embedded.h"
#include "data/fact.h"

namespace steelyard {
namespace {

ModelCode read_code(const Fact& fact) {
  ModelCode code;
  code.title = fact["title"].text();
  code.versions = fact["version"].text();
  const std::string repository = fact["repo"].text();
  for (const Fact& family : fact["families"].items())
    code.families.push_back({family["model_type"].text(), family["since"].text(),
                             family.text_or("until", ""), family.text_or("repo", repository),
                             family["path"].text(), family.text_or("note", "")});
  return code;
}

}  // namespace

const CodedFamily* ModelCode::find(std::string_view model_type) const {
  const auto found = std::find_if(families.begin(), families.end(), [&](const CodedFamily& family) {
    return family.model_type == model_type;
  });
  return found == families.end() ? nullptr : &*found;
}

const ModelCode& code_of(Implementation implementation) {
  static const std::array<ModelCode, kImplementations> all = [] {
    std::array<ModelCode, kImplementations> read;
    for (std::size_t i = 0; i < kImplementations; ++i) {
      const std::string path =
          fmt::format("implementations/{}.json", name_of(static_cast<Implementation>(i)));
      const auto text = embedded_text(path);
      if (!text) throw DataError(path + " is missing");
      const FactFile file(path, *text);
      read[i] = read_code(file.root());
    }
    return read;
  }();
  return all[static_cast<std::size_t>(implementation)];
}

bool has_code_of(const Architecture& model, Implementation implementation) {
  return code_of(implementation).find(model.family) != nullptr;
}

std::string codes_with(std::string_view model_type) {
  std::vector<std::string> titles;
  for (std::size_t i = 0; i < kImplementations; ++i) {
    const ModelCode& code = code_of(static_cast<Implementation>(i));
    if (code.find(model_type) != nullptr) titles.push_back(code.title);
  }
  if (titles.empty()) return fmt::format("no code has {}", model_type);
  std::string text = titles.front();
  for (std::size_t i = 1; i < titles.size(); ++i)
    text += (i + 1 == titles.size() ? " and " : ", ") + titles[i];
  return fmt::format("{} {} {}", text, titles.size() == 1 ? "has" : "have", model_type);
}

std::optional<std::string> missing_code(const Job& job) {
  if (job.model == nullptr || has_code_of(*job.model, job.implementation)) return std::nullopt;
  return fmt::format("{} has no {}", code_of(job.implementation).title, job.model->family);
}

void warn_of_missing_code(Draft& draft) {
  const auto missing = missing_code(draft.job());
  if (!missing) return;
  const KeyId said = draft.has(KeyId::kImplementation) ? KeyId::kImplementation : KeyId::kEngine;
  draft.warn(said, "E245", *missing + ": weighed as if it had", "export refuses it",
             codes_with(draft.job().model->family));
}

}  // namespace steelyard
