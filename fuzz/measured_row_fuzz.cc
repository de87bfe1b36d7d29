// Any line as a row of measurements or a record: a run file with readings that make sense, a reason, or an error with a place.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "document/read.h"
#include "job/read.h"
#include "validate/record.h"
#include "validate/sources/sources.h"
#include "validate/validate.h"

namespace {

// A prediction of a thousand stages, or of micro-batches of many lengths, is right and slow: the search is for readers'
// faults.
constexpr std::int64_t kFewStages = 16;

bool is_small(const steelyard::MappedRun& mapped) {
  if (!mapped.run.is_table()) std::abort();
  for (const steelyard::Reading& reading : mapped.readings)
    if (reading.bytes <= steelyard::Bytes(0)) std::abort();
  const auto job = steelyard::read_job(mapped.run);
  return job && job->parallel.pipeline <= kFewStages && !job->training.lengths;
}

bool is_small(const steelyard::Value& document) {
  if (steelyard::is_record(document)) {
    const auto mapped = steelyard::map_record(document);
    return mapped && is_small(*mapped);
  }
  steelyard::MeasuredRow row(document);
  const steelyard::RowSource* source = steelyard::source_of(row);
  if (source == nullptr) return false;
  const steelyard::Mapped mapped = source->map(row);
  if (!mapped && mapped.error().empty()) std::abort();
  return mapped && is_small(*mapped);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = steelyard::read_json(text, "rows.jsonl:1");
  if (!document || !is_small(*document)) return 0;
  const auto judged = steelyard::judge_row(*document, "row");
  if (!judged) {
    // Recognised by its id, and still no row: it does not say where it was printed.
    if (judged.error().message.empty()) std::abort();
    return 0;
  }
  if (judged->weighed() == !judged->refused.empty()) std::abort();
  steelyard::Validation validation;
  validation.add(*judged);
  for (const steelyard::SourceResult& result : validation.results(3))
    if (result.rows != result.weighed + result.refused + result.left_out) std::abort();
  return 0;
}
