// Any run file that can be read, exported to each target and imported again: no crash, the script can be read, and what differs
// then was said, as left out by the export or in the report of the import.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "document/read.h"
#include "formats/launch/launch.h"
#include "job/job.h"
#include "job/keys.h"
#include "job/read.h"

namespace {

constexpr std::size_t kMostText = 256 * 1024;

// What divides and sizes a run; everything else of it follows or is carried.
bool is_same_run(const steelyard::Job& a, const steelyard::Job& b) {
  const auto& p = a.parallel;
  const auto& q = b.parallel;
  return a.engine == b.engine && a.model->layers == b.model->layers &&
         count_parameters(*a.model).total == count_parameters(*b.model).total &&
         p.zero_stage == q.zero_stage && p.data == q.data && p.tensor == q.tensor &&
         p.context == q.context && p.pipeline == q.pipeline && p.expert == q.expert &&
         a.training.micro_batch == b.training.micro_batch &&
         a.training.global_batch == b.training.global_batch &&
         a.training.sequence_length == b.training.sequence_length &&
         a.recompute.mode == b.recompute.mode && a.adapter.has_value() == b.adapter.has_value();
}

void export_and_import(const steelyard::Value& whole, const steelyard::Job& job,
                       std::string_view target) {
  const steelyard::Exported exported = steelyard::export_launch(whole, target);
  if (!exported.problems.empty()) return;
  for (const auto& loss : exported.losses) steelyard::words_of(loss);
  if (exported.files.empty() || exported.script.empty()) std::abort();
  const steelyard::Imported again = steelyard::import_launch(exported.script, "launch.sh");
  steelyard::import_report(again);
  if (again.failed()) return;  // it says why
  const steelyard::ReadJob read = steelyard::read_job(again.run);
  if (!read) return;  // so does this
  const bool said = !exported.losses.empty() || !again.problems.empty() || !again.unsaid.empty() ||
                    !read->warnings.empty();
  if (said || is_same_run(job, *read)) return;
  std::fprintf(stderr, "another run, in silence: %.*s\n", static_cast<int>(target.size()),
               target.data());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kMostText) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = steelyard::read_document(text, "run.toml");
  if (!document) return 0;
  steelyard::Value run = *document;
  steelyard::use_canonical_keys(run);
  for (const std::string_view target : steelyard::export_targets()) {
    steelyard::Value settled = run;
    steelyard::settle_for(settled, target);
    const steelyard::ReadJob job = steelyard::read_job(settled);
    if (job) export_and_import(completed(settled, *job), *job, target);
  }
  return 0;
}
