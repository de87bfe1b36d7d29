// Any text as a run: a job whose products are right, or reasons why not.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>

#include "document/read.h"
#include "document/render.h"
#include "job/device_choice.h"
#include "job/keys.h"
#include "job/read.h"

namespace {

void look_at(const steelyard::Job& job) {
  const auto& parallel = job.parallel;
  if (job.model == nullptr || job.cluster.device == nullptr) std::abort();
  if (parallel.data * parallel.tensor * parallel.context * parallel.pipeline != job.cluster.devices)
    std::abort();
  if (job.training.micro_batch * job.training.gradient_accumulation * parallel.data !=
      job.training.global_batch)
    std::abort();
  const auto& stages = parallel.stage_layers;
  if (static_cast<std::int64_t>(stages.size()) != parallel.pipeline) std::abort();
  if (std::accumulate(stages.begin(), stages.end(), std::int64_t{0}) != job.model->layers)
    std::abort();
  if (job.training.sequence_length < 1) std::abort();
}

void look_at(const steelyard::Value& document) {
  const auto job = steelyard::read_job(document);
  if (job) {
    look_at(*job);
    for (const auto& warning : job->warnings) steelyard::render(warning);
    return;
  }
  if (job.error().empty() || job.error().front().severity != steelyard::Severity::kError)
    std::abort();
  steelyard::render(job.error(), "nothing weighed");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto document = steelyard::read_document(text, "run.toml")) {
    look_at(*document);
    steelyard::use_canonical_keys(*document);
    look_at(*document);
  }
  if (size < 80) {
    steelyard::Diagnostics problems;
    const auto device = steelyard::choose_device(text, {}, problems);
    if (device.has_value() != problems.empty()) std::abort();
  }
  return 0;
}
