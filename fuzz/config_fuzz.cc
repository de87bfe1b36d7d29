// Any text as a config.json, and any word as the name of a model: an architecture, or reasons why not.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "document/read.h"
#include "model/catalogue.h"
#include "model/read.h"
#include "model/sequence.h"

namespace {

// What is not refused can be counted and walked.
void look_at(const steelyard::Architecture& model) {
  const auto counts = steelyard::count_parameters(model);
  if (counts.total <= 0 || counts.active <= 0 || counts.active > counts.total) std::abort();
  const auto kinds = steelyard::kind_of_each_layer(model);
  if (static_cast<std::int64_t>(kinds.size()) != model.layers) std::abort();
}

bool has_error(const steelyard::Diagnostics& problems) {
  for (const auto& problem : problems)
    if (problem.severity == steelyard::Severity::kError) return true;
  return false;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto document = steelyard::read_document(text, "config.json")) {
    steelyard::Diagnostics problems;
    const auto model = steelyard::read_architecture(*document, "fuzz", problems);
    if (model.has_value() == has_error(problems)) std::abort();
    if (model) look_at(*model);
  }
  if (size <= 200) {
    steelyard::Diagnostics problems;
    const auto found = steelyard::find_model(text, steelyard::Place{}, problems);
    if (found.has_value() == has_error(problems)) std::abort();
    if (found) look_at(*found->architecture);
  }
  return 0;
}
