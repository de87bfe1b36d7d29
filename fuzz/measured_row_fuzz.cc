// Any line as a row of measurements or a record: a run file with readings that make sense, a reason, or an error with a place.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "document/read.h"
#include "job/read.h"
#include "sources/sources.h"
#include "validate/own_runs.h"
#include "validate/record.h"
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

// Published tables' mappers, and that of users' own lines.
const steelyard::RowSources& all_sources() {
  static const steelyard::RowSources kSources = [] {
    steelyard::RowSources sources = steelyard::row_sources();
    sources.push_back(steelyard::own_runs().front());
    return sources;
  }();
  return kSources;
}

bool is_small(const steelyard::Value& document) {
  if (steelyard::is_record(document)) {
    const auto mapped = steelyard::map_record(document);
    return mapped && is_small(*mapped);
  }
  bool some = false;
  for (const steelyard::RowSource& source : all_sources()) {
    steelyard::MeasuredRow row(document);
    if (!source.owns(row)) continue;
    const steelyard::Mapped mapped = source.map(row);
    if (!mapped && mapped.error().why.empty()) std::abort();
    if (mapped && !is_small(*mapped)) return false;
    some = some || mapped;
  }
  return some;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = steelyard::read_json(text, "rows.jsonl:1");
  if (!document || !is_small(*document)) return 0;
  const auto judged = steelyard::judge(*document, "row", all_sources());
  if (!judged) {
    // Recognised by its id, and still no row: it does not say where it was printed.
    if (judged.error().message.empty()) std::abort();
    return 0;
  }
  steelyard::Validation validation(all_sources());
  for (const steelyard::JudgedRow& row : *judged) {
    if (row.weighed() == (!row.refused.empty() || !row.left_out.empty())) std::abort();
    validation.add(row);
  }
  for (const steelyard::SourceResult& result : validation.results(3))
    if (result.rows != result.weighed + result.refused + result.left_out) std::abort();
  return 0;
}
